"""Machine code of our own: LLVM IR to the address of a function, with a cache of compiled objects on disk.

    address = native_function("scale 1", lambda name: f"define i64 @{name}(i64 %a, ...) ...")

The description tells functions apart; the IR is only built when neither this process nor the cache has the function.
LLVM comes with the package llvmlite; no compiler is needed, and no Numba: to write the IR ourselves takes tens of
milliseconds a kernel instead of hundreds, and the object code is ours to keep.

An entry of the cache is named by the digest of the description, of the sources that wrote the IR, of the processor and
of the versions, and holds a checksum of that name and of its content: what does not match is compiled again, be it
damaged or the entry of another function, and so is what is not this user's alone to write.

`tazza.runtime.object_code` links an entry, and checks every number in it that it uses. What it refuses is compiled
again as well: LLVM's own linker trusts objects, and ends the process on damaged ones, so that it only gets what LLVM
made a moment ago; where objects are linked by LLVM (everywhere, with the flag `own_linker` off) nothing is kept.
Machine code and constants cannot be checked: for these the checksum stands, whose 32 bytes do not come right again by
damage. Without a folder to keep objects in (no home folder, or one that cannot be written) everything is compiled by
each process.

Changing state: `ADDRESSES` and the engine with the code, both under `_LOCK`. Code lives as long as the process.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import logging
import os
import platform
import re
import stat
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import FileError, FormatError, KernelError, UnavailableError
from tazza.runtime.cache import Cache, remembered
from tazza.runtime.digest import NBYTES, digest_of
from tazza.runtime.files import atomic_write, kind_of, make_folder, open_regular, reading, shown
from tazza.runtime.flags import flag
from tazza.runtime.fork import Guard
from tazza.runtime.memory import require_room
from tazza.runtime.object_code import UnsupportedObject, load_object, missing_symbols
from tazza.runtime.object_code import unavailable as no_loader

OWN_LINKER = flag(
    "own_linker", True, "link compiled kernels with tazza's own linker, and keep them, instead of with LLVM's"
)
CACHE_DIR = flag("cache_dir", "", "folder of compiled kernels; empty: tazza in XDG_CACHE_HOME, which is ~/.cache")
CACHE_VERSION = 4
PASSES = ("instruction_combine", "loop_rotate", "new_gvn", "loop_unroll", "simplify_cfg", "dead_code_elimination")
"""What LLVM does to a kernel before it selects instructions.

All that it does by itself takes three times as long, and makes next to nothing faster: 271 kernels of
`benchmarks.operators` took 1.001 of that time (median of ratios; nine of ten between 0.95 and 1.07). They are written
in vectors, and in the order in which they shall run.
"""
SELECTION = 2
"""How much it works on the selection itself, of 3."""
OLDEST_LLVMLITE = (0, 45)
"""The first one with LLVM 20, in whose language the IR is written."""
MAGIC = b"tazza object\n"
ENTRY_BYTES_MAX = 64 * 2**20
"""Longest entry that is read; those that are made have some kilobytes."""
ROOM_BYTES, LIBRARY_BYTES = 64 * 2**20, 256 * 2**20
"""What must be free before LLVM compiles, and before its library is loaded: more than they take."""
CPU_INFO = Path("/proc/cpuinfo")
CPU_NAME = ("vendor_id", "cpu family", "model", "stepping", "model name")
"""Lines of it that tell processors of one instruction set apart: LLVM tunes for some of them."""

Build = Callable[[str], str]
"""Gets the name that the function must have, returns the text of an LLVM module with it."""

logger = logging.getLogger(__name__)

_LOCK = Guard("compiled code")
ADDRESSES: Cache[str, int] = Cache("compiled code", 1 << 16)
"""Of functions; code that is forgotten stays until the process ends, since somebody may run it."""


CODES: Cache[str, bytes] = Cache("code for other machines", 1 << 12)
"""By the digests that name their entries."""


@functools.cache
def unavailable() -> str | None:
    """Return why nothing can be compiled in this process, or None."""
    if importlib.util.find_spec("llvmlite") is None:
        return "the package llvmlite is missing; pip install llvmlite"
    version = llvm_version()
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or tuple(map(int, found.groups())) < OLDEST_LLVMLITE:
        return f"llvmlite {version} is older than {'.'.join(map(str, OLDEST_LLVMLITE))}; pip install -U llvmlite"
    if sys.byteorder != "little":
        return "compiled kernels need a little-endian processor"
    return None


@functools.cache
def llvm_version() -> str:
    """Return the version of the installed llvmlite, which is not imported for it.

    It is in the name of the folder with the package's metadata. `importlib.metadata` would read it there too, but
    takes longer to import (40 ms) than a kernel takes to load. Without one such folder, the package itself is asked.
    """
    spec = importlib.util.find_spec("llvmlite")
    if spec is not None and spec.origin is not None:
        found = list(Path(spec.origin).parent.parent.glob("llvmlite-*.dist-info"))
        if len(found) == 1:
            return found[0].name.removeprefix("llvmlite-").removesuffix(".dist-info")
    return str(importlib.import_module("llvmlite").__version__)


@dataclass(frozen=True)
class Processor:
    """The processor of this machine: what tells it apart, and `+feature,+feature ...` in the system's words."""

    name: str
    features: str

    @functools.cached_property
    def vector_bytes(self) -> int:
        """How wide its vectors are: 64, 32 or 16."""
        has = set(self.features.split(","))
        return 64 if "+avx512f" in has else 32 if "+avx2" in has else 16

    def has(self, feature: str) -> bool:
        """Whether it has a feature; the names of those of x86 are Linux's."""
        return f"+{feature}" in self.features.split(",")


@functools.cache
def processor() -> Processor:
    """Return this machine's processor: what Linux says of it, else LLVM, else Python. Later calls cost nothing."""
    told = cpu_info(CPU_INFO)
    if "flags" in told:
        name = " / ".join(told.get(key, "") for key in CPU_NAME)
        return Processor(name, ",".join(f"+{flag}" for flag in sorted(told["flags"].split())))
    if unavailable() is None:  # LLVM links the kernels there as well, and is imported in any case
        llvm = llvm_binding()
        return Processor(llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    return Processor(platform.machine(), "")


def cpu_info(path: Path) -> dict[str, str]:
    """Return what Linux says of the first processor; to make the text for all of them may take it a while."""
    told: dict[str, str] = {}
    try:
        with path.open(encoding="utf-8", errors="replace", buffering=4096) as file:
            for line in file:
                key, colon, value = line.partition(":")
                if not colon:
                    break
                told[key.strip()] = value.strip()
    except OSError:
        return {}  # another system
    return told


def native_function(
    description: str,
    build: Build,
    *,
    symbols: Mapping[str, int] | None = None,
    sources: str = "",
    rewrite: bool = True,
) -> int:
    """Return the address of a function, compiled now, before, or by an earlier process.

    Args:
        description: what the function does, complete: equal descriptions are one function.
        build: makes the IR when it is needed.
        symbols: addresses of outside functions that the IR declares; those of libc and libm are known.
        sources: digest of the code behind `build` (`source_digest`), so that a change of it makes new entries.
        rewrite: let LLVM rewrite the IR before it makes machine code. Large straight pieces that are written in the
            right order already come out faster without, and are compiled in half the time.

    Raises:
        UnavailableError: llvmlite is missing.
        OutOfMemoryError: there is no room for LLVM, which ends the process when it gets none.
    """
    key = f"{description}\n{sources}"
    found = ADDRESSES.get(key)
    if found is None:
        with _LOCK:
            found = ADDRESSES.get(key)
            if found is None:
                found = _load(key, build, {} if symbols is None else symbols, rewrite=rewrite)
                ADDRESSES.put(key, found)
    return found


def source_digest(*files: Path) -> str:
    """Return a digest of the content of source files."""
    return digest_of(*(file.read_bytes() for file in sorted(files))).hex()[:16]


def cache_folder() -> Path | None:
    """Return the folder of compiled kernels, which may not exist yet; None without a home folder and another name."""
    base = os.environ.get("XDG_CACHE_HOME")
    named = CACHE_DIR.value if CACHE_DIR.value else f"{base if base else '~/.cache'}/tazza"
    try:
        return Path(named).expanduser()
    except RuntimeError:  # a process of a user whom the system does not know, with no HOME
        _tell_no_folder(named)
        return None


@remembered("folders told of", entries=16)
def _tell_no_folder(named: str) -> None:
    logger.debug("compiled kernels are not kept: there is no home folder for %s", named)


def _why_llvm_links() -> str | None:
    return no_loader() if OWN_LINKER.value else "the flag own_linker is off"


def describe_code() -> str:
    """Return who links compiled kernels, and where they are kept, for people."""
    missing = unavailable()
    if missing is not None:
        return f"none: {missing}"
    why, folder = _why_llvm_links(), cache_folder()
    if why is not None:
        return f"linked by LLVM, and not kept: {why}"
    return f"linked by tazza, {'not kept: no home folder' if folder is None else f'kept in {folder}'}"


def _require() -> None:
    reason = unavailable()
    if reason is not None:
        raise UnavailableError(f"no kernel can be compiled: {reason}")


def llvm_binding() -> Any:
    """Return llvmlite, ready to make code for this machine; it is imported at the first call.

    Raises:
        UnavailableError: it is missing.
        OutOfMemoryError: there is no room for its library.
    """
    _require()
    if "llvmlite.binding" not in sys.modules:
        require_room(LIBRARY_BYTES, "LLVM's library")
    # llvmlite has no type stubs; everything of it stays behind this function.
    llvm = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # of instructions that are written as such
    return llvm


def _machine() -> Any:
    llvm = llvm_binding()
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    return llvm.Target.from_default_triple().create_target_machine(cpu=name, features=features, opt=SELECTION, jit=True)


@functools.cache
def _engine() -> Any:
    llvm = llvm_binding()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())


def _load(key: str, build: Build, symbols: Mapping[str, int], *, rewrite: bool) -> int:
    _require()
    host = processor()
    compiler = f"{llvm_version()} {PASSES} {SELECTION}"
    told = "\n".join((key, host.name, host.features, compiler, str(CACHE_VERSION), sys.platform))
    digest = digest_of(told.encode()).hex()
    name = f"tazza_{digest[:32]}"
    if _why_llvm_links() is not None:
        return _link_by_llvm(_compile(build(name), rewrite=rewrite), name, symbols)
    path = _path(digest, "o")
    kept = _linked(path, name, symbols)
    if kept is not None:
        return kept
    code = _compile(build(name), rewrite=rewrite)
    try:
        address = load_object(code, name, symbols)
    except UnsupportedObject as error:
        logger.warning("compiled kernel %s is linked by LLVM, which takes longer: %s", name, error)
        return _link_by_llvm(code, name, symbols)
    _write(path, code)
    return address


def _path(digest: str, kind: str) -> Path | None:
    """Return the file of an entry; None without a folder to keep it in."""
    folder = cache_folder()
    return None if folder is None else folder / f"{digest}.{kind}"


def kept_code(key: str, kind: str, build: Callable[[str], bytes]) -> tuple[str, bytes]:
    """Return the name and the code of what LLVM makes for another machine than this one, made now or kept from before.

    Args:
        key: what it does, and the sources that write it, complete.
        kind: what kind of code it is; the ending of its entry.
        build: gets the name that the function must have, and makes the code.

    Raises:
        UnavailableError: llvmlite is missing.
    """
    _require()
    digest = digest_of("\n".join((kind, key, llvm_version(), str(CACHE_VERSION))).encode()).hex()
    name = f"tazza_{digest[:32]}"
    with _LOCK:
        found = CODES.get(digest)
        if found is None:
            path = _path(digest, kind)
            found = _read(path)
            if found is None:
                found = build(name)
                _write(path, found)
            CODES.put(digest, found)
    return name, found


def _linked(path: Path | None, name: str, symbols: Mapping[str, int]) -> int | None:
    """Return the address of a function that an earlier process compiled, or None when there is no sound entry."""
    code = _read(path)
    if code is None:
        return None
    try:
        return load_object(code, name, symbols)
    except UnsupportedObject as error:
        logger.warning("compiled kernel %s is damaged and is compiled again: %s", path, error)
        return None


def _link_by_llvm(code: bytes, name: str, symbols: Mapping[str, int]) -> int:
    llvm = llvm_binding()
    missing: list[str] = []
    with contextlib.suppress(UnsupportedObject):  # of another system
        missing = [one for one in missing_symbols(code, symbols) if llvm.address_of_symbol(one) is None]
    if missing:  # LLVM would let it call address 0
        raise KernelError(f"compiled code calls {', '.join(missing)}, which is not there on {processor().name}")
    for symbol, address in symbols.items():
        llvm.add_symbol(symbol, address)
    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    found = int(engine.get_function_address(name))
    if found == 0:
        raise KernelError(f"a compiled object has no function {name!r}", hint="clear the folder of the flag cache_dir")
    return found


def _compile(text: str, *, rewrite: bool = True) -> bytes:
    llvm = llvm_binding()
    require_room(ROOM_BYTES, "LLVM")
    module = llvm.parse_assembly(text)
    module.verify()
    machine = _machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    if rewrite:
        passes = llvm.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        options = llvm.create_pipeline_tuning_options(speed_level=0)
        passes.run(module, llvm.create_pass_builder(machine, options))
    return bytes(machine.emit_object(module))


def _read(path: Path | None) -> bytes | None:
    """Return the object of a cache file, or None when there is none that is whole and ours."""
    try:
        if path is None or kind_of(path) is None:
            return None
        with open_regular(path, "compiled kernel", bytes_max=ENTRY_BYTES_MAX) as file, reading(path):
            status = os.fstat(file.fileno())
            data = file.read(status.st_size)
    except (FileError, FormatError) as error:
        logger.warning("compiled kernel %s cannot be read and is compiled again: %s", shown(path), error.message)
        return None
    if not _is_ours(status):
        logger.warning("compiled kernel %s could be written by other users and is compiled again", path)
        return None
    head = len(MAGIC) + NBYTES
    if data.startswith(MAGIC) and _checksum(path, data[head:]) == data[len(MAGIC) : head]:
        return data[head:]
    logger.warning("compiled kernel %s is damaged and is compiled again", path)
    return None


def _checksum(path: Path, code: bytes) -> bytes:
    """Return the digest of an entry: of its name, which says what it computes, and of its content."""
    return digest_of(path.name.encode(), b"\n", code)


def _is_ours(status: os.stat_result) -> bool:
    """Whether a file belongs to this user, and only this user can write it; a checksum keeps out damage, not intent."""
    if sys.platform == "win32":
        return True  # the mode says nothing there
    return status.st_uid == os.geteuid() and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) == 0


def _write(path: Path | None, code: bytes) -> None:
    if path is None:
        return
    try:
        make_folder(path.parent, mode=0o700)
        path.unlink(missing_ok=True)  # its permissions would be kept
        with atomic_write(path) as file:
            if sys.platform != "win32":
                os.fchmod(file.fileno(), 0o600)
            file.write(MAGIC + _checksum(path, code) + code)
    except OSError as error:
        logger.info("compiled kernel is not kept: %s", error)
