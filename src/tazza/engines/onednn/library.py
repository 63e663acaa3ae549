"""The library oneDNN: found, checked and loaded on first use; statuses as errors; what a fork means for it.

The package `onednn-cpu-gomp` brings `libdnnl.so.3`, which is looked up in that distribution's list of files. Another
one is used only when the flag `onednn_library` names it. Either must be version 3.2 or a later 3, with OpenMP as its
CPU runtime: a build on another runtime would start threads of its own beside those of all other engines.

Constant state: `_state`, once loaded. What has threads here notes them (runtime/fork.py), so a child that was forked
after the library had been used finds the engine unavailable; calls that were bound before refuse like all native calls.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

from tazza.data_class import dataclass
from tazza.engines.onednn.copies import keep_one_copy
from tazza.errors import FileError, KernelError, OutOfMemoryError, UnavailableError
from tazza.runtime.cache import remembered
from tazza.runtime.files import kind_of, one_line
from tazza.runtime.flags import flag
from tazza.runtime.fork import check_threads, freed_in_child, threads_lost
from tazza.runtime.openmp import openmp_unavailable, use_own_functions
from tazza.tensor.offer import Unsupported

PATH = flag("onednn_library", "", "use this libdnnl.so.3 (oneDNN 3 on OpenMP) instead of that of onednn-cpu-gomp")
DISTRIBUTION = "onednn-cpu-gomp"
FILE = "libdnnl.so.3"
OLDEST = (3, 2)
REMEDY = f"pip install {DISTRIBUTION} (Linux on x86-64)"


class Unimplemented(Unsupported):
    """OneDNN has no implementation for what was asked."""


class _Declarations:
    """The cffi object with all declarations, imported on first use."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        from tazza.engines.onednn._declarations import ffi as declared

        value = getattr(declared, name)
        self.__dict__[name] = value
        return value


class _Functions:
    """The functions of the library, which is loaded by the first one that is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # whoever looks at the object does not ask for the library
        try:
            value = getattr(_load().functions, name)
        except (AttributeError, ffi.error):
            raise Unimplemented(f"oneDNN {version_text()} has no function {name}") from None
        self.__dict__[name] = value
        return value


ffi: Any = _Declarations()
lib: Any = _Functions()


@dataclass(frozen=True, slots=True)
class _State:
    path: Path
    functions: Any
    version: tuple[int, int, int]


_lock = freed_in_child(threading.RLock())
_state: dict[str, _State | str] = {}
_engines: list[Any] = []


def find_library() -> Path | str:
    """Return the path of the library, or why there is none."""
    if PATH.value:
        return _named_library(PATH.value)
    lists = list(_file_lists())
    for listed in lists:
        try:
            text = listed.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            return f"{listed} cannot be read ({error.strerror}); {REMEDY}"
        for line in text.splitlines():
            file = PurePosixPath(line.rsplit(",", 2)[0])  # path, digest, size
            if file.name == FILE:
                return (listed.parent.parent / file).resolve()
    missing = f"has no file {FILE}" if lists else "is not installed"
    return f"the package {DISTRIBUTION} {missing}; {REMEDY}"


def _named_library(named: str) -> Path | str:
    try:
        kind = kind_of(named)
    except FileError as error:
        return f"flag onednn_library: {error.message}"
    return Path(named) if kind == "file" else f"flag onednn_library names {one_line(named)}, which is no file"


def _file_lists() -> Iterator[Path]:
    """Yield the lists of files that an installer wrote for the package, in the order of the search path.

    Read here, since `importlib.metadata` takes longer to import (15 ms) than the library to load.
    Source: Recording installed projects, packaging.python.org/specifications/recording-installed-packages
    """
    for folder in sys.path:
        yield from Path(folder).glob(f"{DISTRIBUTION.replace('-', '_')}-*.dist-info/RECORD")


def open_library(path: Path) -> _State | str:
    """Return the loaded and checked library, or why it cannot be used."""
    missing = openmp_unavailable()
    if missing is not None:
        return missing
    try:
        # Handles are freed late, when the interpreter takes its modules down; the code must still be there then.
        functions = ffi.dlopen(str(path), os.RTLD_NOW | getattr(os, "RTLD_NODELETE", 0))
    except ImportError as error:
        return f"the package cffi cannot be imported ({error}); pip install cffi"
    except OSError as error:
        return f"{path} cannot be loaded ({error}); {REMEDY}"
    try:
        found = functions.dnnl_version()
    except (AttributeError, ffi.error):
        return f"{path} is not oneDNN: it has no function dnnl_version"
    version = (int(found.major), int(found.minor), int(found.patch))
    if version[0] != OLDEST[0] or version[:2] < OLDEST:
        return f"{path} is oneDNN {_dotted(version)}, needed is {_dotted(OLDEST)} or a later {OLDEST[0]}; {REMEDY}"
    openmp = constant("DNNL_RUNTIME_OMP")
    if found.cpu_runtime != openmp:
        return f"{path} runs on CPU runtime {found.cpu_runtime}, needed is OpenMP ({openmp}); {REMEDY}"
    use_own_functions(ctypes.CDLL(str(path))._handle)
    return _State(path, functions, version)


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def unavailable() -> str | None:
    """Return why the engine cannot be used, with what would help, or None; loads the library."""
    lost = threads_lost()
    if lost is not None:
        return lost
    named = PATH.value
    with _lock:
        if named not in _state:
            loaded = [key for key, state in _state.items() if isinstance(state, _State)]
            path = find_library()
            if isinstance(path, str):
                _state[named] = path
            elif loaded:
                first = loaded[0] if loaded[0] else DISTRIBUTION
                _state[named] = f"{first} is loaded already, so flag onednn_library comes too late"
            else:
                if not named:
                    keep_one_copy(path.parent)
                _state[named] = open_library(path)
        found = _state[named]
    return found if isinstance(found, str) else None


def _load() -> _State:
    reason = unavailable()
    if reason is not None:
        raise UnavailableError(f"engine 'onednn' is not available: {reason}")
    return cast("_State", _state[PATH.value])


def version() -> tuple[int, int, int]:
    """Return major, minor and patch number of the loaded library."""
    return _load().version


def version_text() -> str:
    """Return the version with dots."""
    return _dotted(version())


def library_path() -> Path:
    """Return where the loaded library is."""
    return _load().path


@remembered("constants of oneDNN", entries=4096)
def constant(name: str) -> int:
    """Return the number of a name of the header: `dnnl_relu` or `DNNL_ARG_SRC`.

    Raises:
        Unimplemented: the header that the declarations were made from has no such name.
    """
    try:
        return ffi.integer_const(name)
    except AttributeError:
        raise Unimplemented(f"oneDNN's declarations have no constant {name}") from None


def status_name(status: int) -> str:
    """Return the name of a status of oneDNN in words."""
    names = cast("dict[int, str]", ffi.typeof("dnnl_status_t").elements)
    return f"oneDNN: {names.get(status, str(status)).removeprefix('dnnl_').replace('_', ' ')}"


def check(status: int, call: str) -> None:
    """Raise what a status other than 0 means; `call` says what was done.

    Raises:
        Unimplemented: there is no implementation for these descriptors.
        OutOfMemoryError: the library got no memory.
        KernelError: any other failure.
    """
    if status == 0:
        return
    kinds = {constant("dnnl_unimplemented"): Unimplemented, constant("dnnl_out_of_memory"): OutOfMemoryError}
    raise kinds.get(status, KernelError)(f"{call}: {status_name(status)}")


def owned(kind: str, *arguments: Any, what: str = "") -> Any:
    """Return the handle that `dnnl_<kind>_create` makes of arguments; it is destroyed with what is returned.

    Raises:
        KernelError: it makes none; `what` says of what.
    """
    made = ffi.new(f"dnnl_{kind}_t *")
    check(getattr(lib, f"dnnl_{kind}_create")(made, *arguments), what if what else f"dnnl_{kind}_create")
    return ffi.gc(made[0], getattr(lib, f"dnnl_{kind}_destroy"))


def engine() -> Any:
    """Return the handle of the CPU engine: one for the process, and never destroyed."""
    check_threads()
    if not _engines:
        with _lock:
            if not _engines:
                made = ffi.new("dnnl_engine_t *")
                check(lib.dnnl_engine_create(made, constant("dnnl_cpu"), 0), "dnnl_engine_create")
                # `primitive` has a cache of its own. With oneDNN's (3.2), a descriptor whose primitive is cached stands
                # twice in the list of implementations, and so walking along the list never ends.
                check(lib.dnnl_set_primitive_cache_capacity(0), "dnnl_set_primitive_cache_capacity")
                _engines.append(made[0])
    return _engines[0]


def new_stream() -> Any:
    """Return an in-order stream, which lives as long as the returned object."""
    return owned("stream", engine(), constant("dnnl_stream_in_order"))
