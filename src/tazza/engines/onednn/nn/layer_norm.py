"""LayerNorm and its gradient: rows of a row-major matrix.

Letters as in `ops.layer_norm`. oneDNN speaks of the variance where the operators speak of std = sqrt(variance +
epsilon); small steps before and behind make one of the other. Backward the variance is std * std, with an epsilon of 0.
"""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Operand, Part, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented, constant
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, PrimitiveDescriptor, describe
from tazza.operator import LaidOut, OpView
from tazza.ops.nn.layer_norm import LAYER_NORM, LAYER_NORM_GRADIENT
from tazza.ops.shape.axis import axes_from
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec

VARIANCE = Part("variance")


def affine_flags() -> int:
    """Return the flags that say that there are a scale and a shift."""
    return constant("dnnl_use_scale") | constant("dnnl_use_shift")


def pointwise(
    algorithm: str, alpha: float, beta: float, target: Descriptor, src: Operand, dst: Operand
) -> PrimitiveLaunch:
    """Return the launch of one elementwise function from an operand to another one, both lying as `target`."""
    given = "forward_inference", algorithm, target, target, alpha, beta
    found = describe("eltwise_forward", *given, attributes=Attributes())
    return PrimitiveLaunch(found, {"src": src, "dst": dst})


def describe_rows(rows: Descriptor, *, training: bool, epsilon: float, flags: int) -> PrimitiveDescriptor:
    """Return the primitive descriptor that normalizes the rows of a matrix.

    Raises:
        Unimplemented: oneDNN has nothing but its reference code.
    """
    kind = "forward_training" if training else "forward_inference"
    return describe("layer_normalization_forward", kind, rows, rows, statistics(rows), epsilon, flags).unless_slow


def describe_rows_backward(
    rows: Descriptor, *, parameters: bool, flags: int, epsilon: float = 0.0
) -> PrimitiveDescriptor:
    """Return the primitive descriptor of the gradient, with those of scale and shift if asked for.

    Raises:
        Unimplemented: oneDNN has nothing but its reference code.
    """
    kind = "backward" if parameters else "backward_data"
    forward = describe_rows(rows, training=True, epsilon=epsilon, flags=flags)
    given = kind, rows, rows, rows, statistics(rows), epsilon, flags, forward
    return describe("layer_normalization_backward", *given).unless_slow


def statistics(rows: Descriptor) -> Descriptor:
    """Return the descriptor of one float32 number a row."""
    return Descriptor.of(rows.dims[:1])


def _matrix(op: OpView, spec: TensorSpec) -> Descriptor:
    if spec.dtype is not DataType.FLOAT:
        raise Unimplemented(f"rows of {spec.dtype.label}")
    n = math.prod(spec.shape[axis] for axis in axes_from(op.axis, len(spec.shape)))
    return Descriptor.of((spec.size // n, n), spec.dtype)


@onednn(LAYER_NORM, batch_invariant=True)  # of rows without elements std is sqrt(epsilon), not 0
def layer_norm(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y, mean, and the variance in the place of std, which is then computed in place."""
    rows = _matrix(op, specs["X"])
    affine = bool(op.elementwise_affine)
    found = describe_rows(rows, training=True, epsilon=op.epsilon, flags=affine_flags() if affine else 0)
    arguments: dict[str | int, Operand] = {"src": "X", "dst": "Y", "mean": "mean", "variance": "std"}
    if affine:
        arguments |= {"scale": "gamma", "shift": "beta"}
    one = statistics(rows)
    steps = (
        PrimitiveLaunch(found, arguments),
        pointwise("eltwise_linear", 1.0, op.epsilon, one, "std", "std"),
        pointwise("eltwise_sqrt", 0.0, 0.0, one, "std", "std"),
    )
    return LaidOut(SequenceLaunch(steps), {letter: ROW_MAJOR for letter in op.input_letters})


@onednn(LAYER_NORM_GRADIENT, empty="zero")
def layer_norm_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DX, and with elementwise_affine dgamma and dbeta."""
    rows = _matrix(op, specs["X"])
    affine = bool(op.elementwise_affine)
    found = describe_rows_backward(rows, parameters=affine, flags=affine_flags() if affine else 0)
    arguments: dict[str | int, Operand] = {"src": "X", "diff_dst": "dY", "mean": "mean", "variance": VARIANCE}
    arguments["diff_src"] = "dX"
    if affine:
        # oneDNN wants a shift, which it does not read.
        arguments |= {"scale": "gamma", "shift": "gamma", "diff_scale": "dgamma", "diff_shift": "dbeta"}
    square = pointwise("eltwise_square", 0.0, 0.0, statistics(rows), "std", VARIANCE)
    layouts = {letter: ROW_MAJOR for letter in op.input_letters if letter != "Y"}
    return LaidOut(SequenceLaunch((square, PrimitiveLaunch(found, arguments))), layouts)
