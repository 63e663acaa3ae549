"""Finding and loading the library, statuses, and forks."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.engines.onednn import library
from tazza.errors import KernelError, UnavailableError
from tazza.operator import ENGINES

MISSING = library.unavailable()
needs_library = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def run(code: str, **environment: str) -> str:
    """Run code in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_library
def test_version_and_path_are_those_of_the_wheel() -> None:
    assert library.version() >= (3, 2, 0)
    assert library.library_path().name.startswith("libdnnl.so")
    assert library.constant("DNNL_VERSION_MAJOR") == library.version()[0]


@needs_library
def test_the_library_of_the_wheel_has_no_threadpool_of_ours_to_take() -> None:
    """As docs/threads.md says; one that has is to be held against regions of our own."""
    with pytest.raises(library.Unimplemented, match="no function dnnl_threadpool_interop"):
        _ = library.lib.dnnl_threadpool_interop_stream_create
    assert b"dnnl_threadpool_interop" not in library.library_path().read_bytes()


@pytest.mark.slow
@needs_library
def test_importing_the_package_loads_nothing() -> None:
    code = (
        "import sys, tazza.engines.onednn\n"
        "maps = open('/proc/self/maps').read()\n"
        "print('libdnnl' in maps, '_cffi_backend' in sys.modules)"
    )
    assert run(code).split() == ["False", "False"]


@needs_library
def test_status_becomes_typed_error() -> None:
    library.check(0, "nothing")
    with pytest.raises(library.Unimplemented, match="dnnl_foo: oneDNN: unimplemented"):
        library.check(library.constant("dnnl_unimplemented"), "dnnl_foo")
    with pytest.raises(KernelError, match="dnnl_foo: oneDNN: invalid arguments"):
        library.check(library.constant("dnnl_invalid_arguments"), "dnnl_foo")


@needs_library
def test_unknown_names_are_unimplemented() -> None:
    with pytest.raises(library.Unimplemented, match="no constant dnnl_nonsense"):
        library.constant("dnnl_nonsense")
    with pytest.raises(library.Unimplemented, match="no function dnnl_nonsense"):
        _ = library.lib.dnnl_nonsense


def test_named_library_that_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "libdnnl.so.3"
    with library.PATH.override(str(path)):
        assert library.find_library() == f"flag onednn_library names {path}, which is no file"
        assert library.unavailable() == f"flag onednn_library names {path}, which is no file"


@needs_library
def test_named_library_that_is_no_library(tmp_path: Path) -> None:
    path = tmp_path / "libdnnl.so.3"
    path.write_text("not a library")
    said = library.open_library(path)
    assert isinstance(said, str)
    assert f"{path} cannot be loaded" in said


@needs_library
def test_named_library_that_is_another_one() -> None:
    import _ctypes

    said = library.open_library(Path(_ctypes.__file__))
    assert isinstance(said, str)
    assert "is not oneDNN: it has no function dnnl_version" in said


@needs_library
def test_second_library_comes_too_late(tmp_path: Path) -> None:
    path = tmp_path / "libdnnl.so.3"
    path.touch()
    assert library.version() >= library.OLDEST
    with library.PATH.override(str(path)):
        assert str(library.unavailable()).endswith("is loaded already, so flag onednn_library comes too late")


def test_the_library_is_found_in_the_list_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "onednn_cpu_gomp-1.0.dist-info"
    monkeypatch.setattr(sys, "path", [str(tmp_path / "nothing"), str(tmp_path)])
    assert str(library.find_library()).startswith("the package onednn-cpu-gomp is not installed")
    folder.mkdir()
    (folder / "RECORD").write_text("onednn_cpu_gomp-1.0.dist-info/WHEEL,,\n")
    assert str(library.find_library()).startswith("the package onednn-cpu-gomp has no file libdnnl.so.3")
    (folder / "RECORD").write_bytes(b"\xff,,\n../lib/libdnnl.so.3,sha256=x,7\n")
    assert library.find_library() == (tmp_path.parent / "lib/libdnnl.so.3").resolve()
    (folder / "RECORD").unlink()
    (folder / "RECORD").mkdir()
    assert "cannot be read" in str(library.find_library())


@pytest.mark.slow
def test_operators_run_without_the_library(tmp_path: Path) -> None:
    code = (
        "import numpy as np; from tazza.operator import run_op\n"
        "print(run_op('Conv', np.ones((1, 1, 2, 2), 'f'), np.ones((1, 1, 2, 2), 'f'), kernel=2).item())"
    )
    assert run(code, TAZZA_ONEDNN_LIBRARY=str(tmp_path / "none")).strip() == "4.0"


@pytest.mark.parametrize(
    ("version", "runtime", "words"),
    [((3, 1, 0), 2, "is oneDNN 3.1.0"), ((4, 0, 0), 2, "is oneDNN 4.0.0"), ((3, 5, 1), 512, "runs on CPU runtime 512")],
)
@needs_library
def test_other_versions_and_runtimes_are_refused(
    version: tuple[int, int, int], runtime: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Found:
        major, minor, patch = version
        cpu_runtime = runtime

    class Functions:
        @staticmethod
        def dnnl_version() -> Found:
            return Found()

    class Declarations:
        @staticmethod
        def dlopen(path: str, flags: int) -> Functions:
            del path, flags
            return Functions()

        integer_const = library.ffi.integer_const
        error = library.ffi.error

    monkeypatch.setattr(library, "ffi", Declarations())
    said = library.open_library(Path("libdnnl.so.3"))
    assert isinstance(said, str)
    assert words in said
    assert library.REMEDY in said


def test_missing_package_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "DISTRIBUTION", "no-such-package-of-tazza")
    said = library.find_library()
    assert isinstance(said, str)
    assert "the package no-such-package-of-tazza is not installed" in said


@needs_library
def test_missing_openmp_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "openmp_unavailable", lambda: "no libgomp here")
    assert library.open_library(Path("libdnnl.so.3")) == "no libgomp here"


FORK = """
import os, signal, numpy as np
from tazza.errors import TazzaError
from tazza.operator import ENGINES, LocalBlobs, Operator, operator_def
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import Tensor
NUM_THREADS.set(2)
blobs = LocalBlobs()
for name, dims in (("X", (2, 16, 9, 11)), ("W", (32, 16, 3, 3))):
    blobs.create_blob(name).set(Tensor.from_numpy(np.ones(dims, "f")))
operator = Operator(operator_def("Conv", ["X", "W"], ["Y"], kernel=3, engine="onednn"), blobs)
operator.run()
read, write = os.pipe()
if os.fork() == 0:
    signal.alarm(60)  # ends it if it waits for ever
    text = str(ENGINES["onednn"].unavailable())
    try:
        operator.run()
        text += " | ran"
    except TazzaError as error:
        text += f" | {type(error).__name__}: {error.message}"
    os.write(write, text.encode())
    os._exit(0)
print(os.read(read, 4096).decode())
os.wait()
operator.run()
print("parent runs on")
"""


@pytest.mark.slow
@needs_library
@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork here")
def test_forked_child_refuses_instead_of_hanging() -> None:
    child, parent = run(FORK).strip().splitlines()
    reason, outcome = child.split(" | ")
    assert reason.startswith("this process was forked")
    assert "spawn" in reason
    assert outcome.startswith("UnavailableError")
    assert "this process was forked" in outcome
    assert parent == "parent runs on"


@needs_library
def test_engine_stands_above_gemm() -> None:
    assert ENGINES["onednn"].priority > ENGINES["gemm"].priority
    assert ENGINES["onednn"].unavailable() is None


def test_use_of_an_unavailable_library_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "unavailable", lambda: "of a reason")
    with pytest.raises(UnavailableError, match="engine 'onednn' is not available: of a reason"):
        library.version()
