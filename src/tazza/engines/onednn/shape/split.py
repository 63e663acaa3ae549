"""Split and DepthSplit: each part is a reorder out of a region of X; equal parts keep the layout of X."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView
from tazza.ops.shape.concat import adds_axis, join_axis
from tazza.ops.shape.split import splits
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec, channels_last


@onednn(*splits.schemas)
def split(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y0, Y1 ... = X, cut along the axis."""
    X, parts = specs["X"], [specs[f"Y{i}"] for i in range(len(op.output_letters))]
    axis = join_axis(op, "X", len(X.shape))
    source, layout = Descriptor.of(X), _part_layout(op, X, parts)
    steps: list[PrimitiveLaunch] = []
    start = 0
    for i, part in enumerate(parts):
        extents = [*X.shape]
        extents[axis] = 1 if adds_axis(op) else part.shape[axis]
        target = Descriptor.of(part.shape, part.dtype, layout).reshape(extents)
        found = reorder(source.part(axis, start, extents), target)
        steps.append(PrimitiveLaunch(found, {"src": "X", "dst": ("Y", i)}))
        start += extents[axis]
    return LaidOut(SequenceLaunch(tuple(steps)), {"Y": layout})


def _part_layout(op: OpView, X: TensorSpec, parts: Sequence[TensorSpec]) -> Layout:
    """Return channels-last where X is so and one layout does for all parts."""
    same = len({part.shape for part in parts}) == 1 and not adds_axis(op) and len(X.shape) > 2
    return channels_last(parts[0].shape) if same and X.layout == channels_last(X.shape) else ROW_MAJOR
