"""Layer normalization: LayerNorm, and C10LayerNorm_DontUseThisOpYet, the same without a gradient.

Letters: X is cut at `axis` into rows `lead...` and columns `inner...`; n is the number of elements of a row. X, Y, dY
and dX have one shape (lead..., inner...), mean and std are (lead..., 1), gamma and beta have n elements of any shape.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, SchemaError
from tazza.operator import (
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    NoGradient,
    OpSchema,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    family,
    kernel,
    not_written,
    row_program,
    schema,
    show_dims,
    together,
)
from tazza.ops.reduce.moment import moments, normalization_gradient
from tazza.ops.shape.axis import agree, cut, matrix, matrix_cut, product, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

ARGS = (
    arg("axis", int, 1, doc="the dimensions from here on are normalized together"),
    arg("epsilon", float, 1e-5, minimum=0, doc="added to the variance"),
    arg("elementwise_affine", int, 0, doc="not 0: scale by gamma and add beta; else these are not read"),
)
ROW = (1,)
REAL = frozenset({DataType.FLOAT, DataType.DOUBLE})


def layer_norm_validate(op: OpView) -> None:
    if op.elementwise_affine and not op.has_input("gamma"):
        raise op.error(SchemaError, "1 input with elementwise_affine = 1, it takes 3", "add gamma and beta")


def layer_norm_infer(
    op: OpView, X: TensorSpec, gamma: TensorSpec | None, beta: TensorSpec | None
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    row = _row_spec(op, X)
    if op.elementwise_affine:
        require_columns(op, X, gamma=gamma, beta=beta)
    return TensorSpec(X.dims, X.dtype), row, row


def layer_norm_cost(
    op: OpView,
    X: TensorSpec,
    gamma: TensorSpec | None,
    beta: TensorSpec | None,
    Y: TensorSpec,
    mean: TensorSpec,
    std: TensorSpec,
) -> Cost:
    affine = op.elementwise_affine
    parameters = sum(spec.nbytes for spec in (gamma, beta) if spec is not None and affine)
    flops = (9 if affine else 7) * X.size
    return Cost(flops, X.nbytes + parameters, Y.nbytes + mean.nbytes + std.nbytes, parameters)


def layer_norm_gradient(g: GradientRequest) -> list[OperatorDef]:
    inputs = [g.dY, g.Y, g.mean, g.std, g.X]
    if g.op.elementwise_affine:
        return g.emit("LayerNormGradient", [*inputs, g.gamma], [g.dX, g.dgamma, g.dbeta])
    return g.emit("LayerNormGradient", inputs, [g.dX])


def layer_norm(
    op: OpView, X: Array, gamma: Array | None, beta: Array | None, Y: Array, mean: Array, std: Array
) -> None:
    x = matrix(op, "axis", X)  # (lead, n)
    mu, variance = moments(x, ROW)
    deviation = np.sqrt(variance + op.epsilon)
    y = (x - mu) / deviation
    if op.elementwise_affine and gamma is not None and beta is not None:
        y = y * gamma.reshape(-1) + beta.reshape(-1)
    Y[...] = y.reshape(Y.shape)
    mean[...] = mu.reshape(mean.shape)
    std[...] = deviation.reshape(std.shape)


@dataclass(frozen=True, slots=True)
class Slope:
    """Why there is no gradient, if there is none."""

    missing: NoGradient | None = None


@family({"LayerNorm": Slope(), "C10LayerNorm_DontUseThisOpYet": Slope(not_written("Caffe2 has none"))})
def layer_norms(type: str, slope: Slope) -> OpSchema:
    """A layer normalization."""
    made = schema(
        type,
        """Y = (X - mean) / std for each row, with elementwise_affine gamma * that + beta.

        std = sqrt(variance + epsilon), with the biased variance. mean and std are always given.""",
        inputs=[
            blob("X", REAL, doc="(lead..., inner...)"),
            blob("gamma", "X", optional=True, role=Role.PARAMETER, doc="n elements"),
            blob("beta", "X", optional=True, role=Role.PARAMETER, doc="n elements"),
        ],
        outputs=[blob("Y", like="X"), blob("mean", "X", doc="(lead..., 1)"), blob("std", "X", doc="(lead..., 1)")],
        args=ARGS,
        effects=Effects.PURE,
        no_gradient=slope.missing,
        relations=[together("gamma", "beta")],
        source="Ba, Kiros, Hinton 2016, arXiv 1607.06450",
        example=f"""
        >>> Y, mean, std = run("{type}", [[1.0, 5.0]], epsilon=0.0)
        >>> Y, mean, std
        (array([[-1.,  1.]], dtype=float32), array([[3.]], dtype=float32), array([[2.]], dtype=float32))
        """,
    )
    made.validate(layer_norm_validate)
    made.infer(layer_norm_infer)
    made.batched("X", when=lambda op: op.axis >= 1)
    made.cost(layer_norm_cost)
    if slope.missing is None:
        made.gradient(layer_norm_gradient)
    kernel(made)(layer_norm)
    return made


LAYER_NORM = layer_norms["LayerNorm"]

LAYER_NORM_GRADIENT = schema(
    "LayerNormGradient",
    """dX = (dZ - mean of dZ - Z * mean of dZ * Z) / std, dgamma = sum of dY * Z over rows, dbeta = sum of dY over rows.

    Z is (X - mean) / std, dZ is dY, with elementwise_affine dY * gamma. dgamma and dbeta are given with it only. Y is
    not read; it is there as Caffe2 hands it over.""",
    inputs=[
        blob("dY", REAL),
        blob("Y", doc="of any type: only its shape counts"),
        blob("mean", "dY"),
        blob("std", "dY"),
        blob("X", "dY"),
        blob("gamma", "dY", optional=True, role=Role.PARAMETER),
    ],
    outputs=[blob("dX", like="X"), blob("dgamma", "dY", optional=True), blob("dbeta", "dY", optional=True)],
    args=ARGS,
    effects=Effects.PURE,
    relations=[together("dgamma", "dbeta")],
    no_gradient=ends("second derivatives are not built"),
    source="Ba, Kiros, Hinton 2016, supplementary material",
    example="""
    >>> X, row = np.array([[1.0, 5.0]], "f"), np.ones((1, 1), "f")
    >>> run("LayerNormGradient", np.array([[1.0, 3.0]], "f"), X, 3 * row, 2 * row, X)
    array([[0., 0.]], dtype=float32)
    """,
)


@LAYER_NORM_GRADIENT.validate
def layer_norm_gradient_validate(op: OpView) -> None:
    wanted = 3 if op.elementwise_affine else 1
    if len(op.output_letters) != wanted or (op.elementwise_affine and not op.has_input("gamma")):
        found = f"{len(op.input_letters)} inputs and {len(op.output_letters)} outputs"
        message = f"{found} with elementwise_affine = {op.elementwise_affine}"
        raise op.error(ArgumentError, message, f"it takes {5 + (wanted == 3)} inputs and {wanted} outputs")


@LAYER_NORM_GRADIENT.infer
def layer_norm_gradient_infer(
    op: OpView,
    dY: TensorSpec,
    Y: TensorSpec,
    mean: TensorSpec,
    std: TensorSpec,
    X: TensorSpec,
    gamma: TensorSpec | None,
) -> tuple[TensorSpec, ...]:
    if X.dims is not None:
        for letter, spec in (("dY", dY), ("Y", Y)):
            relation = (
                f"{letter} has the shape {show_dims(spec.shape)}, X has {show_dims(X.dims)}" if spec.shape_known else ""
            )
            op.require(spec.dims is None or shapes_agree(spec.dims, X.dims), relation)
    rows = _row_spec(op, X)
    for letter, spec in (("mean", mean), ("std", std)):
        if spec.dims is not None and rows.dims is not None:
            count, wanted = product(spec.dims), product(rows.dims)
            op.require(agree(count, wanted), f"{letter} has {count} elements, X has {wanted} rows")
    if op.elementwise_affine:
        require_columns(op, X, gamma=gamma)
    vector = TensorSpec(None if gamma is None else gamma.dims, X.dtype)
    return (TensorSpec(X.dims, X.dtype), vector, vector)[: len(op.output_letters)]


@LAYER_NORM_GRADIENT.cost
def layer_norm_gradient_cost(
    op: OpView,
    dY: TensorSpec,
    Y: TensorSpec,
    mean: TensorSpec,
    std: TensorSpec,
    X: TensorSpec,
    gamma: TensorSpec | None,
    dX: TensorSpec,
    dgamma: TensorSpec | None,
    dbeta: TensorSpec | None,
) -> Cost:
    del Y, dbeta  # Y is not read, dbeta is as large as dgamma
    vector = 0 if gamma is None or dgamma is None else gamma.nbytes
    flops = (13 if op.elementwise_affine else 9) * X.size
    return Cost(flops, dY.nbytes + X.nbytes + mean.nbytes + std.nbytes + vector, dX.nbytes + 2 * vector, vector)


@kernel(LAYER_NORM_GRADIENT)
def layer_norm_gradient_kernel(
    op: OpView,
    dY: Array,
    mean: Array,
    std: Array,
    X: Array,
    gamma: Array | None,
    dX: Array,
    dgamma: Array | None,
    dbeta: Array | None,
) -> None:
    x, dz = matrix(op, "axis", X), matrix(op, "axis", dY).astype(np.float64)
    inv_std = 1 / std.reshape(-1, 1).astype(np.float64)
    z = (x - mean.reshape(-1, 1)) * inv_std
    if gamma is not None and dgamma is not None and dbeta is not None:
        dgamma[...] = (dz * z).sum(axis=0).reshape(dgamma.shape)
        dbeta[...] = dz.sum(axis=0).reshape(dbeta.shape)
        dz = dz * gamma.reshape(-1)
    dX[...] = normalization_gradient(dz, z, inv_std, ROW).reshape(dX.shape)


def layer_norm_gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...]:
    """Of columns, which are summed over rows, where parameters are there; then of rows."""
    rows = matrix_cut(op, specs["X"].shape)
    dz = "dY * gamma" if op.elementwise_affine else "dY"
    totals = {"slopes": Total("sum", dz), "dots": Total("sum", f"{dz} * (X - mean)")}
    row = {
        "inverse": "1 / std",
        "middle": "slopes * inverse / count",
        "part": "dots * inverse * inverse * inverse / count",
    }
    each = {"dX": f"{dz} * inverse - middle - (X - mean) * part"}
    last = RowProgram(rows, totals, row, each, {"mean": "row", "std": "row", "gamma": "along"})
    if not op.elementwise_affine:
        return (last,)
    vectors = {"dgamma": Total("sum", "dY * (X - mean) / std"), "dbeta": Total("sum", "dY")}
    return RowProgram(Cut(1, rows.before, rows.along), vectors, lies={"mean": "along", "std": "along"}), last


row_program(LAYER_NORM_GRADIENT, layer_norm_gradient_rows)


def _row_spec(op: OpView, X: TensorSpec) -> TensorSpec:
    """Return the spec of mean and std."""
    return TensorSpec(None if X.dims is None else (*cut(op, "axis", "X", X.dims)[0], 1), X.dtype)


def require_columns(op: OpView, X: TensorSpec, **vectors: TensorSpec | None) -> None:
    """Check that each vector has as many elements as a row of X."""
    if X.dims is None:
        return
    n = product(cut(op, "axis", "X", X.dims)[1])
    for letter, spec in vectors.items():
        if spec is not None and spec.dims is not None:
            relation = (
                f"{letter} has the shape {show_dims(spec.dims)}, a row of X from axis {op.axis} on has {n} elements"
            )
            op.require(agree(product(spec.dims), n), relation, f"{letter} must have one element for each of a row")
