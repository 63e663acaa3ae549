"""LayerNorm: rows of a row-major matrix.

Letters as in `ops.layer_norm`. oneDNN speaks of the variance where the operator speaks of std = sqrt(variance +
epsilon); small steps behind make one of the other.
"""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Operand, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented, constant
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.operator import LaidOut, OpView
from tazza.ops.nn.layer_norm import LAYER_NORM
from tazza.ops.shape.axis import axes_from
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec


@onednn(LAYER_NORM, batch_invariant=True)  # of rows without elements std is sqrt(epsilon), not 0
def layer_norm(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y, mean, and the variance in the place of std, which is then computed in place."""
    rows = _matrix(op, specs["X"])
    affine = bool(op.elementwise_affine)
    flags = constant("dnnl_use_scale") | constant("dnnl_use_shift") if affine else 0
    one = Descriptor.of(rows.dims[:1])
    found = describe("layer_normalization_forward", "forward_training", rows, rows, one, op.epsilon, flags).unless_slow
    arguments: dict[str | int, Operand] = {"src": "X", "dst": "Y", "mean": "mean", "variance": "std"}
    if affine:
        arguments |= {"scale": "gamma", "shift": "beta"}
    steps = (
        PrimitiveLaunch(found, arguments),
        _in_place("eltwise_linear", 1.0, op.epsilon, one),
        _in_place("eltwise_sqrt", 0.0, 0.0, one),
    )
    return LaidOut(SequenceLaunch(steps), {letter: ROW_MAJOR for letter in op.input_letters})


def _matrix(op: OpView, spec: TensorSpec) -> Descriptor:
    if spec.dtype is not DataType.FLOAT:
        raise Unimplemented(f"rows of {spec.dtype.label}")
    n = math.prod(spec.shape[axis] for axis in axes_from(op.axis, len(spec.shape)))
    return Descriptor.of((spec.size // n, n), spec.dtype)


def _in_place(algorithm: str, alpha: float, beta: float, one: Descriptor) -> PrimitiveLaunch:
    """Return the launch of one elementwise function over the place of std."""
    given = "forward_inference", algorithm, one, one, alpha, beta
    found = describe("eltwise_forward", *given, attributes=Attributes())
    return PrimitiveLaunch(found, {"src": "std", "dst": "std"})
