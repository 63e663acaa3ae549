"""A box cut out of a tensor: Slice.

X and Y have the same rank; along axis i, Y has the elements from starts[i] up to, but without, ends[i]. A number below
0 counts from behind the last element: -1 is the end itself, -2 the last element. Numbers behind the end mean the end;
axes for which there are no numbers stay whole. The numbers come as arguments or as inputs.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence

from tazza.errors import ArgumentError
from tazza.operator import (
    INDEX,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
    together,
)
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

SLICE_ARGS = (
    arg("starts", list[int], None, doc="first element along each axis; without effect beside the inputs"),
    arg("ends", list[int], None, doc="the element behind the last along each axis; without effect beside the inputs"),
)
STARTS = blob("first", INDEX, optional=True, host=True, role=Role.INDEX, doc="starts, one-dimensional")
ENDS = blob("behind", "first", optional=True, host=True, role=Role.INDEX, doc="ends, as many")


def slice_validate(op: OpView) -> None:
    """Refuse a box that is given by half, or not at all."""
    if op.has_input("first"):
        if not op.has_input("behind"):
            raise op.error(ArgumentError, "an input for starts, none for ends", hint="give both as inputs")
        return
    if op.starts is None or op.ends is None:
        raise op.error(ArgumentError, f"starts = {op.starts}, ends = {op.ends}", hint="give both")
    if len(op.starts) != len(op.ends):
        raise op.error(ArgumentError, f"{len(op.starts)} starts {op.starts} for {len(op.ends)} ends {op.ends}")


def box(
    op: OpView, dims: Sequence[int | None], starts: Sequence[int], ends: Sequence[int]
) -> tuple[builtins.slice, ...]:
    """Return for each axis of X what is taken of it; the whole of an axis whose extent is unknown has no end.

    Raises:
        ShapeError: more numbers than axes, a number far below 0, or an end before its start.
    """
    relation = f"{len(starts)} starts {list(starts)} for X of {len(dims)} dimensions {show_dims(dims)}"
    op.require(len(starts) <= len(dims), relation)
    taken: list[builtins.slice] = []
    for axis, extent in enumerate(dims):
        if axis >= len(starts) or extent is None:
            taken.append(builtins.slice(0, extent))
            continue
        start, end = (_place(op, axis, extent, number) for number in (starts[axis], ends[axis]))
        relation = f"axis {axis} of {extent} elements ends at {end}, before it starts at {start}"
        op.require(start <= end, relation, "-1 means the end, -2 the last element")
        taken.append(builtins.slice(start, end))
    return tuple(taken)


def _place(op: OpView, axis: int, extent: int, number: int) -> int:
    relation = f"{number} counts back beyond the first of {extent} elements of axis {axis}"
    op.require(number >= -extent - 1, relation, "-1 means the end, -2 the last element")
    return min(number if number >= 0 else number + extent + 1, extent)


def given_box(op: OpView) -> tuple[Sequence[int], Sequence[int]] | None:
    """Return starts and ends while shapes are inferred, or None where they are not known."""
    if not op.has_input("first"):
        return op.starts, op.ends
    first, behind = op.value_of("first"), op.value_of("behind")
    return None if first is None or behind is None else (first.tolist(), behind.tolist())


def sliced(op: OpView, X: TensorSpec, first: TensorSpec | None, behind: TensorSpec | None) -> TensorSpec:
    """Return the spec of what is cut out of X."""
    for letter, spec in (("first", first), ("behind", behind)):
        if spec is not None and spec.dims is not None:
            op.require(len(spec.dims) == 1, f"{letter} has the shape {show_dims(spec.dims)}, it must be a list")
    if first is not None and behind is not None and first.dims is not None and behind.dims is not None:
        relation = f"{first.dims[0]} starts for {behind.dims[0]} ends"
        op.require(shapes_agree(first.dims, behind.dims), relation)
    numbers = given_box(op)
    if X.dims is None:
        return TensorSpec(None, X.dtype)
    if numbers is None:
        return TensorSpec((None,) * len(X.dims), X.dtype)
    taken = box(op, X.dims, *numbers)
    return TensorSpec(tuple(None if part.stop is None else part.stop - part.start for part in taken), X.dtype)


SLICE = schema(
    "Slice",
    """Y = X[starts[0]:ends[0], starts[1]:ends[1], ...].

    Numbers below 0 count from behind the last element, so that -1 is the end itself.""",
    inputs=[blob("X"), STARTS, ENDS],
    outputs=[blob("Y", "X")],
    args=SLICE_ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Slice", [[1, 2, 3], [4, 5, 6]], starts=[0, 1], ends=[-1, -1])
    array([[2, 3],
           [5, 6]], dtype=int32)
    """,
)
SLICE.validate(slice_validate)
SLICE.infer(sliced)


@SLICE.cost
def slice_cost(op: OpView, X: TensorSpec, first: TensorSpec | None, behind: TensorSpec | None, Y: TensorSpec) -> Cost:
    del op, X
    return streamed((Y, first, behind), (Y,))  # of X only what is taken is read


@SLICE.gradient
def slice_gradient(g: GradientRequest) -> list[OperatorDef]:
    numbers = [g.first, g.behind] if g.op.has_input("first") else []
    return g.emit("SliceGradient", [g.X, *numbers, g.dY], [g.dX])


@kernel(SLICE)
def slice_(op: OpView, X: Array, first: Array | None, behind: Array | None, Y: Array) -> None:
    Y[...] = X[_taken(op, X, first, behind)]


def _taken(op: OpView, X: Array, first: Array | None, behind: Array | None) -> tuple[builtins.slice, ...]:
    if first is None or behind is None:
        return box(op, X.shape, op.starts, op.ends)
    return box(op, X.shape, first.tolist(), behind.tolist())


SLICE_GRADIENT = schema(
    "SliceGradient",
    """dX = dY where Y was cut out of X, else 0.

    Inputs X, dY, or X, starts, ends, dY.""",
    inputs=[blob("X", role=Role.SHAPE, doc="of any type"), STARTS, ENDS, blob("dY")],
    outputs=[blob("dX", "dY")],
    args=SLICE_ARGS,
    effects=Effects.PURE,
    relations=[together(STARTS.name, ENDS.name)],
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SliceGradient", [1.0, 2.0, 3.0], [7.0], starts=[1], ends=[2])
    array([0., 7., 0.], dtype=float32)
    """,
)
SLICE_GRADIENT.validate(slice_validate)


@SLICE_GRADIENT.infer
def slice_gradient_infer(
    op: OpView, X: TensorSpec, first: TensorSpec | None, behind: TensorSpec | None, dY: TensorSpec
) -> TensorSpec:
    Y = sliced(op, X, first, behind)
    if Y.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, slicing X gives {show_dims(Y.dims)}"
        op.require(shapes_agree(Y.dims, dY.dims), relation)
    return TensorSpec(X.dims, dY.dtype)


@SLICE_GRADIENT.cost
def slice_gradient_cost(
    op: OpView, X: TensorSpec, first: TensorSpec | None, behind: TensorSpec | None, dY: TensorSpec, dX: TensorSpec
) -> Cost:
    del op, X
    return streamed((dY, first, behind), (dX,))


@kernel(SLICE_GRADIENT)
def slice_gradient_kernel(
    op: OpView, X: Array, first: Array | None, behind: Array | None, dY: Array, dX: Array
) -> None:
    dX[...] = 0
    taken = _taken(op, X, first, behind)
    shape = dX[taken].shape
    relation = f"dY has the shape {show_dims(dY.shape)}, slicing X gives {show_dims(shape)}"
    op.require(shape == dY.shape, relation)  # where starts and ends are inputs, plans know no sooner
    dX[taken] = dY
