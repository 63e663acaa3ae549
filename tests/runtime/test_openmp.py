"""The OpenMP runtime: its threads belong to the calling thread."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from tazza.errors import UnavailableError
from tazza.runtime import openmp

pytestmark = pytest.mark.skipif(openmp.openmp_unavailable() is not None, reason=str(openmp.openmp_unavailable()))


@pytest.fixture(autouse=True)
def former_threads() -> Iterator[None]:
    former = openmp.openmp_threads()
    yield
    openmp.set_openmp_threads(former)


def test_what_is_set_is_read() -> None:
    openmp.set_openmp_threads(3)
    assert openmp.openmp_threads() == 3


def test_other_threads_keep_theirs() -> None:
    openmp.set_openmp_threads(5)
    seen: list[int] = []

    def other() -> None:
        openmp.set_openmp_threads(2)
        seen.append(openmp.openmp_threads())

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert (seen, openmp.openmp_threads()) == ([2], 5)


def test_address_is_that_of_the_function() -> None:
    address = openmp.openmp_address("omp_set_num_threads")
    ctypes.CFUNCTYPE(None, ctypes.c_int)(address)(4)
    assert openmp.openmp_threads() == 4


def test_unknown_function() -> None:
    with pytest.raises(UnavailableError, match="no function 'omp_nonsense'"):
        openmp.openmp_address("omp_nonsense")


def test_missing_library_has_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openmp, "_library", lambda: OSError("no such file"))
    assert "libgomp1" in str(openmp.openmp_unavailable())
    with pytest.raises(UnavailableError, match="cannot be loaded"):
        openmp.openmp_threads()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, "'5000'"), ({"GOMP_SPINCOUNT": "7"}, "'7'"), ({"OMP_WAIT_POLICY": "passive"}, "'0'")],
)
def test_threads_wait_as_the_user_says_else_briefly(given: dict[str, str], expected: str) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in openmp.WAITING}
    code = "import os; from tazza.runtime.openmp import openmp_threads; openmp_threads(); print(os.environ)"
    told = {**kept, **given, "OMP_DISPLAY_ENV": "VERBOSE"}
    done = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True)
    assert f"GOMP_SPINCOUNT = {expected}" in done.stderr
    assert ("GOMP_SPINCOUNT" in done.stdout) == ("GOMP_SPINCOUNT" in given)  # children choose for themselves


@pytest.mark.slow
def test_without_teams_of_our_own_regions_are_the_librarys() -> None:
    code = (
        "import ctypes; from tazza.runtime.openmp import LIBRARY, openmp_address\n"
        "from tazza.engines.onednn import library\n"
        "there = ctypes.cast(ctypes.CDLL(LIBRARY)['GOMP_parallel'], ctypes.c_void_p).value\n"
        "print(openmp_address('GOMP_parallel') == there, library.unavailable())"
    )
    told = {**os.environ, "TAZZA_OWN_TEAMS": "false"}
    done = subprocess.run([sys.executable, "-c", code], env=told, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True ")
