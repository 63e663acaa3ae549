"""Tensors that are repeated: Tile along an axis, NumpyTile along all, Expand to the shape that broadcasting gives.

Source: Caffe2; NumPy's rules of broadcasting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    INDEX,
    Array,
    Cost,
    Cut,
    Dims,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    kernel,
    not_written,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree, require_one_element, unknown_dims
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

EXPANDABLE = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.INT32, DataType.INT64})
TILES = blob("tiles", INDEX, optional=True, host=True, role=Role.SHAPE, doc="of one element, before the argument")
AXIS = blob("axis", INDEX, optional=True, host=True, role=Role.SHAPE, doc="of one element, before the argument")
ARGS = (
    arg("tiles", int, None, minimum=0, doc="how often; needed where the input is not there"),
    arg("axis", int, None, doc="negative ones count from the end; needed where the input is not there"),
)

TILE = schema(
    "Tile",
    "Y = X, `tiles` times one behind the other along `axis`.",
    inputs=[blob("X", EXPANDABLE | {DataType.FLOAT16, DataType.UINT8, DataType.STRING}), TILES, AXIS],
    outputs=[blob("Y", like="X")],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Tile", [[1, 2]], tiles=2, axis=1)
    array([[1, 2, 1, 2]], dtype=int32)
    """,
)
TILE_GRADIENT = schema(
    "TileGradient",
    "dX = the sum of the `tiles` equal parts of dY along `axis`.",
    inputs=[blob("dY", EXPANDABLE), TILES, AXIS],
    outputs=[blob("dX", like="dY")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("TileGradient", [1.0, 2.0, 5.0, 7.0], tiles=2, axis=0)
    array([6., 9.], dtype=float32)
    """,
)


@TILE.validate
@TILE_GRADIENT.validate
def tile_validate(op: OpView) -> None:
    for name in ("tiles", "axis"):
        if not op.has_input(name) and op.arguments[name] is None:
            raise op.error(ArgumentError, f"argument {name!r} is missing, and there is no input for it")


def _number(op: OpView, name: str, given: TensorSpec | None) -> int | None:
    """Return what an input or else the argument says; None while the input is not known."""
    if given is None:
        return int(op.arguments[name])
    require_one_element(op, name, given.dims)
    value = op.value_of(name)
    return None if value is None else int(value.reshape(()))


def tiled(op: OpView, dims: Sequence[int | None], tiles: int | None, axis: int | None) -> tuple[Dims, int | None]:
    """Return the extents of Y, and the axis counted from 0.

    Raises:
        ShapeError: there is no such axis.
        ArgumentError: a negative number of tiles.
    """
    if tiles is not None and tiles < 0:
        raise op.error(ArgumentError, f"tiles = {tiles}, it cannot be negative")
    if axis is None:
        return (None,) * len(dims), None
    op.require(-len(dims) <= axis < len(dims), f"axis = {axis} of a tensor of rank {len(dims)}")
    at, extent = axis % len(dims), dims[axis]
    return (*dims[:at], None if None in (tiles, extent) else (tiles or 0) * (extent or 0), *dims[at + 1 :]), at


@TILE.infer
def tile_infer(op: OpView, X: TensorSpec, tiles: TensorSpec | None, axis: TensorSpec | None) -> TensorSpec:
    count, along = _number(op, "tiles", tiles), _number(op, "axis", axis)
    return TensorSpec(None if X.dims is None else tiled(op, X.dims, count, along)[0], X.dtype)


@TILE_GRADIENT.infer
def tile_gradient_infer(op: OpView, dY: TensorSpec, tiles: TensorSpec | None, axis: TensorSpec | None) -> TensorSpec:
    count, along = _number(op, "tiles", tiles), _number(op, "axis", axis)
    if dY.dims is None:
        return dY
    dims, at = tiled(op, dY.dims, count, along)
    if at is None or count is None:
        return TensorSpec(dims, dY.dtype)
    extent = dY.dims[at]
    relation = f"dY has the extent {extent} along axis {at}, tiles = {count}"
    op.require(count > 0 and (extent is None or extent % count == 0), relation, "each tile has as much of it")
    return TensorSpec((*dims[:at], None if extent is None else extent // count, *dims[at + 1 :]), dY.dtype)


@TILE.cost
def tile_cost(op: OpView, X: TensorSpec, Y: TensorSpec, **given: TensorSpec | None) -> Cost:
    del op, given
    return streamed((X,), (Y,))


@TILE_GRADIENT.cost
def tile_gradient_cost(op: OpView, dY: TensorSpec, dX: TensorSpec, **given: TensorSpec | None) -> Cost:
    del op, given
    return streamed((dY,), (dX,), flops=dY.size)


@TILE.gradient
def tile_gradient(g: GradientRequest) -> list[OperatorDef]:
    behind = [g.I(i) for i in range(1, len(g.definition.input))]
    return g.emit("TileGradient", [g.dY, *behind], [g.dX])


def _parts(op: OpView, axis: Array | None, whole: Array, part: Array) -> tuple[Array, Array]:
    """Return both as (before, tiles, behind) and (before, 1, behind); neither is empty."""
    at = (int(op.arguments["axis"]) if axis is None else int(axis.reshape(()))) % part.ndim
    before, behind = math.prod(part.shape[:at]), math.prod(part.shape[at:])
    return whole.reshape(before, -1, behind), part.reshape(before, 1, behind)


@kernel(TILE)
def tile(op: OpView, X: Array, axis: Array | None, Y: Array) -> None:
    if Y.size:
        whole, part = _parts(op, axis, Y, X)
        whole[...] = part


@kernel(TILE_GRADIENT)
def tile_gradient_kernel(op: OpView, dY: Array, axis: Array | None, dX: Array) -> None:
    if dX.size:
        whole, part = _parts(op, axis, dY, dX)
        np.sum(whole, axis=1, keepdims=True, dtype=dX.dtype, out=part)


def _summed_tiles(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """Say how tiles are added: those of the axis along which dY has more elements than dX."""
    del op
    dY, dX = specs["dY"], specs["dX"]
    at = next((axis for axis, (y, x) in enumerate(zip(dY.shape, dX.shape, strict=True)) if y != x), 0)
    tiles = dY.shape[at] // max(dX.shape[at], 1)
    cut = Cut.of((*dX.shape[:at], tiles, *dX.shape[at:]), [at])
    return cut if isinstance(cut, str) else RowProgram(cut, {"dX": Total("sum", "dY")})


row_program(TILE_GRADIENT, _summed_tiles)

NUMPY_TILE = schema(
    "NumpyTile",
    "Y = X, repeats[i] times one behind the other along each axis i.",
    inputs=[
        blob("X"),
        blob("repeats", DataType.INT64, "R", host=True, role=Role.SHAPE, doc="one number for each axis of X"),
    ],
    outputs=[blob("Y", "X")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none; that of Tile is there"),
    source="NumPy's tile",
    example="""
    >>> run("NumpyTile", [[1, 2]], np.array([2, 2]))
    array([[1, 2, 1, 2],
           [1, 2, 1, 2]], dtype=int32)
    """,
)


@NUMPY_TILE.infer
def numpy_tile_infer(op: OpView, X: TensorSpec, repeats: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    if repeats.dims is not None:
        relation = f"repeats has {repeats.dims[0]} numbers, X has the shape {show_dims(X.dims)}"
        op.require(agree(repeats.dims[0], len(X.dims)), relation, "one for each axis")
    value = op.value_of("repeats")
    if value is None:
        return TensorSpec((None,) * len(X.dims), X.dtype)
    counts = value.tolist()
    op.require(min(counts, default=0) >= 0, f"repeats = {counts}, none can be negative")
    dims = (None if n is None else n * count for n, count in zip(X.dims, counts, strict=True))
    return TensorSpec(tuple(dims), X.dtype)


@NUMPY_TILE.cost
def numpy_tile_cost(op: OpView, X: TensorSpec, repeats: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, repeats), (Y,))


@kernel(NUMPY_TILE)
def numpy_tile(X: Array, repeats: Array, Y: Array) -> None:
    each = [n for pair in zip(repeats.tolist(), X.shape, strict=True) for n in pair]
    Y.reshape(each)[...] = X.reshape([n for extent in X.shape for n in (1, extent)])


EXPAND = schema(
    "Expand",
    """Y = X, repeated along axes of extent 1 and along new ones before its own, as broadcasting with `shape` does it.

    Below 1 an extent of `shape` counts as 1.""",
    inputs=[
        blob("X", EXPANDABLE),
        blob("shape", DataType.INT64, host=True, role=Role.SHAPE, doc="each extent 1, or that of X unless that is 1"),
    ],
    outputs=[blob("Y", "X")],
    effects=Effects.PURE,
    source="NumPy's broadcasting",
    example="""
    >>> run("Expand", [[1], [2]], np.array([3, 1, 2]))[2]
    array([[1, 1],
           [2, 2]], dtype=int32)
    """,
)
EXPAND_GRADIENT = schema(
    "ExpandGradient",
    "dX = the sum of dY over the axes along which X was repeated.",
    inputs=[blob("dY", EXPANDABLE), blob("X", role=Role.SHAPE, doc="says the shape")],
    outputs=[blob("dX", "dY")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("ExpandGradient", [[1.0, 2.0], [3.0, 4.0]], [[7.0], [7.0]])
    array([[3.],
           [7.]], dtype=float32)
    """,
)


def expanded(op: OpView, dims: Sequence[int | None], shape: Sequence[int]) -> Dims:
    """Return the extents of Y.

    Raises:
        ShapeError: one of X is neither 1 nor that of the shape.
    """
    rank = max(len(dims), len(shape))
    own = (*(1,) * (rank - len(dims)), *dims)
    wanted = (*(1,) * (rank - len(shape)), *(max(int(n), 1) for n in shape))
    pairs = list(zip(own, wanted, strict=True))
    fits = all(x in (None, 1) or n in (1, x) for x, n in pairs)
    op.require(fits, f"X has the shape {show_dims(dims)}, it cannot become {list(shape)}", "only 1 can be repeated")
    return tuple(x if n == 1 else n for x, n in pairs)


@EXPAND.infer
def expand_infer(op: OpView, X: TensorSpec, shape: TensorSpec) -> TensorSpec:
    value = op.value_of("shape")
    if value is not None and X.dims is not None:
        return TensorSpec(expanded(op, X.dims, value.reshape(-1).tolist()), X.dtype)
    if X.dims is None or shape.dims is None or not shape.shape_known:
        return TensorSpec(None, X.dtype)
    return TensorSpec(unknown_dims(op, "shape", max(len(X.dims), shape.size)), X.dtype)


@EXPAND.cost
def expand_cost(op: OpView, X: TensorSpec, shape: TensorSpec, Y: TensorSpec) -> Cost:
    del op, shape
    return streamed((X,), (Y,))


@EXPAND.gradient
def expand_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ExpandGradient", [g.dY, g.X], [g.dX])


@kernel(EXPAND)
def expand(X: Array, Y: Array) -> None:
    Y[...] = X


@EXPAND_GRADIENT.infer
def expand_gradient_infer(op: OpView, dY: TensorSpec, X: TensorSpec) -> TensorSpec:
    if X.dims is not None and dY.dims is not None:
        behind = dY.dims[max(len(dY.dims) - len(X.dims), 0) :]
        fits = len(dY.dims) >= len(X.dims) and all(x == 1 or agree(x, y) for x, y in zip(X.dims, behind, strict=True))
        relation = f"dY has the shape {show_dims(dY.dims)}, X has {show_dims(X.dims)}"
        op.require(fits, relation, "what X is repeated to ends with its extents")
    return TensorSpec(X.dims, dY.dtype)


@EXPAND_GRADIENT.cost
def expand_gradient_cost(op: OpView, dY: TensorSpec, X: TensorSpec, dX: TensorSpec) -> Cost:
    del op, X
    return streamed((dY,), (dX,), flops=dY.size)


@kernel(EXPAND_GRADIENT)
def expand_gradient_kernel(dY: Array, dX: Array) -> None:
    new = dY.ndim - dX.ndim
    again = tuple(i + new for i, n in enumerate(dX.shape) if n == 1 and dY.shape[i + new] != 1)
    summed = dY.sum(axis=(*range(new), *again), dtype=dX.dtype)
    dX[...] = summed.reshape(dX.shape)


def _summed_copies(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """Say how copies are added: along axes that X lacks, or of which it has one element."""
    del op
    dY, dX = specs["dY"], specs["dX"]
    own = (*(1,) * (len(dY.shape) - len(dX.shape)), *dX.shape)
    cut = Cut.of(dY.shape, [axis for axis, (n, x) in enumerate(zip(dY.shape, own, strict=True)) if n != x])
    return cut if isinstance(cut, str) else RowProgram(cut, {"dX": Total("sum", "dY")})


row_program(EXPAND_GRADIENT, _summed_copies)
