"""Speaking: what a person is told besides the result, on standard error, one line each.

Exceptions and warnings of the package come in; sentences go out, in the words of the command line.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

# Parameters of the estimators as options of the command.
_WORDS = [
    (r"by extend\(n_components=range\((\d+), (\d+)\)\) of the table", r"such as --components \1:\2"),
    (r"by extend\(n_column_groups=range\((\d+), (\d+)\)\) of the table", r"such as --groups \1:\2"),
    (r"\bn_components=", "--components "),
    (r"\b(n_column_groups|n_groups)=", "--groups "),
    (r"\bshrinkage=", "--shrinkage "),
    (r"\bmax_iter=", "--max-iter "),
    (r"raise max_iter or tol", "raise --max-iter"),
    (r"\bn_topics=", "--topics "),
    (r"\bn_term_groups=", "--groups "),
]


def note(text: str) -> None:
    """Say something on standard error."""
    print(text, file=sys.stderr)


def worded(text: object) -> str:
    """A sentence of the package in one line, with options instead of parameters.

    Examples
    --------
    >>> worded("n_components=9 exceeds the 8 rows of X")
    '--components 9 exceeds the 8 rows of X'
    """
    line = " ".join(str(text).split())
    for pattern, option in _WORDS:
        line = re.sub(pattern, option, line)
    return line


@contextmanager
def errors_told() -> Iterator[None]:
    """End the command with one sentence and exit code 1 where something is wrong with the data or the fit."""
    try:
        yield
    except KeyboardInterrupt:
        note("blockmix: interrupted, nothing was written")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        raise
    except MemoryError as error:
        raise _ended(worded(error) or "not enough memory for this table") from None
    except typer.Exit:
        raise
    except Exception as error:
        if os.environ.get("BLOCKMIX_TRACEBACK"):
            raise
        raise _ended(_sentence(error)) from None


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror}"
    if isinstance(error, (ValueError, OSError, ImportError, TypeError)):
        return worded(error)
    told = f"{type(error).__name__}: {worded(error)}"
    return f"this should not happen, please report it ({told}); BLOCKMIX_TRACEBACK=1 shows where it happened"


def _ended(sentence: str) -> typer.Exit:
    note(f"blockmix: {sentence}")
    return typer.Exit(1)


@contextmanager
def warnings_heard() -> Iterator[list[str]]:
    """Collect the warnings of a block, each text once, and say them at its end."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield texts
    texts.extend(dict.fromkeys(worded(warning.message) for warning in caught))
    for text in texts:
        note(f"warning: {text}")
