"""Rectifiers: Relu and its gradient; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.operator import LaidOut, OpView
from tazza.ops.relu import RELU, RELU_GRADIENT
from tazza.tensor import TensorSpec


@onednn(RELU, empty="zero")
def relu(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = max(X, 0)."""
    del op
    x = Descriptor.of(specs["X"])
    found = describe("eltwise_forward", "forward_inference", "eltwise_relu", x, x, 0.0, 0.0)
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), {"Y": specs["X"].layout})


@onednn(RELU_GRADIENT, empty="zero")
def relu_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX from Y and dY, in the layout of Y, where the forward operator left it; in place in that of dY."""
    in_place = op.definition.output[0] == op.definition.input[1]
    layout = specs["dY" if in_place else "Y"].layout
    y = Descriptor.of(specs["Y"].shape, specs["Y"].dtype, layout)
    kind = "eltwise_relu_use_dst_for_bwd"
    forward = describe("eltwise_forward", "forward_training", kind, y, y, 0.0, 0.0)
    found = describe("eltwise_backward", kind, y, y, y, 0.0, 0.0, forward)
    launch = PrimitiveLaunch(found, {"dst": "Y", "diff_dst": "dY", "diff_src": "dX"})
    return LaidOut(launch, {"Y": layout, "dY": layout, "dX": layout})
