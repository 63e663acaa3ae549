"""What the array-API standard wants of its namespace besides functions of arrays: types, constants, and what there is.

What is left out, and why, is listed in docs/tensor/standard.md.

Source: Python array API standard 2024.12, "Data types", "Data type functions", "Constants", "Inspection".
"""

from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tazza.array.creation import FLOAT, INTEGER, asarray
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, DTypeError
from tazza.tensor.attached import attached
from tazza.tensor.dtype import DataType
from tazza.tensor.place import CPUPlace, Place
from tazza.tensor.promotion import promote
from tazza.tensor.spec import MOST_AXES
from tazza.tensor.tensor import Tensor

if TYPE_CHECKING:
    from types import ModuleType

    DType: TypeAlias = "DataType | npt.DTypeLike"
    Kinds: TypeAlias = "DType | str | tuple[DType | str, ...]"

__all__ = [
    "Info",
    "__array_api_version__",
    "__array_namespace_info__",
    "astype",
    "bfloat16",
    "bool",
    "can_cast",
    "e",
    "finfo",
    "float16",
    "float32",
    "float64",
    "iinfo",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "nan",
    "newaxis",
    "pi",
    "string",
    "uint8",
    "uint16",
]

API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
"""Versions of the Python array-API standard that the library follows, the newest last."""

__array_api_version__ = API_VERSIONS[-1]

bool = DataType.BOOL
int8, int16, int32, int64 = DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64
uint8, uint16 = DataType.UINT8, DataType.UINT16
float16, bfloat16, float32, float64 = DataType.FLOAT16, DataType.BFLOAT16, DataType.FLOAT, DataType.DOUBLE
string = DataType.STRING

e, pi, inf, nan = math.e, math.pi, math.inf, math.nan
newaxis = None

_KINDS = {
    "bool": (bool,),
    "signed integer": (int8, int16, int32, int64),
    "unsigned integer": (uint8, uint16),
    "integral": (int8, int16, int32, int64, uint8, uint16),
    "real floating": (float16, bfloat16, float32, float64),
    "complex floating": (),
    "numeric": (int8, int16, int32, int64, uint8, uint16, float16, bfloat16, float32, float64),
}


# -- element types -----------------------------------------------------------------------------------------------------


@attached
def array_namespace(api_version: str | None) -> ModuleType:
    """Return the module with the functions of the array-API standard.

    Raises:
        ArgumentError: a version of the standard that is not followed.
    """
    if api_version is not None and api_version not in API_VERSIONS:
        raise ArgumentError(
            f"version {api_version!r} of the array-API standard is not followed",
            hint=f"known: {', '.join(API_VERSIONS)}",
        )
    import tazza.array

    return tazza.array


@attached
def astype(x: Tensor, dtype: DType, /, *, copy: builtins.bool = True, device: Place | str | None = None) -> Tensor:
    """Return the elements as another type, as NumPy's `astype` does it; without `copy`, `x` itself if it has that type.

    Raises:
        DTypeError: text into numbers, or numbers into text.

    >>> astype(Tensor.from_numpy(np.array([1.7, -1.7])), "int8").tolist()
    [1, -1]
    """
    return asarray(x, dtype=dtype, device=device, copy=True if copy else None)


def can_cast(from_: DType | Tensor, to: DType, /) -> builtins.bool:
    """Whether promotion leads from one type (or that of a tensor) to the other: `to` is the result type of both.

    >>> can_cast(int8, int16), can_cast(float64, float32)
    (True, False)
    """
    source, target = from_.dtype if isinstance(from_, Tensor) else DataType.of(from_), DataType.of(to)
    return source is target or (string not in (source, target) and promote(source, target) is target)


def isdtype(dtype: DType, kind: Kinds) -> builtins.bool:
    """Whether an element type is of a kind ("integral", "real floating" ...), is that type, or is one of several.

    Raises:
        ArgumentError: an unknown kind.

    >>> isdtype(uint8, "integral"), isdtype(float32, ("bool", float64))
    (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, one) for one in kind)
    if isinstance(kind, str) and kind not in _KINDS:
        raise ArgumentError(f"unknown kind {kind!r} of element types", hint=f"known: {', '.join(_KINDS)}")
    return DataType.of(dtype) in (_KINDS[kind] if isinstance(kind, str) else (DataType.of(kind),))


@dataclass(frozen=True)
class FloatInfo:
    """Limits of a floating-point type: width in bits, step after 1, largest, least, least normal above 0."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DataType


@dataclass(frozen=True)
class IntegerInfo:
    """Limits of an integer type: width in bits, largest, least."""

    bits: int
    max: int
    min: int
    dtype: DataType


def finfo(type: DType | Tensor, /) -> FloatInfo:
    """Return the limits of a floating-point type, or of that of a tensor; `DTypeError` for any other.

    >>> finfo(bfloat16).eps
    0.0078125
    """
    dtype = type.dtype if isinstance(type, Tensor) else DataType.of(type)
    if not dtype.is_float:
        raise DTypeError(f"{dtype} is no floating-point type", hint="iinfo tells of integers")
    if dtype is bfloat16:
        import ml_dtypes

        limits = cast("Any", ml_dtypes.finfo(dtype.numpy))
    else:
        limits = cast("Any", np.finfo(dtype.numpy))
    eps, largest, least = float(limits.eps), float(limits.max), float(limits.min)
    return FloatInfo(dtype.itemsize * 8, eps, largest, least, float(limits.smallest_normal), dtype)


def iinfo(type: DType | Tensor, /) -> IntegerInfo:
    """Return the limits of an integer type, or of that of a tensor; `DTypeError` for any other."""
    dtype = type.dtype if isinstance(type, Tensor) else DataType.of(type)
    if dtype not in _KINDS["integral"]:
        raise DTypeError(f"{dtype} is no integer type", hint="finfo tells of floating point")
    limits = np.iinfo(dtype.numpy)
    return IntegerInfo(limits.bits, int(limits.max), int(limits.min), dtype)


# -- what there is -----------------------------------------------------------------------------------------------------


class Info:
    """What the namespace can do, as the standard asks for it."""

    def capabilities(self) -> dict[str, builtins.bool | int | None]:
        """Return the optional behaviours: indices may be masks, shapes may depend on data; the largest rank.

        >>> Info().capabilities()["max dimensions"] == 64 or np.lib.NumpyVersion(np.__version__) < "2.0.0"
        True
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": MOST_AXES}

    def default_device(self) -> Place:
        """Return where new tensors are."""
        return CPUPlace()

    def default_dtypes(self, *, device: Place | str | None = None) -> dict[str, DataType]:
        """Return the types of values for which none is given."""
        return {"real floating": FLOAT, "integral": INTEGER, "indexing": INTEGER}

    def dtypes(
        self, *, device: Place | str | None = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, DataType]:
        """Return the element types of the standard by name, all or of some kinds: not float16, bfloat16 and string."""
        wanted = tuple(_KINDS) if kind is None else kind
        known = {member.label: member for member in DataType if member not in (float16, bfloat16, string)}
        return {name: dtype for name, dtype in known.items() if isdtype(dtype, wanted)}

    def devices(self) -> list[Place]:
        """Return the places that every machine has; `tazza doctor` tells of devices."""
        return [CPUPlace()]


def __array_namespace_info__() -> Info:
    """Return what can be asked about the namespace."""
    return Info()
