"""Tables of imports of loaded libraries, read and changed."""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.runtime.imports import imports_of
from tazza.runtime.openmp import own_functions
from tazza.runtime.team import team_unavailable

pytestmark = pytest.mark.skipif(team_unavailable() is not None, reason=str(team_unavailable()))

_CHANGE = """
import ctypes, sys
from tazza.runtime.imports import imports_of, redirect
library = ctypes.CDLL("libstdc++.so.6")
found = {entry.name: entry.address for entry in imports_of(library._handle)}
def address(name):
    return ctypes.cast(ctypes.CDLL("libc.so.6")[name], ctypes.c_void_p).value  # a program may have a stub of its own
print(found["free"] == address("free"))
getc = (found["getc"], address("getchar"))
print(redirect(imports_of(library._handle), {"getc": getc, "free": (1, 2)}))
print({entry.name: entry.address for entry in imports_of(library._handle)} == found)
print(redirect(imports_of(library._handle), {"getc": getc}))
print({entry.name: entry.address for entry in imports_of(library._handle)} == found | {"getc": getc[1]})
"""


@pytest.mark.slow
def test_all_entries_are_changed_or_none() -> None:
    done = subprocess.run([sys.executable, "-c", _CHANGE], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["True", "False", "True", "True", "True", ""]


def test_tables_that_are_read_only_stay_so() -> None:
    onednn = pytest.importorskip("tazza.engines.onednn.library")
    if onednn.unavailable() is not None:
        pytest.skip(onednn.unavailable())
    library = ctypes.CDLL(str(onednn.library_path()))
    entry = next(entry for entry in imports_of(library._handle) if entry.name == "GOMP_parallel_start")
    mapped = [line.split() for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
    spans = [(int(span.split("-")[0], 16), int(span.split("-")[1], 16), rights) for span, rights, *_ in mapped]
    assert [rights[:2] for first, end, rights in spans if first <= entry.at < end] == ["r-"]


def test_regions_of_onednn_are_ours() -> None:
    library = importlib.import_module("tazza.engines.onednn.library")
    if library.unavailable() is not None:
        pytest.skip(library.unavailable())
    handle = ctypes.CDLL(str(library.library_path()))._handle
    ours = own_functions()
    named = list(imports_of(handle, "GOMP_", "omp_"))
    assert named == [entry for entry in imports_of(handle) if entry.name.startswith(("GOMP_", "omp_"))]
    found = {entry.name: entry.address for entry in named if entry.name in ours}
    assert {"GOMP_parallel_start", "GOMP_barrier", "omp_get_thread_num"} <= found.keys()
    assert found == {name: ours[name] for name in found}


_KEEPS = """
import logging, sys
logging.basicConfig(stream=sys.stdout, format="%(message)s")
from tazza.runtime import openmp
from tazza.engines.onednn import library
if sys.argv[1] == "elsewhere":
    openmp._library_address = lambda name: 7
elif sys.argv[1] == "unknown":
    del openmp.own_functions()["GOMP_barrier"]
else:
    def refuse(*_): raise OSError("the table cannot be written")
    openmp.redirect = refuse
ours = openmp.own_functions()
print(library.unavailable(), openmp.has_library_regions())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("elsewhere", "do not come from libgomp"),
        ("unknown", "calls GOMP_barrier"),
        ("refused", "the table cannot be written"),
    ],
)
def test_a_library_that_cannot_be_changed_keeps_libgomps_regions(case: str, reason: str) -> None:
    code = _KEEPS.replace("openmp._library_address =", "openmp.own_functions(); openmp._library_address =")
    done = subprocess.run([sys.executable, "-c", code, case], capture_output=True, text=True, check=True)
    warning, state = done.stdout.strip().split("\n")
    assert reason in warning
    assert state == "None True"
