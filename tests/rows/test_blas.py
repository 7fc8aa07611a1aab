"""BLAS threads: one while our own threads work, and afterwards as many as before."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from threadpoolctl import ThreadpoolController, threadpool_limits

from blockmix.rows import one_blas_thread


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"}


@pytest.fixture
def two_blas_threads(request: pytest.FixtureRequest) -> Iterator[None]:
    """BLAS with two threads, so that one is a change even where the suite runs with one."""
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:  # seen after other tests of the same process: a new one decides
            again = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", request.node.nodeid]
            subprocess.run(again, cwd=request.config.rootpath, check=True)
            pytest.skip("passed in a process of its own")
        yield


@pytest.mark.usefixtures("two_blas_threads")
def test_blas_has_one_thread_inside_and_its_own_number_afterwards() -> None:
    with one_blas_thread():
        assert blas_threads() == {1}
        with one_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_blas_has_its_threads_back_after_an_error(error: type[BaseException]) -> None:
    with pytest.raises(error), one_blas_thread():
        raise error
    assert blas_threads() == {2}


@pytest.mark.usefixtures("two_blas_threads")
def test_two_fits_that_overlap_leave_blas_as_it_was() -> None:
    # Red if each restores what it found: the second found one thread, and ends last.
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}
