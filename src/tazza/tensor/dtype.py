"""Element types: the number in the file format, the NumPy dtype, the size and the name of each.

Constant state: `_BY_NUMPY` and `_BY_PROTO`, filled once from the members. bfloat16 is a NumPy dtype of the package
ml_dtypes (8 ms to load), which is imported when someone first asks for it.
"""

from __future__ import annotations

import enum
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.errors import DTypeError


class DataType(enum.Enum):
    """What the elements of a tensor are: label, number in `TensorProto.DataType` (None: not in the format), bytes each.

    Bytes of a string element are those of the reference that the tensor holds, not of the text.

    >>> DataType.FLOAT.label, DataType.FLOAT.proto, DataType.FLOAT.itemsize, DataType.FLOAT.numpy
    ('float32', 1, 4, dtype('float32'))
    """

    FLOAT = ("float32", 1, 4)
    INT32 = ("int32", 2, 4)
    STRING = ("string", 4, 8)
    BOOL = ("bool", 5, 1)
    UINT8 = ("uint8", 6, 1)
    INT8 = ("int8", 7, 1)
    UINT16 = ("uint16", 8, 2)
    INT16 = ("int16", 9, 2)
    INT64 = ("int64", 10, 8)
    FLOAT16 = ("float16", 12, 2)
    DOUBLE = ("float64", 13, 8)
    BFLOAT16 = ("bfloat16", None, 2)

    def __init__(self, label: str, proto: int | None, itemsize: int) -> None:
        self.label = label
        self.proto = proto
        self.itemsize = itemsize

    # Members are unique objects: the identity is the cheapest hash (Enum's own is a Python function).
    __hash__ = object.__hash__

    @functools.cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype in the machine's byte order; object for strings."""
        if self is DataType.BFLOAT16:
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(object if self is DataType.STRING else self.label)

    @property
    def is_float(self) -> bool:
        """Whether the elements are floating-point numbers of any width."""
        return self in _FLOATS

    @classmethod
    def of(cls, what: npt.DTypeLike | npt.NDArray[Any] | DataType) -> DataType:
        """Return the element type of an array, or of what people call it: a name, a class, a NumPy dtype.

        `float` and `int` are of 64 bits, as for NumPy. Text (`str`, `U`, `S`) and objects are strings.

        Raises:
            DTypeError: the format has no such type (uint32, uint64, complex, dates, records ...).

        >>> DataType.of(np.zeros(3, ">f8")), DataType.of("int16"), DataType.of(np.float32), DataType.of("bfloat16")
        (DataType.DOUBLE, DataType.INT16, DataType.FLOAT, DataType.BFLOAT16)
        """
        if isinstance(what, DataType):
            return what
        dtype: np.dtype[Any] = what.dtype if isinstance(what, np.ndarray) else _as_dtype(what)
        found = _BY_NUMPY.get(dtype)
        if found is None:
            found = _find(dtype)
        return found

    @classmethod
    def from_proto(cls, number: int) -> DataType:
        """Return the element type of a number of `TensorProto.DataType`; BYTE (3) reads as uint8.

        Raises:
            DTypeError: no tensor can have that type.

        >>> DataType.from_proto(3)
        DataType.UINT8
        """
        found = _BY_PROTO.get(number)
        if found is None:
            known = ", ".join(f"{number} {member.label}" for number, member in sorted(_BY_PROTO.items()))
            raise DTypeError(f"data_type {number} is not an element type of tensors", hint=f"known: {known}")
        return found

    def __repr__(self) -> str:
        return f"DataType.{self.name}"

    def __str__(self) -> str:
        return self.label


_FLOATS = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})
_BY_NUMPY: dict[np.dtype[Any], DataType] = {
    member.numpy: member for member in DataType if member is not DataType.BFLOAT16
}
_OWN_NAMES = {member.label: member for member in (DataType.BFLOAT16, DataType.STRING)}
"""Names that NumPy does not know, or knows only after ml_dtypes has been imported."""
_BYTE = 3  # TensorProto.BYTE, which old files use for uint8
_BY_PROTO: dict[int, DataType] = {member.proto: member for member in DataType if member.proto is not None}
_BY_PROTO[_BYTE] = DataType.UINT8


def numpy_dtype(what: Any) -> np.dtype[Any]:
    """Return what NumPy makes of `what`: a name, a class, an element type with a shape.

    A checker of types takes a third of a second for each `np.dtype` of what may be any of these, and nothing here.

    >>> numpy_dtype("f4"), numpy_dtype((int, (2,))).shape
    (dtype('float32'), (2,))
    """
    return np.dtype(what)


def _as_dtype(what: npt.DTypeLike) -> np.dtype[Any]:
    if isinstance(what, str) and what in _OWN_NAMES:
        return _OWN_NAMES[what].numpy
    try:
        return numpy_dtype(what)
    except TypeError as error:
        raise DTypeError(f"{what!r} is not an element type", hint="give a NumPy dtype or a DataType") from error


def _find(dtype: np.dtype[Any]) -> DataType:
    """The slow way: foreign byte orders, text of any length, bfloat16; remembers what it finds for the last."""
    if dtype.kind in "US":
        return DataType.STRING
    native = _BY_NUMPY.get(dtype.newbyteorder("="))
    if native is not None:
        return native
    # The name is asked first, so that ml_dtypes is loaded only for its own dtype.
    if dtype.name == DataType.BFLOAT16.label and dtype == DataType.BFLOAT16.numpy:
        _BY_NUMPY[dtype] = DataType.BFLOAT16
        return DataType.BFLOAT16
    raise DTypeError(f"elements of type {dtype} cannot be held by a tensor", hint=_remedy(dtype))


def _remedy(dtype: np.dtype[Any]) -> str:
    wider = {
        "uint32": "astype(np.int64)",
        "uint64": "astype(np.int64), if the values fit",
        "float128": "astype(np.float64)",
    }
    if dtype.kind == "c":
        return "store the real and the imaginary part in two tensors"
    known = ", ".join(member.label for member in DataType)
    return wider.get(dtype.name, f"convert it with astype() to one of {known}")
