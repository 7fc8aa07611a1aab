"""Messages on standard error: notes, warnings and errors, one line each.

Errors and warnings of the package are put in terms of the command's options.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import typer

# Parameters of the estimators, and the options of the command that set them.
_OPTIONS = [
    (r"by extend\(n_components=range\((\d+), (\d+)\)\) of the table", r"such as --components \1:\2"),
    (r"by extend\(n_column_groups=range\((\d+), (\d+)\)\) of the table", r"such as --groups \1:\2"),
    (r"extend\(\) of the table continues", "the best of them is kept"),
    (r"the stability of GaussianBiclustering\(1\)", "blockmix fit --components 1 --stability"),
    (r"\bn_components=", "--components "),
    (r"\b(n_column_groups|n_groups)=", "--groups "),
    (r"\bshrinkage=", "--shrinkage "),
    (r"\bmax_iter=", "--max-iter "),
    (r"raise max_iter or tol", "raise --max-iter"),
    (r"\bn_topics=", "--topics "),
    (r"\bn_term_groups=", "--groups "),
]


def note(text: str) -> None:
    """Print a line on standard error."""
    print(text, file=sys.stderr)


def in_terms_of_options(text: object) -> str:
    """A message of the package as one line, with options instead of parameters.

    Examples
    --------
    >>> in_terms_of_options("n_components=9 exceeds the 8 rows of X")
    '--components 9 exceeds the 8 rows of X'
    """
    line = " ".join(str(text).split())
    for pattern, option in _OPTIONS:
        line = re.sub(pattern, option, line)
    return line


@contextmanager
def errors_reported() -> Iterator[None]:
    """End the command with one sentence and exit code 1 if the data or the fit are at fault, 130 after Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt as error:
        note(", ".join(["blockmix: interrupted", *error.args]))
        raise typer.Exit(130) from None
    except typer.Exit:
        raise
    except Exception as error:
        if os.environ.get("BLOCKMIX_TRACEBACK"):
            raise
        note(f"blockmix: {_sentence(error)}")
        raise typer.Exit(1) from None


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'a file'}: {error.strerror}"
    text = in_terms_of_options(error)
    if isinstance(error, MemoryError):
        return text or "not enough memory for this table"
    if isinstance(error, (ValueError, OSError, ImportError, TypeError)):
        return text
    return (
        f"this is a bug, please report it ({type(error).__name__}: {text}); BLOCKMIX_TRACEBACK=1 shows where it "
        "happened"
    )


@contextmanager
def warnings_collected() -> Iterator[list[str]]:
    """Collect the warnings of a block, each text once, and print them at its end."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        yield texts
    texts.extend(dict.fromkeys(in_terms_of_options(warning.message) for warning in caught))
    for text in texts:
        note(f"warning: {text}")
