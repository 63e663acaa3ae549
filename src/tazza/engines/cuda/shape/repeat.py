"""Tile, NumpyTile and Expand: copies with steps of 0; their gradients are sums over what was repeated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from tazza.codegen.block import accepts_rows_but
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.rows import rows_kernel
from tazza.engines.cuda.shape.stride import steps_of, strided_copy
from tazza.operator import Cut, Launch, OpView, RowProgram, Spec, Total, Unsupported, launcher
from tazza.ops.shape.repeat import EXPAND, EXPAND_GRADIENT, NUMPY_TILE, TILE, TILE_GRADIENT
from tazza.tensor import DataType, TensorSpec

HOST = {"tiles", "axis", "repeats", "shape"}
"""Inputs of the host: what they say is in the shape of the output."""


def _pair(inputs: Sequence[Spec], outputs: Sequence[Spec]) -> tuple[TensorSpec, TensorSpec]:
    return cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])


def _repeated(X: TensorSpec, Y: TensorSpec) -> Launch | Unsupported:
    """Y, each of whose axes goes over one of X so often as it is longer; new ones stand before."""
    if X.dtype is DataType.STRING:
        return Unsupported("strings do not lie on a device")
    new = len(Y.shape) - len(X.shape)
    axes = [(extent, 0) for extent in Y.shape[:new]]
    for extent, whole, step in zip(X.shape, Y.shape[new:], steps_of(X.shape), strict=True):
        axes += [(whole // max(1, extent), 0), (extent, step)]
    return strided_copy(X.dtype.itemsize, axes, ("X", "Y"))


def _cut_of_tiles(op: OpView, whole: TensorSpec, part: TensorSpec) -> Cut | str:
    if op.has_input("axis"):
        return "an input says along which axis"
    at = op.axis % len(part.shape)
    before, behind = math.prod(part.shape[:at]), math.prod(part.shape[at:])
    return Cut(before, whole.size // max(1, part.size), behind)


@launcher(TILE, engine=KIND, device=KIND, accepts=accepts_rows_but(HOST))
def prepare_tile(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
    """Compile the copy."""
    del op, context
    return _repeated(*_pair(inputs, outputs))


@launcher(NUMPY_TILE, engine=KIND, device=KIND, accepts=accepts_rows_but(HOST))
def prepare_numpy_tile(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del op, context
    return _repeated(*_pair(inputs, outputs))


@launcher(EXPAND, engine=KIND, device=KIND, accepts=accepts_rows_but(HOST))
def prepare_expand(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del op, context
    return _repeated(*_pair(inputs, outputs))


@rows_kernel(TILE_GRADIENT)
def tile_gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """Sums over tiles."""
    cut = _cut_of_tiles(op, specs["dY"], specs["dX"])
    return cut if isinstance(cut, str) else RowProgram(cut, {"dX": Total("sum", "dY")})


@rows_kernel(EXPAND_GRADIENT)
def expand_gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """Sums over the axes that were repeated."""
    del op
    dY, dX = specs["dY"].shape, specs["dX"].shape
    new = len(dY) - len(dX)
    again = [new + k for k, extent in enumerate(dX) if extent == 1 and dY[new + k] != 1]
    cut = Cut.of(dY, [*range(new), *again])
    return cut if isinstance(cut, str) else RowProgram(cut, {"dX": Total("sum", "dY")})
