"""Time of `blockmix --help` against `python -c "import numpy"`, in turns.

python benchmarks/startup.py
"""

from __future__ import annotations

import subprocess
import sys

from turns import in_turns


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    code = "from blockmix.command import main; main(['--help'])"  # as the installed command starts
    for name, command in {"blockmix --help": code, "import blockmix": "import blockmix"}.items():
        ours, numpy, ratio = in_turns(lambda command=command: run("-c", command), lambda: run("-c", "import numpy"), 15)
        print(f"{name}: {ours:.3f} s, import numpy: {numpy:.3f} s: {ratio:.2f} x")
