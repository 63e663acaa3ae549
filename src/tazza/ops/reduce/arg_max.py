"""Places of the largest and the smallest element along an axis: ArgMax, ArgMin.

X has n elements along `axis`; Y has one there, or no such axis. Of equal elements it is the first. NaN is passed over,
but at the start: nothing is above or below it. Where n is 0, Y is 0.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import Array, Cost, Effects, OpSchema, OpView, arg, blob, family, forbidden, kernel, schema
from tazza.ops.math.sum import SUMMABLE
from tazza.tensor import DataType, TensorSpec

ARGS = (
    arg("axis", int, -1, minimum=-1, doc="along which; -1 is the last one"),
    arg("keepdims", bool, True, doc="whether Y keeps the axis, with one element"),
)


def arg_axis(op: OpView, rank: int) -> int:
    """Return the axis, counted from the first.

    Raises:
        ShapeError: X has none of that number.
    """
    axis = rank - 1 if op.axis == -1 else int(op.axis)
    op.require(0 <= axis < rank, f"axis {op.axis} of an X of rank {rank}", "axis is -1 or in [0, rank)")
    return axis


def arg_max_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, DataType.INT64)
    axis = arg_axis(op, len(X.dims))
    return TensorSpec((*X.dims[:axis], *((1,) if op.keepdims else ()), *X.dims[axis + 1 :]), DataType.INT64)


def arg_max_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(X.size, X.nbytes, Y.nbytes)


@dataclass(frozen=True, slots=True)
class Place:
    """What tells one operator from the other; `find` gives the first place."""

    doc: str
    find: Callable[..., Array]
    example: str


@family(
    {
        "ArgMax": Place("Y = place of the largest element of X along `axis`.", np.argmax, "[[1],\n       [0]]"),
        "ArgMin": Place("Y = place of the smallest element of X along `axis`.", np.argmin, "[[0],\n       [2]]"),
    }
)
def arg_extremes(type: str, row: Place) -> OpSchema:
    """The place of the largest or the smallest element along an axis."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", SUMMABLE)],
        outputs=[blob("Y", DataType.INT64)],
        args=ARGS,
        effects=Effects.PURE,
        no_gradient=forbidden("places are whole numbers"),
        source="Caffe2",
        example=f'>>> run("{type}", [[1.0, 5.0, 3.0], [2.0, 2.0, 0.0]])\narray({row.example})',
    )
    made.infer(arg_max_infer)
    made.cost(arg_max_cost)

    @kernel(made)
    def arg_extreme(op: OpView, X: Array, Y: Array) -> None:
        axis = arg_axis(op, X.ndim)
        if X.shape[axis] == 0:
            Y[...] = 0
            return
        # Behind the first element NaN never wins, just as a copy of that one; np.argmax finds a NaN in its place.
        plain = np.where(np.isnan(X), np.take(X, [0], axis=axis), X)
        Y[...] = row.find(plain, axis=axis, keepdims=op.keepdims)

    return made
