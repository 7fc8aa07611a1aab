"""The command `blockmix`: row clusters and column groups of a table, without writing Python."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from blockmix.command.output import ENDING, check_output, end, guard_streams, note, signals

__all__ = ["main", "show_versions", "warm_up"]


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command; `arguments` are those of the process by default."""
    guard_streams()
    code: Any = 0
    try:
        from blockmix.command.app import app

        for number in (signal.SIGINT, *ENDING):
            if signal.getsignal(number) in (signal.default_int_handler, signal.SIG_DFL):  # else ignored, as under nohup
                signal.signal(number, end)
        words = sys.argv[1:] if arguments is None else list(arguments)
        app(words, prog_name="blockmix", obj=shlex.join(["blockmix", *words]))
    except ModuleNotFoundError as error:
        note(f"blockmix: {error.name} is needed and not installed: pip install 'blockmix[app]'")
        code = 1
    except KeyboardInterrupt:  # before a command has begun
        code = 130
    except SystemExit as ended:
        # An error on the way out, such as a failed import, does not change why the command ended.
        code = next((128 + number for number in signals if number in ENDING), ended.code)
    try:
        check_output()
    except OSError as error:  # the results are in files
        if not code:
            note(f"warning: {error}")
    for number in (signal.SIGINT, *ENDING):  # everything is done: let Python exit with this code
        signal.signal(number, signal.SIG_IGN)
    raise SystemExit(code)


def show_versions() -> None:
    """Print the versions of Python, of blockmix and of the packages that it uses; paste them into a bug report."""
    import platform
    from importlib import metadata  # slow to import, and the command's help does not need it

    needed = ("blockmix", "numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl", "numba")
    extras = ("pandas", "pyarrow", "matplotlib", "typer", "rich", "openpyxl", "dask", "distributed", "anndata")
    lines = {"python": platform.python_version(), "system": platform.platform(), "processors": str(os.cpu_count())}
    for name in (*needed, *extras):
        try:
            lines[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            lines[name] = "not installed"
    for name, version in lines.items():
        print(f"{name:>14}: {version}")


def warm_up() -> None:
    """Compile the loops of a fit and store them, so that other processes only load them.

    The first fit on a machine does the same for the loops that it needs. Call this where an image or an environment is
    made; `blockmix warm-up` is the same from a shell.
    """
    import warnings

    import numpy as np

    from blockmix.estimators.covariance import BlockDiagonalCovariance
    from blockmix.estimators.gaussian import GaussianBiclustering

    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 6)) + np.repeat([[0.0], [4.0]], 30, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what tables of noise may say
        for table in (X, np.where(rng.random(X.shape) < 0.2, np.nan, X).round(1), X.astype(np.float32)):
            GaussianBiclustering(2, random_state=0).fit(table)
        GaussianBiclustering(2, tails="t", random_state=0).fit(X)
        BlockDiagonalCovariance().fit(X)
