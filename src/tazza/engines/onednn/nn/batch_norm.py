"""Batch normalization: SpatialBN and SpatialBNGradient, in any layout that oneDNN knows.

Letters as in `ops.batch_norm`. oneDNN takes and gives the biased variance where Caffe2 has 1 / sqrt(variance +
epsilon); that, and the running pair, are small launches on vectors of C elements:

    running_mean  = momentum * mean + (1 - momentum) * saved_mean
    running_var   = momentum * var + (1 - momentum) * n / (n - 1) * variance
    saved_inv_std = (variance + epsilon) ^ -0.5
    variance'     = (1 / inv_std) ^ 2         for the gradient, which then has an epsilon of 0
"""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.estimate import passes
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Constant, Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented, constant
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, Eltwise, PrimitiveDescriptor, describe
from tazza.operator import LaidOut, OpView
from tazza.ops.nn.batch_norm import SPATIAL_BN, SPATIAL_BN_GRADIENT
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

VARIANCE = Part("variance")


def _flags(*names: str) -> int:
    return sum(constant(f"dnnl_{name}") for name in ("use_scale", "use_shift", *names))


def _forward(
    kind: str, x: Descriptor, epsilon: float, *flags: str, attributes: Attributes | None = None
) -> PrimitiveDescriptor:
    operation = "batch_normalization_forward"
    return describe(operation, kind, x, x, epsilon, _flags(*flags), attributes=attributes, flops=2 * x.nbytes)


def _shared_layout(shown: TensorSpec, *others: TensorSpec) -> Layout:
    """Return the layout of X, or where that is row-major the one that another blob has or is wished to have."""
    return next((one.layout for one in (shown, *others) if wished(one)), ROW_MAJOR)


def _seen(op: OpView, specs: dict[str, TensorSpec], target: str, *others: str) -> tuple[Layout, Descriptor]:
    """Return the layout of X and of what is as large, among it the output `target`, and X as oneDNN sees it.

    Raises:
        Unimplemented: these statistics are not oneDNN's.
    """
    X = specs["X"]
    in_place = op.definition.output[0] in op.definition.input
    layout = specs[target].layout if in_place else _shared_layout(X, *(specs[one] for one in (*others, target)))
    x = Order.of(op, X).see(X, layout)
    if op.num_batches > 1:
        raise Unimplemented(f"num_batches = {op.num_batches}: oneDNN takes statistics of one batch")
    if _count(x) == 1 and not op.is_test:
        raise Unimplemented("one value a channel: oneDNN gives it a variance of 0, not NaN")
    return layout, x


def _count(x: Descriptor) -> int:
    """Return n."""
    return math.prod(x.dims) // x.dims[1]


# Training goes over X twice for its statistics, and once to read and to write.
@onednn(SPATIAL_BN, estimate_ns=passes(4, "X"))
def spatial_bn(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y, and in training the running and the saved pair."""
    layout, x = _seen(op, specs, "Y")
    arguments: dict[str | int, Operand] = {"src": "X", "dst": "Y", "scale": "scale", "shift": "bias"}
    if op.is_test:
        found = _forward("forward_inference", x, op.epsilon, "use_global_stats")
        launch = PrimitiveLaunch(found, arguments | {"mean": "mean", "variance": "var"})
        return LaidOut(launch, {"X": layout, "Y": layout})
    found = _forward("forward_training", x, op.epsilon)
    arguments |= {"mean": "saved_mean", "variance": VARIANCE}
    steps = (PrimitiveLaunch(found, arguments), *_statistics(op, x))
    return LaidOut(SequenceLaunch(steps), {"X": layout, "Y": layout})


def _statistics(op: OpView, x: Descriptor) -> tuple[PrimitiveLaunch, ...]:
    """Return the launches that give the running pair and the inverse deviation from the batch's pair."""
    vector, n = Descriptor.of((x.dims[1],)), _count(x)
    old, new = float(op.momentum), 1.0 - float(op.momentum)
    unbiased = new * n / (n - 1)
    after = Attributes((Eltwise("eltwise_pow", 1.0, -0.5),))
    inverse = describe("binary", "binary_add", vector, Descriptor.of((1,)), vector, attributes=after)
    return (
        _blend(vector, (old, new), "mean", "saved_mean", "running_mean"),
        _blend(vector, (old, unbiased), "var", VARIANCE, "running_var"),
        PrimitiveLaunch(inverse, {"src_0": VARIANCE, "src_1": Constant(op.epsilon), "dst": "saved_inv_std"}),
    )


def _blend(
    vector: Descriptor, weights: tuple[float, float], first: Operand, second: Operand, target: str
) -> PrimitiveLaunch:
    found = describe("sum", vector, 2, weights, (vector, vector))
    number = constant("DNNL_ARG_MULTIPLE_SRC")
    return PrimitiveLaunch(found, {number: first, number + 1: second, "dst": target})


@onednn(SPATIAL_BN_GRADIENT, empty="zero", estimate_ns=passes(6, "X"))
def spatial_bn_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Compute dX, dscale and dbias from X, dY and the pair that the forward operator took."""
    layout, x = _seen(op, specs, "dX", "dY")
    steps: list[PrimitiveLaunch] = []
    variance: Operand = "inv_std"
    if not op.is_test:
        steps.append(_variance(Descriptor.of((x.dims[1],))))
        variance = VARIANCE
    found = _backward(op, x)
    arguments: dict[str | int, Operand] = {"src": "X", "mean": "mean", "variance": variance, "scale": "scale"}
    arguments |= {"diff_src": "dX", "diff_dst": "dY", "diff_scale": "dscale", "diff_shift": "dbias"}
    steps.append(PrimitiveLaunch(found, arguments))
    return LaidOut(SequenceLaunch(tuple(steps)), dict.fromkeys(("X", "dY", "dX"), layout))


def _backward(op: OpView, x: Descriptor) -> PrimitiveDescriptor:
    flags = ("use_global_stats",) if op.is_test else ()
    epsilon = float(op.epsilon) if op.is_test else 0.0
    forward = _forward("forward_training", x, epsilon, *flags)
    arguments = ("backward", x, x, x, epsilon, _flags(*flags), forward)
    return describe("batch_normalization_backward", *arguments, flops=4 * x.nbytes)


def _variance(vector: Descriptor) -> PrimitiveLaunch:
    """(1 / inv_std) ^ 2."""
    found = describe(
        "binary", "binary_div", vector, vector, vector, attributes=Attributes((Eltwise("eltwise_square"),))
    )
    return PrimitiveLaunch(found, {"src_0": Constant(1.0), "src_1": "inv_std", "dst": VARIANCE})
