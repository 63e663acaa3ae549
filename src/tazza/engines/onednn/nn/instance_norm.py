"""InstanceNorm and its gradient: groups of one channel each, see `group_norm`; a single image by batch normalization.

With one image, in any layout, batch normalization computes just this, all in one step.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.nn.group_norm import (
    BACKWARD_NS,
    FORWARD_NS,
    Groups,
    inverse_roots,
    normalize_groups,
    normalize_groups_backward,
)
from tazza.engines.onednn.nn.layer_norm import VARIANCE, affine_flags
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.nn.instance_norm import INSTANCE_NORM, INSTANCE_NORM_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

VECTORS = dict.fromkeys(("scale", "bias"), ROW_MAJOR)


@onednn(INSTANCE_NORM, empty="zero", estimate_ns=FORWARD_NS)
def instance_norm(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y, and mean and inv_std where they are asked for."""
    X = specs["X"]
    mean: Operand = "mean" if "mean" in specs else Part("mean")
    inv_std: Operand = "inv_std" if "inv_std" in specs else VARIANCE
    if X.shape[0] == 1:
        image = Order.of(op, X).see(X)
        found = describe("batch_normalization_forward", "forward_training", image, image, op.epsilon, affine_flags())
        if not found.is_slow:
            arguments: dict[str | int, Operand] = {"src": "X", "dst": "Y", "mean": mean, "variance": inv_std}
            first = PrimitiveLaunch(found, {**arguments, "scale": "scale", "shift": "bias"})
            steps = (first, *inverse_roots(Descriptor.of(image.dims[1:2]), op.epsilon, inv_std))
            return LaidOut(SequenceLaunch(steps), {**VECTORS, "Y": X.layout})
    groups = Groups.of(op, X)
    steps = normalize_groups(groups, op.epsilon, "scale", "bias", mean, inv_std)
    return LaidOut(SequenceLaunch(steps), {**VECTORS, "Y": X.layout})


@onednn(INSTANCE_NORM_GRADIENT, empty="zero", estimate_ns=BACKWARD_NS)
def instance_norm_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX, dscale and dbias."""
    X = specs["X"]
    if ("mean" in specs) != ("inv_std" in specs):
        return Unsupported("one of mean and inv_std is given, oneDNN takes both or none")
    groups = Groups.of(op, X)
    given = "mean" in specs
    steps = normalize_groups_backward(groups, "scale", "dscale", "dbias", epsilon=None if given else op.epsilon)
    layouts: dict[str, Layout] = dict.fromkeys(("scale", "mean", "inv_std") if given else ("scale",), ROW_MAJOR)
    layouts |= dict.fromkeys(("dY", "dX"), X.layout)
    return LaidOut(SequenceLaunch(steps), layouts)
