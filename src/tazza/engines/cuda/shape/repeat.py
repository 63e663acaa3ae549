"""Tile, NumpyTile and Expand: copies with steps of 0."""

from __future__ import annotations

from tazza.engines.cuda.shape.stride import steps_of, strided_copy
from tazza.engines.cuda.translated import translated
from tazza.operator import Launch
from tazza.ops.shape.repeat import EXPAND, NUMPY_TILE, TILE
from tazza.tensor import TensorSpec


# What inputs of the host say is in the shape of the output.
@translated(TILE, NUMPY_TILE, EXPAND)
def repeat(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Y, each of whose axes goes over one of X so often as it is longer; new ones stand before."""
    new = len(Y.shape) - len(X.shape)
    axes = [(extent, 0) for extent in Y.shape[:new]]
    for extent, whole, step in zip(X.shape, Y.shape[new:], steps_of(X.shape), strict=True):
        axes += [(whole // max(1, extent), 0), (extent, step)]
    return strided_copy(X.dtype.itemsize, axes, ("X", "Y"))
