"""Exchange with other libraries without copying: DLPack, and NumPy's array interface.

NumPy's own DLPack code makes and reads the capsules. It does not know bfloat16, so those elements travel through it as
16-bit unsigned integers, and the type in the capsule's descriptor is rewritten on the way: two bytes of the structure
that dlpack.h fixes (Source: dmlc.github.io/dlpack, C API; v0.8 for the plain capsule, v1.0 for the versioned one).
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tazza.errors import DTypeError, ExchangeError, UnsupportedError
from tazza.tensor.attached import attached
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import Opaque
from tazza.tensor.place import CPU_KIND, Place
from tazza.tensor.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    Capsule: TypeAlias = Any

    class SupportsDLPack(Protocol):
        """What can hand over its memory by DLPack."""

        def __dlpack__(self, *, stream: None = None) -> object: ...

        def __dlpack_device__(self) -> tuple[int, int]: ...


__all__ = ["from_dlpack"]

_DEVICES = {CPU_KIND: 1, "cuda": 2, "pinned": 3}  # DLDeviceType
TYPE_CODES: tuple[str, ...] = (
    *("int", "uint", "float", "opaque", "bfloat", "complex", "bool", "float8_e3m4", "float8_e4m3"),
    *("float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
    *("float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)
"""The names of `DLDataTypeCode`, in order."""
_READ = {"int": (8, 16, 32, 64), "uint": (8, 16, 32, 64), "float": (16, 32, 64), "complex": (64, 128), "bool": (8,)}
"""Widths in bits of the elements that NumPy's reader knows."""
_UINT, _BFLOAT = TYPE_CODES.index("uint"), TYPE_CODES.index("bfloat")
_BITS = 16
_NAMES = (b"dltensor", b"dltensor_versioned")
_READ_ONLY = "read-only, as all before NumPy 2.1"


# -- the descriptor in a capsule ---------------------------------------------------------------------------------------


class _Array(ctypes.Structure):
    """`DLTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """The front of `DLManagedTensorVersioned`; the unversioned capsule starts with the array itself."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("array", _Array),
    )


def _descriptor(capsule: Capsule) -> _Array:
    """Return the descriptor inside of a fresh capsule; it lives as long as the capsule does."""
    api = ctypes.pythonapi
    is_valid, pointer_of = api.PyCapsule_IsValid, api.PyCapsule_GetPointer
    is_valid.argtypes, is_valid.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_int
    pointer_of.argtypes, pointer_of.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    name = next((name for name in _NAMES if is_valid(capsule, name)), None)
    if name is None:
        raise UnsupportedError(f"{capsule!r} is no fresh DLPack capsule", hint="each capsule is read once")
    address = pointer_of(capsule, name)
    return _Array.from_address(address) if name == _NAMES[0] else _Versioned.from_address(address).array


def _retyped(capsule: Capsule, old: int, new: int) -> bool:
    """Change the type code of 16-bit elements from `old` to `new`; False for other elements."""
    descriptor = _descriptor(capsule)
    if (descriptor.code, descriptor.bits) != (old, _BITS):
        return False
    descriptor.code = new
    return True


# -- out ---------------------------------------------------------------------------------------------------------------


@attached
def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Return the kind of device, as dlpack.h numbers them, and its index."""
    return _DEVICES[x.place.kind], x.place.index


@attached
def to_dlpack(
    x: Tensor, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None, copy: bool | None
) -> Capsule:
    """Return a capsule over the memory of `x`, which counts as escaped then, or over a copy of it.

    Raises:
        ExchangeError: strings, or a device that the memory is not on.
    """
    if x.dtype is DataType.STRING:
        raise ExchangeError(f"{x.spec} cannot be exchanged: strings are references")
    if dl_device is not None and tuple(dl_device) != dlpack_device(x):
        raise ExchangeError(
            f"{x.spec} is on device {dlpack_device(x)}, not {tuple(dl_device)}", hint="use to_device() first"
        )
    array = x.copied() if copy is True else x.numpy()
    if x.dtype is DataType.BFLOAT16:
        array = array.view(np.uint16)
    # Before 2.1 NumPy takes no options at all.
    options = (
        {} if max_version is None or np.lib.NumpyVersion(np.__version__) < "2.1.0" else {"max_version": max_version}
    )
    export = cast("Callable[..., Capsule]", array.__dlpack__)
    capsule = export(**options)
    if x.dtype is DataType.BFLOAT16:
        _retyped(capsule, _UINT, _BFLOAT)
    return capsule


@attached
def array_interface(x: Tensor) -> dict[str, Any]:
    """Return the dictionary of NumPy's array interface, version 3: read-only, without copying.

    Its `data` is a view of the memory, so that an array made of it keeps the memory alive, not the tensor.

    Raises:
        AttributeError: the interface has no such elements (bfloat16, strings), or the CPU does not read this memory.
            NumPy asks `__array__` then.

    >>> array_interface(Tensor.from_numpy(np.arange(3, dtype=np.int16)))["typestr"]
    '<i2'
    """
    if x.dtype in (DataType.STRING, DataType.BFLOAT16) or not x.place.is_host:
        raise AttributeError(f"{x.spec} has no array interface")
    array = x.plain()
    allocation = x.storage.allocation
    if isinstance(x.layout, Opaque) or allocation is None:
        place: dict[str, Any] = {"data": array}
    else:
        data = memoryview(cast("bytes", allocation.buffer)).toreadonly()  # a buffer, whatever NumPy's stub says
        place = {"data": data, "offset": x.offset_bytes, "strides": array.strides}
    return {"version": 3, "shape": array.shape, "typestr": array.dtype.str, **place}


# -- in ----------------------------------------------------------------------------------------------------------------


class _AsIntegers:
    """Hands on what another library exports, with bfloat16 told as unsigned integers; remembers whether it was.

    `device` is where the memory is wanted, None: where it is.
    """

    def __init__(self, source: Any, device: tuple[int, int] | None) -> None:
        self.source = source
        self.device = device
        self.was_bfloat16 = False

    def __dlpack__(self, **options: Any) -> Capsule:
        if self.device is not None:
            options["dl_device"] = self.device
        capsule = self.source.__dlpack__(**options)
        self.was_bfloat16 = _retyped(capsule, _BFLOAT, _UINT)
        _check_type(capsule)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.source.__dlpack_device__() if self.device is None else self.device


def _check_type(capsule: Capsule) -> None:
    """Refuse elements that NumPy's own reader does not know."""
    found = _descriptor(capsule)
    code: int = found.code
    name = TYPE_CODES[code] if code < len(TYPE_CODES) else f"DLPack's type code {code}"
    if found.lanes != 1 or found.bits not in _READ.get(name, ()):
        lanes = "" if found.lanes == 1 else f", {found.lanes} at a time,"
        raise DTypeError(
            f"elements of type {name} of {found.bits} bits{lanes} cannot be held by a tensor",
            hint="convert them there, to float32 or float16",
        )


@attached
def from_dlpack(x: SupportsDLPack, /, *, device: Place | str | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor with the elements of another library's array, over its memory where `copy` is not `True`.

    Without `copy` memory that cannot be shared is copied: read-only memory, steps < 0, another device. What is shared
    lies as it does there, transposed too, and counts as escaped. What the other library raises as it hands its memory
    out is passed on.

    Raises:
        DTypeError: no tensor holds such elements.
        ExchangeError (a ValueError and a BufferError): only a copy would do, and `copy` is `False`; or the memory is on
            a device that is not read from.
        UnavailableError: `device` is not here.

    >>> values = np.arange(3.0); from_dlpack(values).address == values.ctypes.data
    True
    """
    there = x.__dlpack_device__()
    wanted = None if device is None else Place.parse(device) if isinstance(device, str) else device
    elsewhere = wanted is not None and (_DEVICES[wanted.kind], wanted.index) != tuple(there)
    if elsewhere and copy is False:
        raise ExchangeError(f"memory on DLPack device {there} is on {wanted} only as a copy", hint="copy=None, or True")
    found = _taken(x, copy, _device_of_export(there, wanted))
    if wanted is None or found.place == wanted:
        return found
    from tazza.tensor.transfer import to_place

    return to_place(found, wanted)


def _device_of_export(there: tuple[int, int], wanted: Place | None) -> tuple[int, int] | None:
    """Return the device to ask the other library for, None: none, since the CPU reads the memory as it is."""
    if there[0] in (_DEVICES[CPU_KIND], _DEVICES["pinned"]):
        return None
    if wanted is None or not wanted.is_host:
        raise ExchangeError(
            f"memory on DLPack device {there} cannot be shared: no allocator takes it over",
            hint='copy to the CPU: device="cpu"',
        )
    return _DEVICES[CPU_KIND], 0


def _taken(x: SupportsDLPack, copy: bool | None, device: tuple[int, int] | None) -> Tensor:
    source = _AsIntegers(x, device)
    try:
        array: npt.NDArray[Any] = np.from_dlpack(cast("Any", source))  # the type that NumPy's stub wants is private
    except TypeError as error:
        if device is None:
            raise
        raise ExchangeError(f"{type(x).__name__} does not copy to the CPU on the way: {error}") from error
    if source.was_bfloat16:
        array = array.view(DataType.BFLOAT16.numpy)
    if copy is True:
        return Tensor.from_numpy(array)
    if array.flags.writeable:
        try:
            return Tensor.from_numpy(array, copy=False)
        except UnsupportedError as error:
            why = error.message
    else:
        why = f"array {array.dtype}{array.shape} cannot be shared: {_READ_ONLY}"
    if copy is False:
        raise ExchangeError(why, hint="copy it: copy=True, or None")
    return Tensor.from_numpy(array)
