"""What whole numbers of a tensor stand for: scales and zero points as part of its spec.

Three things here have numbers of few bits; they are not the same:

| what | where | what is narrow |
|---|---|---|
| quantized tensor | `Tensor` whose spec has a `Quantization` | its meaning: integers that stand for real numbers |
| bit planes | `array.quantized.QTensor`, its own class | integers of 1 to 31 bits, a plane a bit; exact products |
| narrow elements | `Opaque(..., derived=True)` | how numbers lie within an engine (bfloat16); the tensor is float32 |

`PerTensor` is Caffe2's int8 tensor: `data, scale, zero_point` when it is fetched, `Int8TensorCPU` in files.
`PerChannel` is the same with a scale for each slice of an axis, as filters have. `PerRow` are the byte matrices of
embeddings, whose rows carry scale and bias behind their integers; to all who fetch or store them they are plain bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, ShapeError
from tazza.tensor.dtype import DataType

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Quantization:
    """Base of the ways in which integers stand for real numbers."""

    type_name: ClassVar[str] = "Tensor"
    """Name of blobs of such tensors in files."""
    made_by: ClassVar[str | None] = None
    """The operator that makes such tensors of plain ones, which hints name; None where there is none."""
    undone_by: ClassVar[str | None] = None
    """The operator that gives the numbers back, as a plain tensor."""

    def real(self, integers: Array) -> npt.NDArray[np.float32]:
        """Return the numbers that integers stand for."""
        raise NotImplementedError

    def integers(self, numbers: Array, dtype: DataType = DataType.UINT8) -> Array:
        """Return the nearest integers of `dtype`: ties go to even ones, what lies beyond to the bounds, NaN to 0.

        Raises:
            ShapeError: numbers of this shape cannot have it.
        """
        raise NotImplementedError

    def check(self, dims: Sequence[int | None] | None, dtype: DataType) -> None:
        """Check that a tensor can have it.

        Raises:
            ShapeError: extents do not fit.
            ArgumentError: the element type does not.
        """
        del dims
        if dtype not in INTEGERS:
            raise ArgumentError(
                f"{dtype.label} elements cannot be quantized",
                hint="they may be " + ", ".join(one.label for one in INTEGERS),
            )


INTEGERS = (DataType.UINT8, DataType.INT8, DataType.INT32)
"""Element types of quantized tensors; int32 is that of biases."""


@dataclass(frozen=True, slots=True)
class PerTensor(Quantization):
    """x = scale * (q - zero_point). The scale is a float32.

    >>> PerTensor(0.5, 3).real(np.uint8([3, 5])), PerTensor(0.5, 3).integers(np.float32([1, -9]))
    (array([0., 1.], dtype=float32), array([5, 0], dtype=uint8))

    Raises:
        ArgumentError: the scale is not above 0 or not finite, or the zero point is no 32-bit integer.
    """

    type_name: ClassVar[str] = "Int8TensorCPU"
    made_by: ClassVar[str | None] = "Int8Quantize"
    undone_by: ClassVar[str | None] = "Int8Dequantize"

    scale: float
    zero_point: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _scale(self.scale))
        object.__setattr__(self, "zero_point", _zero_point(self.zero_point))

    def real(self, integers: Array) -> npt.NDArray[np.float32]:
        """Return scale * (q - zero_point)."""
        return (integers.astype(np.int32) - np.int32(self.zero_point)).astype(np.float32) * np.float32(self.scale)

    def integers(self, numbers: Array, dtype: DataType = DataType.UINT8) -> Array:
        """Return round(x / scale) + zero_point within the bounds of `dtype`."""
        return _rounded(np.asarray(numbers, np.float32) / np.float32(self.scale), self.zero_point, dtype)

    def __str__(self) -> str:
        return f"scale {self.scale:.6g}, zero point {self.zero_point}"


@dataclass(frozen=True, slots=True)
class PerChannel(Quantization):
    """x = scales[i] * (q - zero_points[i]) for slice i along `axis`.

    >>> PerChannel(0, (0.5, 2.0), (0, 1)).real(np.uint8([[2, 4], [2, 4]])).tolist()
    [[1.0, 2.0], [2.0, 6.0]]

    Raises:
        ArgumentError: as `PerTensor`, or not one zero point for each scale.
    """

    type_name: ClassVar[str] = "Int8TensorCPU"
    undone_by: ClassVar[str | None] = "Int8Dequantize"

    axis: int
    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    _hash: int = field(init=False, repr=False, compare=False)  # specs are keys, and there may be thousands of channels

    def __post_init__(self) -> None:
        if len(self.scales) != len(self.zero_points) or not self.scales:
            raise ArgumentError(f"{len(self.scales)} scales with {len(self.zero_points)} zero points")
        object.__setattr__(self, "scales", tuple(map(_scale, self.scales)))
        object.__setattr__(self, "zero_points", tuple(map(_zero_point, self.zero_points)))
        object.__setattr__(self, "_hash", hash((self.axis, self.scales, self.zero_points)))

    def __hash__(self) -> int:
        return self._hash

    def check(self, dims: Sequence[int | None] | None, dtype: DataType) -> None:
        """See `Quantization.check`."""
        Quantization.check(self, dims, dtype)
        if dims is None:
            return
        if not 0 <= self.axis < len(dims) or dims[self.axis] not in (None, len(self.scales)):
            raise ShapeError(f"{len(self.scales)} scales along axis {self.axis} do not fit a tensor of {tuple(dims)}")

    def shaped(self, rank: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int32]]:
        """Return scales and zero points in a shape that broadcasts against tensors of that rank."""
        dims = tuple(-1 if axis == self.axis else 1 for axis in range(rank))
        return np.array(self.scales, np.float32).reshape(dims), np.array(self.zero_points, np.int32).reshape(dims)

    def real(self, integers: Array) -> npt.NDArray[np.float32]:
        """Return scales * (q - zero_points)."""
        scales, zero_points = self.shaped(integers.ndim)
        return (integers.astype(np.int32) - zero_points).astype(np.float32) * scales

    def integers(self, numbers: Array, dtype: DataType = DataType.UINT8) -> Array:
        """Return round(x / scales) + zero_points within the bounds of `dtype`."""
        scales, zero_points = self.shaped(np.ndim(numbers))
        return _rounded(np.asarray(numbers, np.float32) / scales, zero_points, dtype)

    def __str__(self) -> str:
        return f"{len(self.scales)} scales along axis {self.axis}"


@dataclass(frozen=True, slots=True)
class PerRow(Quantization):
    """x = scale * q + bias, where each row of bytes ends with its own scale and bias.

    `bits` (8, 4 or 2) are those of an integer, the first one of a byte lowest; scale and bias are of `parameters`.

    >>> row = np.concatenate([np.uint8([2, 4]), np.float32([0.5, 1]).view(np.uint8)])
    >>> PerRow().real(row[None])
    array([[2., 3.]], dtype=float32)

    Raises:
        ArgumentError: other bits, or parameters that are neither float32 nor float16.
    """

    bits: int = 8
    parameters: DataType = DataType.FLOAT

    def __post_init__(self) -> None:
        if self.bits not in (2, 4, 8) or self.parameters not in (DataType.FLOAT, DataType.FLOAT16):
            raise ArgumentError(
                f"rows of {self.bits} bits with {self.parameters.label} parameters",
                hint="2, 4 or 8 bits; float32 or float16",
            )

    @property
    def tail_bytes(self) -> int:
        """Bytes of scale and bias."""
        return 2 * self.parameters.itemsize

    def check(self, dims: Sequence[int | None] | None, dtype: DataType) -> None:
        """See `Quantization.check`."""
        last = None if not dims else dims[-1]
        if dtype is not DataType.UINT8:
            raise ArgumentError(f"rows with scale and bias are bytes, not {dtype.label}")
        if last is not None and last < self.tail_bytes:
            raise ShapeError(f"rows of {last} bytes < {self.tail_bytes} for scale and bias")

    def real(self, integers: Array) -> npt.NDArray[np.float32]:
        """Return the numbers: 8 / `bits` for each byte before scale and bias."""
        head, tail = integers[..., : -self.tail_bytes], np.ascontiguousarray(integers[..., -self.tail_bytes :])
        each = 8 // self.bits
        shifts = np.arange(each, dtype=np.uint8) * np.uint8(self.bits)
        found = (head[..., None] >> shifts) & np.uint8(2**self.bits - 1)
        numbers = found.reshape(*head.shape[:-1], head.shape[-1] * each).astype(np.float32)
        pair = tail.view(self.parameters.numpy).astype(np.float32)
        return numbers * pair[..., :1] + pair[..., 1:]

    def integers(self, numbers: Array, dtype: DataType = DataType.UINT8) -> Array:
        """Return rows of bytes with the scale (max - min) / (2**bits - 1) and the bias min of each row behind them.

        A row without elements has the scale 1 and the bias 0.

        Raises:
            ShapeError: the numbers have no rows, or those of a row do not fill their last byte.
        """
        del dtype
        x = np.asarray(numbers, np.float32)
        each = 8 // self.bits
        if x.ndim == 0 or x.shape[-1] % each:
            raise ShapeError(
                f"numbers of {self.bits} bits in the shape {x.shape} do not fill bytes",
                hint=f"rows hold a multiple of {each} numbers",
            )
        width = x.shape[-1]
        low, high = (
            (x.min(-1, keepdims=True), x.max(-1, keepdims=True)) if width else (np.zeros((*x.shape[:-1], 1)),) * 2
        )
        low = low.astype(self.parameters.numpy).astype(np.float32)
        span = (high - low) / np.float32(2**self.bits - 1)
        span = np.where(span > 0, span, np.float32(1)).astype(self.parameters.numpy).astype(np.float32)
        found = np.clip(np.rint((x - low) / span), 0, 2**self.bits - 1).astype(np.uint8)
        found = found.reshape(*x.shape[:-1], width // each, each)
        head = np.bitwise_or.reduce(found << (np.arange(each, dtype=np.uint8) * np.uint8(self.bits)), axis=-1)
        tail = np.concatenate([span, low], -1).astype(self.parameters.numpy).view(np.uint8)
        return np.concatenate([head.astype(np.uint8), tail], -1)

    def __str__(self) -> str:
        return f"{self.bits} bits, scale and bias in each row"


def _scale(value: float) -> float:
    with np.errstate(over="ignore"):  # what is beyond float32 is refused below
        found = float(np.float32(value))
    if not (math.isfinite(found) and found > 0):
        raise ArgumentError(f"scale {value} is not above 0 and finite", hint="a scale is the size of one step")
    return found


def _zero_point(value: int) -> int:
    if not -(2**31) <= value < 2**31:
        raise ArgumentError(f"zero point {value} is no 32-bit integer")
    return int(value)


def _rounded(steps: Array, zero_points: int | Array, dtype: DataType) -> Array:
    bounds = np.iinfo(dtype.numpy)
    # In float64, where every int32 is exact.
    found = np.rint(np.nan_to_num(steps.astype(np.float64), nan=0.0, posinf=2.0**40, neginf=-(2.0**40))) + zero_points
    return np.clip(found, bounds.min, bounds.max).astype(dtype.numpy)


class Int8Tensor(NamedTuple):
    """What fetching a quantized tensor gives, and feeding takes: whole numbers with their scale and zero point.

    With a scale for each channel, scale and zero point are arrays that broadcast against the data: the numbers are
    `(data - zero_point) * scale` in either case.
    """

    data: Array
    scale: float | npt.NDArray[np.float32]
    zero_point: int | npt.NDArray[np.int32]

    @classmethod
    def of(cls, data: Array, quantization: PerTensor | PerChannel) -> Int8Tensor:
        """Return elements with what they stand for."""
        if isinstance(quantization, PerTensor):
            return cls(data, quantization.scale, quantization.zero_point)
        return cls(data, *quantization.shaped(data.ndim))

    @property
    def quantization(self) -> PerTensor | PerChannel:
        """The quantization.

        Raises:
            ArgumentError: scales that vary along several axes, or that are none.
        """
        if np.ndim(self.scale) == 0:
            return PerTensor(float(self.scale), int(self.zero_point))
        dims = np.shape(self.scale)
        axes = [axis for axis, extent in enumerate(dims) if extent != 1]
        if len(axes) > 1 or len(dims) != self.data.ndim:
            hint = "they vary along one axis"
            raise ArgumentError(f"scales of shape {dims} for data of {self.data.shape}", hint=hint)
        points = np.broadcast_to(self.zero_point, dims).reshape(-1)
        scales = np.reshape(self.scale, -1)
        axis = axes[0] if axes else next((i for i, extent in enumerate(self.data.shape) if extent == 1), 0)
        return PerChannel(axis, tuple(map(float, scales)), tuple(map(int, points)))
