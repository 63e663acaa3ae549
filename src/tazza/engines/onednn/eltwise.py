"""What elementwise families share: forward and backward primitives of one function, in any layout.

A family is here where oneDNN agrees with the operator on all numbers, infinities and NaN, to the tolerance of the
tests; Relu alone takes NaN for 0. It does not agree for Exp, Clip and HardSigmoid (a NaN becomes a number), Log and
Softplus (too inexact), Gelu (NaN at infinity) and some gradients: those are left to the engine that compiles formulas.

Both compute the others. Measured by processor time, a million elements: compiled formulas take 0.9 of oneDNN's time for
Relu's gradient and Tanh, 0.8 for Sigmoid, Swish and their gradients, and as long where only memory counts.
"""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor, accepts_dense
from tazza.engines.onednn.estimate import passes_ns
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Accepts, Answer, Estimate, onednn
from tazza.engines.onednn.primitive import describe
from tazza.operator import LaidOut, OpSchema, OpView
from tazza.runtime.native_code import processor
from tazza.tensor import DataType, Strided, TensorSpec

WIDE_BYTES = 64
"""Vectors of so many bytes have the instructions with which compiled functions are as fast as oneDNN's, or faster."""
PASSES = 1.1
"""Plain passes over its blobs that a function takes as long as."""


def eltwise_ns(op: OpView, specs: dict[str, TensorSpec]) -> float | None:
    """Return about how long it takes, where compiled formulas are as fast: plain blobs of float32, wide vectors."""
    del op
    plain = all(spec.dtype is DataType.FLOAT and isinstance(spec.layout, Strided) for spec in specs.values())
    if not plain or processor().vector_bytes < WIDE_BYTES:
        return None
    return passes_ns(PASSES, *specs.values())


def elementwise(
    module: str,
    schema: OpSchema,
    algorithm: str,
    alpha: float = 0.0,
    *,
    beta: float = 0.0,
    accepts: Accepts = accepts_dense,
    estimate_ns: Estimate | None = eltwise_ns,
) -> None:
    """Register the kernel of an elementwise operator, or of a gradient, as one of a family's module."""
    answer = eltwise_gradient if "dX" in schema.outputs_by_letter else eltwise

    def translate(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
        return answer(op, specs, algorithm, alpha, beta)

    translate.__module__ = module
    onednn(schema, empty="zero", accepts=accepts, batch_invariant=True, estimate_ns=estimate_ns)(translate)


def eltwise(op: OpView, specs: dict[str, TensorSpec], algorithm: str, alpha: float = 0.0, beta: float = 0.0) -> LaidOut:
    """Return the launch of the operator's only output from its only input.

    Raises:
        Unimplemented: the input holds no floats.
    """
    (source,), (target,) = op.input_letters, op.output_letters
    if not specs[source].dtype.is_float:
        raise Unimplemented(f"{source} is {specs[source].dtype.label}: oneDNN computes with floats")
    layout = specs[source].layout
    x = Descriptor.of(specs[source])
    found = describe("eltwise_forward", "forward_inference", algorithm, x, x, alpha, beta)
    return LaidOut(PrimitiveLaunch(found, {"src": source, "dst": target}), {source: layout, target: layout})


def eltwise_gradient(
    op: OpView, specs: dict[str, TensorSpec], algorithm: str, alpha: float = 0.0, beta: float = 0.0
) -> LaidOut:
    """Return the launch of dX from dY and Y where the algorithm ends in `use_dst_for_bwd`, else from dY and X.

    All lie as Y or X does, where the forward operator left it; in place as dY does.
    """
    data, argument = ("Y", "dst") if algorithm.endswith("use_dst_for_bwd") else ("X", "src")
    in_place = op.definition.output[0] in op.definition.input
    layout = specs["dX" if in_place else data].layout
    x = Descriptor.of(specs[data].shape, specs[data].dtype, layout)
    forward = describe("eltwise_forward", "forward_training", algorithm, x, x, alpha, beta)
    found = describe("eltwise_backward", algorithm, x, x, x, alpha, beta, forward)
    launch = PrimitiveLaunch(found, {argument: data, "diff_dst": "dY", "diff_src": "dX"})
    return LaidOut(launch, dict.fromkeys((data, "dY", "dX"), layout))
