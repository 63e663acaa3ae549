"""Mean and variance of parts of a blob: Moments; and the way back through a normalization with them.

Letters: n elements in each part, z = (x - mean) * inv_std. Results of functions are float64 and keep the axes that
were summed over, with length 1, so that they broadcast over x.

X has the shape S. mean, variance and their gradients have 1 in place of the axes that are summed over, or without
`keepdims` lack them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    kernel,
    row_program,
    schema,
    streamed,
)
from tazza.ops.reduce.reduce import REDUCE_ARGS, reduce_infer, reduced_axes, reduced_cut
from tazza.ops.shape.axis import require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec


def moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Return mean and biased variance over `axes`; both are 0 where there is nothing to sum.

    >>> moments(np.array([[1.0, 3.0]]), (1,))
    (array([[2.]]), array([[1.]]))
    """
    mean = mean_over(x, axes)
    return mean, mean_over(np.square(x - mean), axes)


def mean_over(x: Array, axes: tuple[int, ...]) -> Array:
    """Return the mean over `axes`, 0 where there is nothing to sum."""
    n = math.prod(x.shape[axis] for axis in axes)
    return x.sum(axis=axes, dtype=np.float64, keepdims=True) / max(n, 1)


def normalization_gradient(dz: Array, z: Array, inv_std: Array, axes: tuple[int, ...]) -> Array:
    """Return dx = inv_std * (dz - mean of dz - z * mean of dz * z), for z normalized over `axes`.

    The mean of x has the derivative 1 / n, inv_std the derivative -inv_std^2 * z / n.
    """
    return inv_std * (dz - mean_over(dz, axes) - z * mean_over(dz * z, axes))


MOMENT_TOTALS = {
    "total": Total("sum", "X"),
    "rest": Total("sum", "X - mean"),
    "squares": Total("sum", "square(X - mean)"),
}
MOMENT_ROWS = {"mean": "total / count", "variance": "(squares - rest * rest / count) / count"}
"""Mean and variance of a row X; `rest` is what the rounding of the mean has left."""

ARGS = (
    arg("axes", list[int], [], doc="what is summed over, counted from 0; empty for all"),
    *(one for one in REDUCE_ARGS if one.name != "axes"),
    arg("order", str, "NCHW", doc="no effect; layers bring it beside the axes"),
)

MOMENTS = schema(
    "Moments",
    "mean = that of X over `axes`, variance = the biased one.",
    inputs=[blob("X", FLOAT)],
    outputs=[blob("mean", "X"), blob("variance", "X")],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> mean, variance = run("Moments", [[1.0, 3.0], [2.0, 10.0]], axes=[1], keepdims=0, outputs=2)
    >>> mean, variance
    (array([2., 6.], dtype=float32), array([ 1., 16.], dtype=float32))
    """,
)
MOMENTS_GRADIENT = schema(
    "MomentsGradient",
    """dX = (dmean + 2 * (X - mean) * dvariance) / n.

    The variance also depends on the mean, but the sum of X - mean is 0.""",
    inputs=[
        blob("dmean", FLOAT, doc="as many elements as there are parts, like the next one and mean"),
        blob("dvariance", "dmean"),
        blob("X", "dmean"),
        blob("mean", "dmean"),
    ],
    outputs=[blob("dX", like="X")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("MomentsGradient", [4.0], [10.0], [1.0, 3.0], [2.0])
    array([-8., 12.], dtype=float32)
    """,
)


@MOMENTS.validate
def moments_validate(op: OpView) -> None:
    if any(axis < 0 for axis in op.axes):
        raise op.error(ArgumentError, f"axes = {op.axes}, they must not be negative", "axes count from 0")


MOMENTS_GRADIENT.validate(moments_validate)


@MOMENTS.infer
def moments_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    return reduce_infer(op, X), reduce_infer(op, X)


@MOMENTS.cost
def moments_cost(op: OpView, X: TensorSpec, mean: TensorSpec, variance: TensorSpec) -> Cost:
    del op
    return streamed((X,), (mean, variance), flops=4 * X.size)


@MOMENTS.gradient
def moments_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("MomentsGradient", [g.dmean, g.dvariance, g.X, g.mean], [g.dX])


@kernel(MOMENTS)
def moments_kernel(op: OpView, X: Array, mean: Array, variance: Array) -> None:
    middle, spread = moments(X, reduced_axes(op, X.shape))
    mean[...] = middle.reshape(mean.shape)
    variance[...] = spread.reshape(variance.shape)


def _moments(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = reduced_cut(op, specs["X"])
    if isinstance(cut, str):
        return cut
    return RowProgram(cut, MOMENT_TOTALS, MOMENT_ROWS)


row_program(MOMENTS, _moments)


@MOMENTS_GRADIENT.infer
def moments_gradient_infer(
    op: OpView, dmean: TensorSpec, dvariance: TensorSpec, X: TensorSpec, mean: TensorSpec
) -> TensorSpec:
    parts = reduce_infer(op, X).dims
    require_as_many(op, "the mean of X", parts, dmean=dmean.dims, dvariance=dvariance.dims, mean=mean.dims)
    return X


@MOMENTS_GRADIENT.cost
def moments_gradient_cost(
    op: OpView, dmean: TensorSpec, dvariance: TensorSpec, X: TensorSpec, mean: TensorSpec, dX: TensorSpec
) -> Cost:
    del op
    return streamed((dmean, dvariance, X, mean), (dX,), flops=5 * X.size)


@kernel(MOMENTS_GRADIENT)
def moments_gradient_kernel(op: OpView, dmean: Array, dvariance: Array, X: Array, mean: Array, dX: Array) -> None:
    axes = reduced_axes(op, X.shape)
    parts = [1 if axis in axes else extent for axis, extent in enumerate(X.shape)]
    n = math.prod(X.shape[axis] for axis in axes)
    slope = dmean.reshape(parts) + 2 * (X - mean.reshape(parts)) * dvariance.reshape(parts)
    np.divide(slope, max(n, 1), out=dX)


def _moments_gradient(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = reduced_cut(op, specs["X"])
    if isinstance(cut, str):
        return cut
    row = {"slope": "2 * dvariance / count", "share": "dmean / count"}
    each = {"dX": "share + (X - mean) * slope"}
    return RowProgram(cut, row=row, each=each, lies=dict.fromkeys(("dmean", "dvariance", "mean"), "row"))


row_program(MOMENTS_GRADIENT, _moments_gradient)
