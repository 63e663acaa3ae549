"""Tables of imports of loaded libraries, read and changed."""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.runtime.imports import imports_of, redirect
from tazza.runtime.openmp import own_functions
from tazza.runtime.team import team_unavailable

pytestmark = pytest.mark.skipif(team_unavailable() is not None, reason=str(team_unavailable()))

_LIBM_USER = """
import ctypes, sys
from tazza.runtime.imports import imports_of, redirect
ctypes.CDLL("libm.so.6")
library = ctypes.CDLL("libstdc++.so.6")
found = {entry.name: entry.address for entry in imports_of(library._handle)}
def address(name):
    return ctypes.cast(ctypes.CDLL(None)[name], ctypes.c_void_p).value
print(found["free"] == address("free"))
print(redirect(library._handle, {"free": (1, 2), "nonsense": (1, 2)}))
print(redirect(library._handle, {"getc": (found["getc"], address("getchar"))}))
print({entry.name: entry.address for entry in imports_of(library._handle)}["getc"] == address("getchar"))
"""


def test_imports_are_found_and_only_what_is_expected_is_changed() -> None:
    done = subprocess.run([sys.executable, "-c", _LIBM_USER], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["True", "set()", "{'getc'}", "True", ""]


def test_tables_that_are_read_only_stay_so() -> None:
    onednn = pytest.importorskip("tazza.engines.onednn.library")
    if onednn.unavailable() is not None:
        pytest.skip(onednn.unavailable())
    library = ctypes.CDLL(str(onednn.library_path()))
    entry = next(entry for entry in imports_of(library._handle) if entry.name == "GOMP_parallel_start")
    mapped = [line.split() for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()]
    spans = [(int(span.split("-")[0], 16), int(span.split("-")[1], 16), rights) for span, rights, *_ in mapped]
    assert [rights[:2] for first, end, rights in spans if first <= entry.at < end] == ["r-"]
    assert redirect(library._handle, {}) == set()


def test_regions_of_onednn_are_ours() -> None:
    library = importlib.import_module("tazza.engines.onednn.library")
    if library.unavailable() is not None:
        pytest.skip(library.unavailable())
    handle = ctypes.CDLL(str(library.library_path()))._handle
    ours = own_functions()
    found = {entry.name: entry.address for entry in imports_of(handle) if entry.name in ours}
    assert {"GOMP_parallel_start", "GOMP_barrier", "omp_get_thread_num"} <= found.keys()
    assert found == {name: ours[name] for name in found}
