"""Real numbers to n-bit integers and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.planes import plane_bytes, write_planes
from tazza.array.quantized.qtensor import QTensor, check_precision
from tazza.array.quantized.rounding import ROUNDINGS, Rounding
from tazza.errors import ArgumentError, DTypeError, NumericError
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

_BLOCK = 1 << 15
"""Elements at a time, so that what comes between stays in the cache; a multiple of 8."""


def quantize(
    x: npt.ArrayLike | Tensor,
    precision: int,
    *,
    signed: bool = True,
    scale: float | None = None,
    bias: float | None = None,
    rounding: str = "nearest_even",
    generator: np.random.Generator | None = None,
) -> QTensor:
    """Return round(x / scale - bias), clamped to what `precision` bits hold; computed in float64.

    Without a scale the values fill the range: signed, scale = max|x| / (2^precision - 1) and bias = 0; unsigned,
    scale = (max x - min x) / (2^precision - 1) and bias = min x / scale. A scale without a bias has bias 0.

    For x within [scale * (low + bias), scale * (high + bias)], low and high being the limits of the integers,
    |dequantize(quantize(x)) - x| <= `error_bound(q, rounding)`; x beyond it becomes the nearest end.

    Args:
        x: real numbers; infinities are clamped when a scale is given.
        precision: bits of the magnitude, 1 to 8; a sign is one more.
        signed: whether there are negative integers.
        scale: the size of a step, above 0.
        bias: what the integer 0 stands for, in steps.
        rounding: a name in `ROUNDINGS`: nearest_even, nearest_away, floor, stochastic.
        generator: random numbers for "stochastic".

    Raises:
        ArgumentError: precision, scale or bias out of range; a bias without a scale; stochastic without a generator.
        DTypeError: the elements are no real numbers.
        NotFoundError: an unknown rounding.
        NumericError: an element is NaN; or not finite where the scale is to be found.

    >>> quantize([0.0, 1.0, 2.5], 2, signed=False, scale=1.0).integers()
    Tensor([0, 1, 2], dtype=uint8)
    """
    check_precision(precision)
    array = np.asarray(x)
    if array.dtype.name != DataType.BFLOAT16.label and array.dtype.kind not in "fiub":
        raise DTypeError(f"elements of type {array.dtype} are no real numbers")
    if scale is None:
        if bias is not None:
            raise ArgumentError(f"bias {bias} is given without a scale", hint="it is in units of the scale: give both")
        scale, bias = _spread(array, precision, signed)
    bias = 0.0 if bias is None else bias
    planes = Tensor((precision + signed, plane_bytes(array.size)), DataType.UINT8)
    result = QTensor(planes, array.shape, precision=precision, signed=signed, scale=scale, bias=bias, copy=False)
    flat, how = np.ravel(array), ROUNDINGS[rounding]
    for start in range(0, array.size, _BLOCK):
        integers = _rounded(flat[start : start + _BLOCK], result, how, generator)
        piece = planes.array[:, start // 8 : plane_bytes(start + len(integers))]
        block = np.empty(piece.shape, np.uint8)
        write_planes(integers, precision, signed, block)
        piece[...] = block
    return result


def _spread(array: npt.NDArray[Any], precision: int, signed: bool) -> tuple[float, float]:
    """Return scale and bias so that the range of the integers is that of the numbers."""
    if array.size == 0:
        return 1.0, 0.0
    least, most = float(array.min()), float(array.max())
    if not (np.isfinite(least) and np.isfinite(most)):
        raise NumericError(f"numbers from {least} to {most} have no scale", hint="give the scale, or finite numbers")
    steps = (1 << precision) - 1
    if signed:
        scale = max(abs(least), abs(most)) / steps
        return (1.0, 0.0) if scale == 0 else (scale, 0.0)
    scale = (most - least) / steps
    if scale == 0:  # they are all the same, and so 0 steps from the bias, however large a step is
        scale = 1.0 if least == 0 else abs(least)
    return scale, least / scale


def _rounded(
    block: npt.NDArray[Any], q: QTensor, how: Rounding, generator: np.random.Generator | None
) -> npt.NDArray[Any]:
    with np.errstate(over="ignore"):  # what is too large for float64 is clamped, as infinities are
        steps = np.divide(block, q.scale, dtype=np.float64)
    if np.isnan(steps.min()):  # a NaN is the least of all
        raise NumericError("an element is NaN, which no integer stands for", hint="replace it, as by numpy.nan_to_num")
    steps -= q.bias
    low, high = q.limits
    # Clamped before it is rounded: the ends are whole, and the difference of infinities is NaN.
    np.clip(steps, low, high, out=steps)
    return how.round(steps, generator).astype(np.int16 if q.signed else np.uint8)


def dequantize(q: QTensor, dtype: DataType = DataType.FLOAT) -> Tensor:
    """Return scale * (x + bias): see `QTensor.dequantize`."""
    return q.dequantize(dtype)


def error_bound(q: QTensor, rounding: str = "nearest_even", dtype: DataType = DataType.FLOAT) -> float:
    """Return how far dequantize(quantize(x)) can be from an x in the range of `q`.

    That is scale / 2 for roundings to the nearest and scale for the others, and half a unit in the last place of the
    largest value in `dtype` (which must have that value), and two roundings of float64 on the way to the integer.

    Raises:
        NotFoundError: an unknown rounding.
        DTypeError: `dtype` is no floating-point type.

    >>> round(error_bound(QTensor.of_integers([0, 3], 2, signed=False, scale=0.5)), 6)
    0.25
    """
    low, high = q.limits
    most = q.scale * max(abs(low + q.bias), abs(high + q.bias))
    step = ROUNDINGS[rounding].reach * q.scale
    eps, least = _resolution(dtype)
    result = eps / 2 * most + least
    exact = 4 * float(np.finfo(np.float64).eps) * (most + q.scale * abs(q.bias))
    return step + result + exact


def _resolution(dtype: DataType) -> tuple[float, float]:
    """Return the distance from 1 to the next number of a type, and its smallest number above 0."""
    if not dtype.is_float:
        raise DTypeError(f"values of a QTensor are real, {dtype.label} is not")
    if dtype is DataType.BFLOAT16:
        return 2.0**-7, 2.0**-133
    info = np.finfo(dtype.numpy)
    return float(info.eps), float(info.smallest_subnormal)
