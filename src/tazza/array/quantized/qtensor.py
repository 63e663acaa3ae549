"""`QTensor`: integers of 1 to 8 bits, signed or not, as planes of bits, with a scale and a bias.

Values are scale * (x + bias). Planes run over the elements in row-major order (planes.py); a signed tensor has one more
plane, the signs: sign and magnitude, so `precision` 3 with a sign is -7 to 7 in four planes.

A QTensor does not change: it copies the planes that it is given. What products derive from it (rows in the order that a
kernel reads, sums of rows) is kept with it, at most once for each side of a product that it stood on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, SupportsIndex, TypeVar, cast

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.planes import Octets, plane_bytes, read_codes, read_planes, write_planes
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.blob import blob_type
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

MOST_BITS = 8
"""Bits of a magnitude that a QTensor can have."""

T = TypeVar("T")


@blob_type("caffe2::QTensor<caffe2::CPUContext>", serialized="QTensor")
class QTensor:
    """N-bit integers with a scale and a bias.

    >>> q = QTensor.of_integers(np.int8([[1, -3, 2]]), 2, signed=True, scale=0.5); q.dequantize()
    Tensor([[ 0.5, -1.5,  1. ]], dtype=float32)
    """

    __slots__ = ("__weakref__", "_derived", "_planes", "bias", "precision", "scale", "shape", "signed")

    def __init__(
        self,
        planes: Tensor,
        shape: Iterable[SupportsIndex],
        *,
        precision: int,
        signed: bool,
        scale: float = 1.0,
        bias: float = 0.0,
        copy: bool = True,
    ) -> None:
        """Copy planes: uint8, (precision + signed, ceil(size / 8)).

        With `copy=False` they are taken over, and nobody may write to them from then on.

        Raises:
            ArgumentError: precision is not from 1 to 8, or the scale is not above 0, or one of the numbers not finite.
            ShapeError: the planes are not those of that shape.
        """
        check_precision(precision)
        if not (np.isfinite(scale) and scale > 0):
            raise ArgumentError(f"scale {scale} of a QTensor is not a finite number above 0")
        if not np.isfinite(bias):
            raise ArgumentError(f"bias {bias} of a QTensor is not finite")
        self.shape = Dim(shape)
        self.precision = precision
        self.signed = signed
        self.scale = float(scale)
        self.bias = float(bias)
        wanted = (self.plane_count, plane_bytes(self.size))
        if planes.dtype is not DataType.UINT8 or tuple(planes.shape) != wanted:
            raise ShapeError(f"planes {planes.spec} != uint8{list(wanted)} of {precision} bits of {list(self.shape)}")
        self._planes = Tensor.from_numpy(planes.plain()) if copy else planes
        self._derived: dict[Hashable, Any] = {}

    @staticmethod
    def of_integers(
        x: npt.ArrayLike | Tensor, precision: int, *, signed: bool, scale: float = 1.0, bias: float = 0.0
    ) -> QTensor:
        """Return a tensor of these integers.

        Raises:
            ArgumentError: precision is not from 1 to 8; an element does not fit into it.
            DTypeError: the elements are no integers.
        """
        check_precision(precision)
        array = np.asarray(x)
        if array.dtype.kind not in "iub":
            raise DTypeError(f"elements of type {array.dtype} are no integers", hint="quantize() takes real numbers")
        low, high = limits(precision, signed)
        if array.size and (int(array.min()) < low or int(array.max()) > high):
            raise ArgumentError(
                f"integers from {array.min()} to {array.max()} are not within {low} to {high} "
                f"of {precision} bits{' and a sign' if signed else ''}",
                hint="take more bits, or clip them",
            )
        planes = Tensor((precision + signed, plane_bytes(array.size)), DataType.UINT8)
        kind = np.int16 if signed else np.uint8  # a sign beside 8 bits does not fit into a byte
        write_planes(np.ravel(array).astype(kind), precision, signed, planes.array)
        return QTensor(planes, array.shape, precision=precision, signed=signed, scale=scale, bias=bias, copy=False)

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.shape.numel

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def plane_count(self) -> int:
        """Bits that an element takes: those of its magnitude, and its sign."""
        return self.precision + self.signed

    @property
    def nbytes(self) -> int:
        """Bytes of all planes."""
        return self._planes.nbytes

    @property
    def planes(self) -> Octets:
        """The planes, (plane_count, ceil(size / 8)) bytes, read-only."""
        view = self._planes.array.view()
        view.flags.writeable = False
        return view

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer that it can hold."""
        return limits(self.precision, self.signed)

    # -- what it holds -------------------------------------------------------------------------------------------------

    def integer_array(self) -> npt.NDArray[Any]:
        """Return the integers as a fresh array of the smallest dtype that has them all."""
        return read_planes(self._planes.array, self.size, self.signed).reshape(self.shape)

    def integers(self) -> Tensor:
        """Return the integers x, in the smallest element type that has them all: uint8, int8 or int16."""
        found = self.integer_array()
        result = Tensor(self.shape, DataType.of(found))
        result.array[...] = found
        return result

    def dequantize(self, dtype: DataType = DataType.FLOAT) -> Tensor:
        """Return scale * (x + bias), computed in float64 and rounded once to `dtype`.

        Raises:
            DTypeError: `dtype` is no floating-point type.
        """
        if not dtype.is_float:
            raise DTypeError(
                f"values of a QTensor are real, {dtype.label} is not", hint="integers() gives whole numbers"
            )
        result = Tensor(self.shape, dtype)
        # There are few different integers: each value is computed once, then looked up by its bits.
        codes = np.arange(1 << self.plane_count)
        x = np.where(codes >> self.precision, -(codes & self.limits[1]), codes)
        table = (self.scale * (x + self.bias)).astype(dtype.numpy)
        places = read_codes(self._planes.array, self.size)
        np.take(table, places, out=result.array.reshape(-1), mode="clip")  # all are within; raising would make a copy
        return result

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """Let NumPy read the values (float32)."""
        if copy is False:
            raise ValueError("the values of a QTensor cannot be read without a copy")
        return np.array(self.dequantize().array, dtype)

    def reshape(self, dims: Iterable[SupportsIndex]) -> QTensor:
        """Return the same elements in another shape, without a copy.

        Raises:
            ShapeError: another number of elements.
        """
        shape = Dim(dims)
        if shape.numel != self.size:
            raise ShapeError(f"{list(shape)} has {shape.numel} elements, {list(self.shape)} has {self.size}")
        return QTensor(
            self._planes,
            shape,
            precision=self.precision,
            signed=self.signed,
            scale=self.scale,
            bias=self.bias,
            copy=False,
        )

    def equal(self, other: QTensor) -> bool:
        """Whether shape, precision, sign, scale, bias and all integers are the same; -0 is 0, padding is nothing."""
        mine, theirs = ((q.shape, q.precision, q.signed, q.scale, q.bias) for q in (self, other))
        return mine == theirs and np.array_equal(self.integer_array(), other.integer_array())

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what was made of this tensor under a key, or make it now and keep it."""
        if key not in self._derived:
            self._derived[key] = make()  # two threads may both make it: they make the same
        return cast("T", self._derived[key])

    def __matmul__(self, other: object) -> Tensor:
        if not isinstance(other, QTensor):
            return NotImplemented
        from tazza.array.quantized.matrix import quantized_matmul

        return quantized_matmul(self, other)

    def __repr__(self) -> str:
        sign = " and a sign" if self.signed else ""
        bits = f"{self.precision} bit{'s' if self.precision > 1 else ''}"
        return f"QTensor({list(self.shape)}, {bits}{sign}, scale {self.scale:g}, bias {self.bias:g})"


def limits(precision: int, signed: bool) -> tuple[int, int]:
    """Return the smallest and the largest integer of so many bits.

    >>> limits(3, signed=True), limits(3, signed=False)
    ((-7, 7), (0, 7))
    """
    top = (1 << precision) - 1
    return (-top if signed else 0), top


def check_precision(precision: int) -> None:
    """Raise `ArgumentError` unless a QTensor can have so many bits."""
    if isinstance(precision, bool) or not isinstance(precision, int):  # pyright: ignore[reportUnnecessaryIsInstance] -- the caller's mistake
        raise ArgumentError(f"precision {precision!r} of a QTensor is no whole number of bits")
    if not 1 <= precision <= MOST_BITS:
        raise ArgumentError(f"precision {precision} of a QTensor is not from 1 to {MOST_BITS} bits")
