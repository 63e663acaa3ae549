"""Native kernels: C functions `int64_t run(void *arguments)`, their argument block, the shared objects with them.

`tazza_module.h` beside this file is the interface for C; the structures here are its twins. The registry belongs to
this floor, the operator floor reads it.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, InitError
from tazza.registry import Registry
from tazza.runtime.cache import remembered
from tazza.runtime.files import open_regular
from tazza.runtime.fork import check_threads

if TYPE_CHECKING:
    from ctypes import Array, _Pointer  # pyright: ignore[reportPrivateUsage] - the public name exists in stubs only

ABI_VERSION = 1
MOST_KERNELS = 10_000  # of one module; a larger count is taken for garbage

_SYMBOLS = ("tazza_abi_version", "tazza_kernel_count", "tazza_kernel")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 4)
_MAGIC = {
    b"\x7fELF": "ELF",
    b"\xfe\xed\xfa\xce": "Mach-O",
    b"\xfe\xed\xfa\xcf": "Mach-O",
    b"\xce\xfa\xed\xfe": "Mach-O",
    b"\xcf\xfa\xed\xfe": "Mach-O",
    b"\xca\xfe\xba\xbe": "Mach-O",
    b"MZ": "PE",
}


class NativeTensor(ctypes.Structure):
    """`tazza_tensor_t`: where the elements of a tensor are and how they are arranged; strides count elements."""

    if TYPE_CHECKING:
        data: int | None
        rank: int
        dims: _Pointer[ctypes.c_int64] | Array[ctypes.c_int64]
        strides: _Pointer[ctypes.c_int64] | Array[ctypes.c_int64]
        dtype: int
        reserved: int

    _fields_: ClassVar = [
        ("data", ctypes.c_void_p),
        ("rank", ctypes.c_int64),
        ("dims", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("dtype", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class NativeArguments(ctypes.Structure):
    """`tazza_arguments_t`: what a native kernel gets."""

    if TYPE_CHECKING:
        size_of_this: int
        input_count: int
        output_count: int
        inputs: _Pointer[NativeTensor] | Array[NativeTensor]
        outputs: _Pointer[NativeTensor] | Array[NativeTensor]
        scratch: int | None
        scratch_bytes: int

    _fields_: ClassVar = [
        ("size_of_this", ctypes.c_int64),
        ("input_count", ctypes.c_int32),
        ("output_count", ctypes.c_int32),
        ("inputs", ctypes.POINTER(NativeTensor)),
        ("outputs", ctypes.POINTER(NativeTensor)),
        ("scratch", ctypes.c_void_p),
        ("scratch_bytes", ctypes.c_int64),
    ]


class _Kernel(ctypes.Structure):
    """`tazza_kernel_t`."""

    if TYPE_CHECKING:
        operator_type: bytes | None
        engine: bytes | None
        run: int | None

    _fields_: ClassVar = [
        ("operator_type", ctypes.c_char_p),
        ("engine", ctypes.c_char_p),
        ("run", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class NativeKernel:
    """A kernel of a loaded shared object; `address` is that of its function and valid while `keepalive` lives."""

    operator_type: str
    engine: str
    address: int
    module: str
    keepalive: object = field(repr=False, compare=False)


NATIVE_KERNELS: Registry[tuple[str, str], NativeKernel] = Registry("native kernel")


def native_tensor(data: int, dims: Sequence[int], strides: Sequence[int], dtype: int) -> NativeTensor:
    """Describe a tensor to native kernels. The caller keeps the memory at `data` alive; the rest the result keeps.

    Args:
        data: address of the first element; 0 for a tensor without elements.
        dims: extents.
        strides: distances between neighbours along each dimension, in elements.
        dtype: number of TensorProto.DataType.

    Raises:
        ArgumentError: as many strides as extents are needed; an address may be 0 only if an extent is 0.
    """
    if len(dims) != len(strides):
        raise ArgumentError(f"a native tensor has as many strides as dims, got {len(strides)} and {len(dims)}")
    if data == 0 and 0 not in dims:
        raise ArgumentError(f"a native tensor of dims {tuple(dims)} has elements, but its address is 0")
    tensor = NativeTensor(data=data, rank=len(dims), dtype=dtype)
    # Assigning an array to a pointer member makes the structure keep the array.
    tensor.dims = _int64s(dims)
    tensor.strides = _int64s(strides)
    return tensor


def native_arguments(
    inputs: Sequence[NativeTensor], outputs: Sequence[NativeTensor], *, scratch: int = 0, scratch_bytes: int = 0
) -> NativeArguments:
    """Build the argument block of a call; `ctypes.addressof` of it goes to `call_native`.

    It keeps copies of the descriptions alive; the memory of tensors and scratch (an address) belongs to the caller.
    """
    block = NativeArguments(
        size_of_this=ctypes.sizeof(NativeArguments),
        input_count=len(inputs),
        output_count=len(outputs),
        scratch=scratch,
        scratch_bytes=scratch_bytes,
    )
    block.inputs = (NativeTensor * len(inputs))(*inputs)
    block.outputs = (NativeTensor * len(outputs))(*outputs)
    return block


def call_native(address: int, a: int, b: int = 0, c: int = 0, d: int = 0, *, threads: int | None = None) -> int:
    """Call a C function with up to four numbers or addresses, without the GIL, and return what it returns.

    `threads` is how many OpenMP threads it uses; None is not known, and so counts as several.

    Raises:
        ArgumentError: the address or the first argument is 0. Any other wrong address cannot be noticed.
        UnavailableError: it uses several threads, and they were lost when this process was forked.
    """
    if threads != 1:
        check_threads()
    if address == 0 or a == 0:
        raise ArgumentError(f"a native call needs two addresses, got {address:#x} and {a:#x}")
    return _function(address)(a, b, c, d)


def include_folder() -> Path:
    """Return the folder of `tazza_module.h`, for the option -I of a C compiler."""
    return Path(__file__).parent


def read_native_module(path: Path) -> list[NativeKernel]:
    """Open a shared object and return the kernels that it exports, all checked; registers nothing.

    Raises:
        InitError: no shared object of this platform, no tazza module, another ABI version, or a malformed kernel.
    """
    _check_format(path)
    try:
        # An absolute path: else the loader would search folders that nobody named.
        library = ctypes.CDLL(os.fspath(path.absolute()))
    except OSError as error:
        raise InitError(f"shared object {path} cannot be loaded: {error}") from error
    missing = [name for name in _SYMBOLS if not hasattr(library, name)]
    if missing:
        raise InitError(
            f"shared object {path} is not a tazza module: it does not export {', '.join(missing)}",
            hint=f"include {include_folder() / 'tazza_module.h'} and define what it declares",
        )
    version = ctypes.CFUNCTYPE(ctypes.c_uint32)(("tazza_abi_version", library))()
    if version != ABI_VERSION:
        raise InitError(
            f"module {path} has ABI version {version}, this tazza takes {ABI_VERSION}",
            hint="compile it again with the tazza_module.h of this tazza",
        )
    count = ctypes.CFUNCTYPE(ctypes.c_int32)(("tazza_kernel_count", library))()
    if not 1 <= count <= MOST_KERNELS:
        raise InitError(f"module {path} says that it has {count} kernels, allowed are 1 to {MOST_KERNELS}")
    getter = ctypes.CFUNCTYPE(ctypes.POINTER(_Kernel), ctypes.c_int32)(("tazza_kernel", library))
    kernels = [_checked_kernel(path, library, getter(i), i) for i in range(count)]
    keys = [(one.operator_type, one.engine) for one in kernels]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise InitError(f"module {path} exports two kernels of operator and engine {twice[0]}")
    return kernels


def _checked_kernel(path: Path, library: ctypes.CDLL, found: _Pointer[_Kernel], i: int) -> NativeKernel:
    if not found:
        raise InitError(f"module {path}: tazza_kernel({i}) is NULL")
    kernel = found.contents
    names: list[str] = []
    for member, text in (("operator_type", kernel.operator_type), ("engine", kernel.engine)):
        name = "" if text is None else text.decode("utf-8", "replace")
        if _NAME.fullmatch(name) is None:
            raise InitError(f"module {path}: {member} of kernel {i} is {text!r}, which is no name")
        names.append(name)
    if kernel.run is None:
        raise InitError(f"module {path}: function run of kernel {i} ({names[0]}) is NULL")
    return NativeKernel(names[0], names[1], kernel.run, os.fspath(path), library)


def _check_format(path: Path) -> None:
    try:
        with open_regular(path, "module") as file:
            head = file.read(20)
    except OSError as error:
        raise InitError(f"module file {path} cannot be read: {error}") from error
    if not any(head.startswith(magic) for magic in _MAGIC):
        formats = ", ".join(dict.fromkeys(_MAGIC.values()))
        raise InitError(
            f"file {path} is not a shared object: it starts with {head[:8]!r}, not as one of {formats}",
            hint="build it with cc -shared -fPIC",
        )
    if head.startswith(b"\x7fELF"):
        _check_elf(path, head)


def _check_elf(path: Path, head: bytes) -> None:
    shared = 3  # ET_DYN of the ELF specification; an object file (.o) is 1, an executable 2
    if len(head) < 20:
        raise InitError(f"file {path} ends within its ELF header")
    kind = struct.unpack_from("<H" if head[5] == 1 else ">H", head, 16)[0]
    if kind != shared:
        raise InitError(
            f"file {path} is an ELF file of type {kind}, a shared object has type {shared}",
            hint="link it with cc -shared",
        )


def _int64s(values: Sequence[int]) -> Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


@remembered("callers of native functions", entries=4096)
def _function(address: int) -> Callable[[int, int, int, int], int]:
    return _PROTOTYPE(address)
