"""Check the wheel and the sdist in a folder: metadata, contents, version, and that the wheel can be imported.

python .ci/check_dist.py dist
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
REQUIRED = ("Name", "Version", "Summary", "License-Expression", "Requires-Python", "Description-Content-Type")
IN_WHEEL = ("blockmix/__init__.py", "blockmix/py.typed", "blockmix/report/page/page.html")
IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "src/blockmix/py.typed", "tests")
FOREIGN = re.compile(r"(^|/)(\.venv|__pycache__|\.git|demo-output|_build)(/|$)|\.py[co]$")


def check_metadata(text: str, version: str) -> None:
    fields = email.message_from_string(text)
    missing = [name for name in REQUIRED if not fields[name]]
    assert not missing, f"metadata without {missing}"
    assert fields["Version"] == version, f"version {fields['Version']} instead of {version}"
    assert len(fields.get_payload()) > 1000, "the description is not the README"
    assert fields["Description-Content-Type"].startswith("text/markdown")


def check_names(names: list[str], wanted: tuple[str, ...]) -> None:
    missing = [name for name in wanted if not any(found == name or found.startswith(f"{name}/") for found in names)]
    assert not missing, f"without {missing}"
    foreign = [name for name in names if FOREIGN.search(name)]
    assert not foreign, f"with {foreign[:5]}"


def main() -> None:
    folder = Path(sys.argv[1])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    source = (ROOT / "src" / "blockmix" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'__version__ = "(.+)"', source)[1]
    about = f"blockmix-{version}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        check_names(names, (*IN_WHEEL, f"{about}/METADATA", f"{about}/licenses/LICENSE"))
        others = {name.partition("/")[0] for name in names} - {"blockmix", about}
        assert not others, f"the wheel installs {others}"
        check_metadata(archive.read(f"{about}/METADATA").decode(), version)
        assert "blockmix = blockmix.command:main" in archive.read(f"{about}/entry_points.txt").decode()
    with tarfile.open(sdist) as archive:
        top = f"blockmix-{version}/"
        check_names([name.removeprefix(top) for name in archive.getnames()], IN_SDIST)
        check_metadata(archive.extractfile(f"{top}PKG-INFO").read().decode(), version)
    with tempfile.TemporaryDirectory() as empty:
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(empty)
        # From the wheel alone: neither the checkout nor the installed package may answer.
        code = (
            f"import sys; sys.path.insert(0, {empty!r}); import blockmix; from blockmix.command.app import app; "
            f"assert blockmix.__file__.startswith({empty!r}); blockmix.GaussianBiclustering; blockmix.show_versions()"
        )
        subprocess.run([sys.executable, "-c", code], check=True, cwd=empty, stdout=subprocess.DEVNULL)
    for path in (wheel, sdist):
        print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB, checked")


if __name__ == "__main__":
    main()
