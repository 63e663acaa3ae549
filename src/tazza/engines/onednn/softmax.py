"""Softmax and its gradient over everything from `axis` on.

Letters: O elements before `axis`, I from it on. The sum does not care for the order of the I elements; so an image with
dense channels is taken as it lies where `axis` is 1.
"""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.operator import LaidOut, OpView
from tazza.ops.axis import axes_from
from tazza.ops.softmax import SOFTMAX, SOFTMAX_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec, channels_last


@onednn(SOFTMAX, empty="zero")
def softmax(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = exp(X) / sum of exp(X)."""
    layout = _layout(op, specs["X"])
    x = _rows(op, specs["X"])
    found = describe("softmax_forward", "forward_inference", "softmax_accurate", x, x, 1, flops=20 * specs["X"].size)
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), {"X": layout, "Y": layout})


@onednn(SOFTMAX_GRADIENT, empty="zero")
def softmax_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX = Y * (dY - sum of Y * dY)."""
    layout = _layout(op, specs["Y"])
    y = _rows(op, specs["Y"])
    forward = describe("softmax_forward", "forward_training", "softmax_accurate", y, y, 1)
    found = describe("softmax_backward", "softmax_accurate", y, y, y, 1, forward)
    launch = PrimitiveLaunch(found, {"dst": "Y", "diff_dst": "dY", "diff_src": "dX"})
    return LaidOut(launch, dict.fromkeys(("Y", "dY", "dX"), layout))


def _layout(op: OpView, spec: TensorSpec) -> Layout:
    """Return the layout to read and write: row-major, unless a batch's images are dense anyway."""
    rank = len(spec.shape)
    dense = rank > 2 and len(axes_from(op.axis, rank)) == rank - 1 and spec.layout == channels_last(spec.shape)
    return spec.layout if dense else ROW_MAJOR


def _rows(op: OpView, spec: TensorSpec) -> Descriptor:
    columns = axes_from(op.axis, len(spec.shape))
    inner = math.prod(spec.shape[axis] for axis in columns)
    return Descriptor.of((spec.size // inner, inner), spec.dtype)  # (O, I)
