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

from tazza.errors import ArgumentError, UnsupportedError
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import Opaque
from tazza.tensor.place import Place
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

_DEVICES = {"cpu": 1, "cuda": 2, "pinned": 3}  # DLDeviceType
_UINT, _BFLOAT = 1, 4  # DLDataTypeCode
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


def dlpack_device(x: Tensor) -> tuple[int, int]:
    """Return the kind of device, as dlpack.h numbers them, and its index."""
    return _DEVICES[x.place.kind], x.place.index


def to_dlpack(
    x: Tensor, max_version: tuple[int, int] | None, dl_device: tuple[int, int] | None, copy: bool | None
) -> Capsule:
    """Return a capsule over the memory of `x`, which counts as escaped then, or over a copy of it.

    Raises:
        BufferError: strings, or a device that the memory is not on.
    """
    if x.dtype is DataType.STRING:
        raise BufferError(f"{x.spec} cannot be exchanged: strings are references")
    if dl_device is not None and tuple(dl_device) != dlpack_device(x):
        raise BufferError(f"{x.spec} is on device {dlpack_device(x)}, not {tuple(dl_device)}: use to_device() first")
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
    """Hands on what another library exports, with bfloat16 told as unsigned integers; remembers whether it was."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.was_bfloat16 = False

    def __dlpack__(self, **options: Any) -> Capsule:
        capsule = self.source.__dlpack__(**options)
        self.was_bfloat16 = _retyped(capsule, _BFLOAT, _UINT)
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.source.__dlpack_device__()


def from_dlpack(x: SupportsDLPack, /, *, device: Place | None = None, copy: bool | None = None) -> Tensor:
    """Return a tensor over the memory of another library's array: shared (`copy=None` or `False`) or copied (`True`).

    The elements lie as they do there, transposed ones too. What is shared counts as escaped.

    Raises:
        DTypeError: no tensor holds such elements.
        UnsupportedError: the memory cannot be shared (read-only, steps < 0), and `copy` is not `True`.
        ArgumentError: `device` is another one than that of the memory.

    >>> values = np.arange(3.0); from_dlpack(values).address == values.ctypes.data
    True
    """
    kind, index = x.__dlpack_device__()
    if device is not None and (_DEVICES[device.kind], device.index) != (kind, index):
        raise ArgumentError(f"memory on DLPack device {kind, index} is not on {device}", hint="use to_device() after")
    if kind not in (_DEVICES["cpu"], _DEVICES["pinned"]):
        raise UnsupportedError(
            f"memory on DLPack device {kind, index} cannot be shared: no allocator takes it over",
            hint="copy to the CPU",
        )
    source = _AsIntegers(x)
    array: npt.NDArray[Any] = np.from_dlpack(cast("Any", source))  # the type that NumPy's stub wants is private
    if source.was_bfloat16:
        array = array.view(DataType.BFLOAT16.numpy)
    if copy is True:
        return Tensor.from_numpy(array)
    if not array.flags.writeable:
        raise UnsupportedError(
            f"array {array.dtype}{array.shape} cannot be shared: {_READ_ONLY}", hint="copy it: copy=True"
        )
    return Tensor.from_numpy(array, copy=False)
