"""Batch normalization that trains, with a rectifier behind: SpatialBNRelu. Graph rewriting makes it.

Letters as in `batch_norm`: with Z what SpatialBN gives, Y = max(Z, 0). The gradient needs Y only as a mask, so Z is
never stored.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import SchemaError
from tazza.operator import FLOAT, Array, Cost, OpView, arg, blob, kernel, not_written, schema
from tazza.ops.batch_norm import (
    ARGS,
    SPATIAL_BN,
    SPATIAL_BN_GRADIENT,
    spatial_bn,
    spatial_bn_cost,
    spatial_bn_gradient_cost,
    spatial_bn_gradient_infer,
    spatial_bn_gradient_validate,
    spatial_bn_gradients,
    spatial_bn_infer,
)
from tazza.tensor import TensorSpec

NO_GRADIENT = not_written("it is made by graph rewriting, after the backward pass was built")
TRAINS = arg("is_test", int, 0, choices=(0,), doc="it trains")

SPATIAL_BN_RELU = schema(
    "SpatialBNRelu",
    "Y = max(scale * (X - mean) / sqrt(var + epsilon) + bias, 0) with the batch's own mean and var; see SpatialBN.",
    inputs=SPATIAL_BN.inputs[:5],
    outputs=SPATIAL_BN.outputs,
    args=[TRAINS, *ARGS],
    in_place={"Y": "X"},
    must_in_place=SPATIAL_BN.must_in_place,
    arity=lambda inputs, outputs: outputs == 5,
    no_gradient=NO_GRADIENT,
    source="tazza; Ioffe, Szegedy 2015, arXiv 1502.03167",
    example="""
    >>> X, one = np.array([[1.0], [3.0]], "f"), np.ones(1, "f")
    >>> from tazza.workspace import Workspace
    >>> from tazza.operator import operator_def
    >>> ws = Workspace()
    >>> for name, value in zip("xsbmv", [X, one, 0 * one, 0 * one, one]): ws.feed(name, value)
    >>> ws.run_operator(operator_def("SpatialBNRelu", list("xsbmv"), ["y", "m", "v", "sm", "si"]))
    >>> ws.fetch("y").round(3)
    array([[0.],
           [1.]], dtype=float32)
    """,
)


def _one_batch(op: OpView) -> None:
    if op.num_batches > 1:
        raise op.error(SchemaError, f"num_batches = {op.num_batches}, it takes 1", "use SpatialBN and Relu")
    spatial_bn_gradient_validate(op)


SPATIAL_BN_RELU.validate(_one_batch)


@SPATIAL_BN_RELU.infer
def spatial_bn_relu_infer(op: OpView, X: TensorSpec, **vectors: TensorSpec | None) -> tuple[TensorSpec, ...]:
    return spatial_bn_infer(op, X, **vectors)


@SPATIAL_BN_RELU.cost
def spatial_bn_relu_cost(
    op: OpView, X: TensorSpec, scale: TensorSpec, Y: TensorSpec, **vectors: TensorSpec | None
) -> Cost:
    return spatial_bn_cost(op, X, scale, Y, **vectors) + Cost(Y.size)


@kernel(SPATIAL_BN_RELU)
def spatial_bn_relu(
    op: OpView,
    X: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    Y: Array,
    running_mean: Array,
    running_var: Array,
    saved_mean: Array,
    saved_inv_std: Array,
) -> None:
    running = running_mean, running_var
    spatial_bn(op, X, scale, bias, mean, var, None, None, Y, *running, saved_mean, saved_inv_std)
    np.maximum(Y, 0, out=Y)


SPATIAL_BN_RELU_GRADIENT = schema(
    "SpatialBNReluGradient",
    "dX, dscale and dbias of SpatialBNRelu: those of SpatialBN for dZ = dY where Y > 0, else 0.",
    inputs=[*SPATIAL_BN_GRADIENT.inputs[:5], blob("Y", FLOAT, doc="what SpatialBNRelu gave")],
    outputs=SPATIAL_BN_GRADIENT.outputs,
    args=[TRAINS, *ARGS],
    in_place={"dX": "dY"},
    no_gradient=NO_GRADIENT,
    source="tazza; Ioffe, Szegedy 2015, section 3",
    example="""
    >>> X, one = np.array([[1.0], [3.0]], "f"), np.ones(1, "f")
    >>> dY, Y = np.array([[1.0], [7.0]], "f"), np.array([[1.0], [0.0]], "f")
    >>> run("SpatialBNReluGradient", X, one, dY, 2 * one, one, Y)[0]
    array([[0.],
           [0.]], dtype=float32)
    """,
)
SPATIAL_BN_RELU_GRADIENT.validate(_one_batch)


@SPATIAL_BN_RELU_GRADIENT.infer
def spatial_bn_relu_gradient_infer(
    op: OpView, X: TensorSpec, dY: TensorSpec, Y: TensorSpec, **vectors: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    op.require(not (X.known and Y.known) or X.dims == Y.dims, f"Y has the shape {Y.dims}, X has {X.dims}")
    return spatial_bn_gradient_infer(op, X, dY, **vectors)


@SPATIAL_BN_RELU_GRADIENT.cost
def spatial_bn_relu_gradient_cost(
    op: OpView,
    X: TensorSpec,
    scale: TensorSpec,
    dY: TensorSpec,
    Y: TensorSpec,
    dX: TensorSpec,
    **vectors: TensorSpec | None,
) -> Cost:
    return spatial_bn_gradient_cost(op, X, scale, dY, dX, **vectors) + Cost(Y.size, Y.nbytes)


@kernel(SPATIAL_BN_RELU_GRADIENT)
def spatial_bn_relu_gradient(
    op: OpView,
    X: Array,
    scale: Array,
    dY: Array,
    mean: Array,
    inv_std: Array,
    Y: Array,
    dX: Array,
    dscale: Array,
    dbias: Array,
) -> None:
    masked = np.multiply(dY, Y > 0)
    spatial_bn_gradients(op, X, scale, masked, mean, inv_std, None, None, dX, dscale, dbias)
