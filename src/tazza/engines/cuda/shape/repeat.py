"""Tile, NumpyTile and Expand: copies with steps of 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import accepts_rows_but
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.shape.stride import steps_of, strided_copy
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.repeat import EXPAND, NUMPY_TILE, TILE
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


@launcher(TILE, engine=KIND, device=KIND, accepts=accepts_rows_but(HOST))
@launcher(NUMPY_TILE, engine=KIND, device=KIND, accepts=accepts_rows_but(HOST))
@launcher(EXPAND, engine=KIND, device=KIND, accepts=accepts_rows_but(HOST))
def prepare_repeat(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del op, context
    return _repeated(*_pair(inputs, outputs))
