"""What a person waits for before the first result, in processor time; each line is a process of its own.

    python benchmarks/startup.py

The first fit of Wine on a machine, which compiles, and then the first one with missing values and in single precision;
a process that fits once with compiled loops in place, beyond the import of scikit-learn and a second fit; and
`blockmix --help` against `import numpy`, in turns.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from turns import in_turns

FITS = """
import time, warnings
import numpy as np
import sklearn.mixture
from sklearn.datasets import load_wine
X = load_wine().data
holes = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
warnings.simplefilter("ignore")
start = time.process_time()
from blockmix import GaussianBiclustering
from numba.core import event
for name, table in {"first": X, "again": X, "missing values": holes, "float32": X.astype("f4")}.items():
    with event.install_recorder("numba:compile") as compiled:
        GaussianBiclustering(3, random_state=0).fit(table)
    now = time.process_time()
    print(f"{name}: {now - start:.2f} s, compiled {sum(e.is_start for _, e in compiled.buffer)}", end="; ")
    start = now
"""


def run(*arguments: str) -> None:
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for name in ("nothing compiled", "all compiled"):
            print(name, end=": ", flush=True)
            subprocess.run([sys.executable, "-c", FITS], check=True, env={**os.environ, "NUMBA_CACHE_DIR": folder})
            print()
    code = "from blockmix.command import main; main(['--help'])"  # as the installed command starts
    for name, command in {"blockmix --help": code, "import blockmix": "import blockmix"}.items():
        ours, numpy, ratio = in_turns(lambda command=command: run("-c", command), lambda: run("-c", "import numpy"), 15)
        print(f"{name}: {ours:.3f} s, import numpy: {numpy:.3f} s: {ratio:.2f} x")
