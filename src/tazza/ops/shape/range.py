"""Numbers at equal distances: Range. Source: Caffe2."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tazza.errors import NumericError
from tazza.operator import INDEX, Array, Cost, Effects, OpView, Role, blob, ends, kernel, schema, streamed
from tazza.ops.shape.axis import require_one_element
from tazza.tensor import DataType, TensorSpec

RANGE = schema(
    "Range",
    """Y[i] = start + i * step, before stop. A single input is stop: start is 0 then, and step 1 unless it is given.

    Of integers there are (stop - start) / step numbers, rounded towards 0, and one more where that many steps end
    below stop: the last one before a stop that lies below start can be missing, as in Caffe2.""",
    inputs=[
        blob("start", INDEX | {DataType.FLOAT, DataType.DOUBLE}, host=True, role=Role.SHAPE, doc="of one element"),
        blob("stop", "start", optional=True, host=True, role=Role.SHAPE, doc="of one element"),
        blob("step", "start", optional=True, host=True, role=Role.SHAPE, doc="of one element, not 0"),
    ],
    outputs=[blob("Y", "start")],
    effects=Effects.PURE,
    no_gradient=ends("Caffe2 ends the backward pass here"),
    source="Caffe2",
    example="""
    >>> run("Range", [3]), run("Range", [1.0], [2.0], [0.25])
    (array([0, 1, 2], dtype=int32), array([1.  , 1.25, 1.5 , 1.75], dtype=float32))
    """,
)


def range_of(values: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Return start, stop and step, as numbers of one type, of one to three inputs."""
    numbers = [value.reshape(()) for value in values]
    one = numbers[0].dtype.type
    if len(numbers) == 1:
        return np.asarray(one(0)), numbers[0], np.asarray(one(1))
    return numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else np.asarray(one(1))


def range_count(start: Array, stop: Array, step: Array) -> int:
    """Return how many numbers there are."""
    if start.dtype.kind == "i":
        apart, by = int(stop) - int(start), int(step)
        count = abs(apart) // abs(by) * (1 if (apart < 0) == (by < 0) else -1)
        return max(count + (count * by < apart), 0)
    with np.errstate(all="ignore"):
        count = np.ceil((stop - start) / step)
    return max(int(count), 0) if math.isfinite(count) else 0


@RANGE.infer
def range_infer(op: OpView, start: TensorSpec, **others: TensorSpec | None) -> TensorSpec:
    given = {"start": start, **{letter: spec for letter, spec in others.items() if spec is not None}}
    for letter, spec in given.items():
        require_one_element(op, letter, spec.dims)
    values = [value for letter in given if (value := op.value_of(letter)) is not None]
    if len(values) < len(given):
        return TensorSpec((None,), start.dtype)
    first, stop, step = range_of(values)
    if step == 0:
        raise op.error(NumericError, "Step size cannot be 0", "it must lead from start to stop")
    return TensorSpec((range_count(first, stop, step),), start.dtype)


@RANGE.cost
def range_cost(op: OpView, Y: TensorSpec, **given: TensorSpec | None) -> Cost:
    del op
    return streamed(tuple(given.values()), (Y,), flops=2 * Y.size)


@kernel(RANGE)
def range_(start: Array, stop: Array | None, step: Array | None, Y: Array) -> None:
    first, _, by = range_of([value for value in (start, stop, step) if value is not None])
    Y[...] = np.arange(Y.size, dtype=np.min_scalar_type(-Y.size - 1))  # short ones become floats faster
    if by != 1:
        np.multiply(Y, by, out=Y)
    np.add(first, Y, out=Y)
