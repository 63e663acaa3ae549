"""How far rows are from each other: SquaredL2Distance, L1Distance, DotProduct, CosineSimilarity, DotProductWithPadding.

Letters: N rows, D numbers of each. X and Y (N, D...) are looked at as matrices; a tensor of rank 0 is one row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    family,
    gradients_of,
    kernel,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree, product, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

NORM_MIN = np.float32(1e-12)
"""The least that counts for the square of a norm."""
ZERO = 1e-12
"""Numbers that differ by no more are equal."""

EXAMPLE = "[[3.0, 4.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]"


def rows_of(X: Array) -> Array:
    """Return X as a matrix (N, D)."""
    count = X.shape[0] if X.ndim else 1
    return X.reshape(count, X.size // max(count, 1))


def times(X: Array, Y: Array) -> Array:
    """Return the product of each row of X with that of Y."""
    return np.einsum("nd,nd->n", X, Y)


def norms(X: Array) -> Array:
    """Return the norm of each row, at least 1e-6."""
    return np.sqrt(np.maximum(times(X, X), NORM_MIN))


def squared(X: Array, Y: Array) -> Array:
    return times(X - Y, X - Y) / 2


def squared_slopes(X: Array, Y: Array, dZ: Array) -> tuple[Array, Array]:
    dX = dZ[:, None] * (X - Y)
    return dX, -dX


def absolute(X: Array, Y: Array) -> Array:
    return np.abs(X - Y).sum(axis=1)


def absolute_slopes(X: Array, Y: Array, dZ: Array) -> tuple[Array, Array]:
    apart = X - Y
    dX = np.where(np.abs(apart) <= ZERO, 0, np.sign(apart)) * dZ[:, None]
    return dX, -dX


def times_slopes(X: Array, Y: Array, dZ: Array) -> tuple[Array, Array]:
    return dZ[:, None] * Y, dZ[:, None] * X


def cosine(X: Array, Y: Array) -> Array:
    return times(X, Y) / (norms(X) * norms(Y))


def cosine_slopes(X: Array, Y: Array, dZ: Array) -> tuple[Array, Array]:
    """With x = |X|, y = |Y| and c = cos: dX = dZ (Y / xy - X c / x^2), and the same for dY."""
    x, y, c = norms(X), norms(Y), cosine(X, Y)
    return (
        (dZ / (x * y))[:, None] * Y - (dZ * c / (x * x))[:, None] * X,
        (dZ / (x * y))[:, None] * X - (dZ * c / (y * y))[:, None] * Y,
    )


def count_of(op: OpView, X: TensorSpec, Y: TensorSpec) -> int | None:
    """Return N, as far as known; checks X and Y against each other."""
    if X.dims is not None and Y.dims is not None:
        relation = f"X has the shape {show_dims(X.dims)}, Y {show_dims(Y.dims)}"
        op.require(shapes_agree(X.dims, Y.dims), relation, "they must have one shape")
    dims = Y.dims if X.dims is None else X.dims
    if dims is None:
        return None
    if op.type.startswith("DotProduct") and product(dims) == 0:
        return 0  # as in Caffe2, also where there are rows
    return dims[0] if dims else 1


def check_change(op: OpView, dZ: TensorSpec, count: int | None) -> None:
    """Check that there is a change for each row."""
    if dZ.dims is not None:
        relation = f"dZ has the shape {show_dims(dZ.dims)} for {count} rows of X"
        op.require(len(dZ.dims) == 1 and agree(dZ.dims[0], count), relation, "one for each row")


def infer(op: OpView, X: TensorSpec, Y: TensorSpec) -> TensorSpec:
    return TensorSpec((count_of(op, X, Y),), X.dtype)


def gradient_infer(op: OpView, X: TensorSpec, Y: TensorSpec, dZ: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    check_change(op, dZ, count_of(op, X, Y))
    return TensorSpec(X.dims, X.dtype), TensorSpec(Y.dims, Y.dtype)


def gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit(f"{g.op.type}Gradient", [g.X, g.Y, g.dZ], [g.dX, g.dY])


def cost(op: OpView, X: TensorSpec, Y: TensorSpec, Z: TensorSpec) -> Cost:
    del op
    return streamed((X, Y), (Z,), flops=3 * X.size)


def gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec, dZ: TensorSpec, dX: TensorSpec, dY: TensorSpec) -> Cost:
    del op
    return streamed((X, Y, dZ), (dX, dY), flops=2 * (X.size + Y.size))


TIMES = {"times": Total("sum", "X * Y")}
LENGTHS = {"xx": Total("sum", "X * X"), "yy": Total("sum", "Y * Y")}
APART = f"where(abs(X - Y) <= {ZERO}, 0, sign(X - Y)) * dZ"
COSINE = {
    "x": f"sqrt(max(xx, {float(NORM_MIN)}))",
    "y": f"sqrt(max(yy, {float(NORM_MIN)}))",
    "Z": "times / (x * y)",
}
COSINE_SLOPES = {
    **COSINE,
    "both": "dZ / (x * y)",
    "of_x": "dZ * Z / (x * x)",
    "of_y": "dZ * Z / (y * y)",
}


def matrix_of(X: TensorSpec) -> Cut:
    """Return the cut of X as a matrix (N, D)."""
    count = X.shape[0] if X.shape else 1
    return Cut(count, math.prod(X.shape[1:]))


@dataclass(frozen=True, slots=True)
class Distance:
    """What tells one distance from another: its formula, and those of its slopes, on matrices (N, D).

    `totals`, `row`, `slope_row` and `slope_each` are the same for those who compile it.
    """

    doc: str
    value: Callable[[Array, Array], Array]
    slopes: Callable[[Array, Array, Array], tuple[Array, Array]]
    totals: Mapping[str, Total]
    row: Mapping[str, str]
    slope_row: Mapping[str, str]
    slope_each: Mapping[str, str]
    slopes_doc: str
    result: str
    """Text of `Z` for X = [[3, 4], [0, 1]] and Y = [[0, 0], [0, 1]] in the example."""
    slope: str
    """Text of `dX` for dZ = [1, 2]."""


@family(
    {
        "SquaredL2Distance": Distance(
            "Z[n] = sum over d of (X[n, d] - Y[n, d])^2 / 2.",
            squared,
            squared_slopes,
            {"squares": Total("sum", "square(X - Y)")},
            {"Z": "squares / 2"},
            {},
            {"dX": "dZ * (X - Y)", "dY": "-(dZ * (X - Y))"},
            "dX = dZ (X - Y), dY = -dX.",
            "[12.5,  0. ]",
            "[[3., 4.],\n       [0., 0.]]",
        ),
        "L1Distance": Distance(
            "Z[n] = sum over d of |X[n, d] - Y[n, d]|.",
            absolute,
            absolute_slopes,
            {"Z": Total("sum", "abs(X - Y)")},
            {},
            {},
            {"dX": APART, "dY": f"-({APART})"},
            "dX = dZ sign(X - Y), 0 where they differ by no more than 1e-12; dY = -dX.",
            "[7., 0.]",
            "[[1., 1.],\n       [0., 0.]]",
        ),
        "DotProduct": Distance(
            "Z[n] = sum over d of X[n, d] Y[n, d].",
            times,
            times_slopes,
            TIMES,
            {"Z": "times"},
            {},
            {"dX": "dZ * Y", "dY": "dZ * X"},
            "dX = dZ Y, dY = dZ X.",
            "[0., 1.]",
            "[[0., 0.],\n       [0., 2.]]",
        ),
        "CosineSimilarity": Distance(
            "Z[n] = X[n] Y[n] / (|X[n]| |Y[n]|), where norms count as 1e-6 at least.",
            cosine,
            cosine_slopes,
            TIMES | LENGTHS,
            COSINE,
            COSINE_SLOPES,
            {"dX": "both * Y - of_x * X", "dY": "both * X - of_y * Y"},
            "dX = dZ (Y / (|X| |Y|) - X Z / |X|^2), and the same for dY.",
            "[0., 1.]",
            "[[0., 0.],\n       [0., 0.]]",
        ),
    }
)
def distances(type: str, row: Distance) -> OpSchema:
    """A number for each pair of rows."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", FLOAT, doc="(N, D...)"), blob("Y", "X", role=Role.DATA, doc="(N, D...)")],
        outputs=[blob("Z", "X", doc="(N)")],
        effects=Effects.PURE,
        source="Caffe2",
        example=f'>>> run("{type}", {EXAMPLE})\narray({row.result}, dtype=float32)',
    )
    made.infer(infer)
    made.cost(cost)
    made.gradient(gradient)

    @kernel(made)
    def run(op: OpView, X: Array, Y: Array, Z: Array) -> None:
        del op
        if Z.size:
            Z[...] = row.value(rows_of(X), rows_of(Y))

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        del op
        if specs["X"].size == 0:
            return "there is nothing to compare"
        return RowProgram(matrix_of(specs["X"]), row.totals, row.row)

    row_program(made, rows)
    return made


@family(gradients_of(distances))
def distance_gradients(type: str, row: Distance) -> OpSchema:
    """The gradient operator of a distance."""
    made = schema(
        type,
        row.slopes_doc,
        inputs=[blob("X", FLOAT), blob("Y", "X"), blob("dZ", "X", doc="(N)")],
        outputs=[blob("dX", "X"), blob("dY", "Y")],
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=f'>>> run("{type}", {EXAMPLE}, [1.0, 2.0])[0]\narray({row.slope}, dtype=float32)',
    )
    made.infer(gradient_infer)
    made.cost(gradient_cost)

    @kernel(made)
    def run(op: OpView, X: Array, Y: Array, dZ: Array, dX: Array, dY: Array) -> None:
        del op
        if X.size:
            slopes = row.slopes(rows_of(X), rows_of(Y), dZ)
            dX[...], dY[...] = (one.reshape(X.shape) for one in slopes)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        del op
        if specs["X"].size == 0:
            return "there is nothing to compare"
        return RowProgram(matrix_of(specs["X"]), row.totals, row.slope_row, row.slope_each, {"dZ": "row"})

    row_program(made, rows)
    return made


# -- rows of two lengths -----------------------------------------------------------------------------------------------

PADDING = (
    arg("pad_value", float, 0.0, doc="what follows a row that is shorter"),
    arg("replicate", bool, False, doc="a row that is shorter is repeated instead, as often as all of it fits"),
)

DOT_PRODUCT_WITH_PADDING = schema(
    "DotProductWithPadding",
    "Z[n] = sum over d of X[n, d] Y[n, d], the shorter rows of the two filled with pad_value.",
    inputs=[blob("X", FLOAT, doc="(N, D...)"), blob("Y", "X", role=Role.DATA, doc="(N, E...), of as many dimensions")],
    outputs=[blob("Z", "X", doc="(N)")],
    args=PADDING,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("DotProductWithPadding", [[1.0, 2.0, 3.0]], [[4.0, 5.0]], pad_value=10.0)
    array([44.], dtype=float32)
    """,
)


def padded_count(op: OpView, X: TensorSpec, Y: TensorSpec) -> int | None:
    """Return N, as far as known; checks X and Y against each other."""
    if X.dims is not None and Y.dims is not None:
        relation = f"X has the shape {show_dims(X.dims)}, Y {show_dims(Y.dims)}"
        fits = len(X.dims) == len(Y.dims) and (not X.dims or agree(X.dims[0], Y.dims[0]))
        op.require(fits, relation, "as many rows, and as many dimensions")
    dims = Y.dims if X.dims is None else X.dims
    return None if dims is None else dims[0] if dims else 1


def whole(op: OpView, X: Array, Y: Array) -> tuple[Array, Array]:
    """Return rows of X and Y of one length: the shorter filled, or repeated and the longer cut to what that gives."""
    short, long = sorted((X, Y), key=lambda one: one.shape[1])
    gap = long.shape[1] - short.shape[1]
    if op.replicate:
        often = long.shape[1] // max(short.shape[1], 1)
        filled = np.tile(short, (1, often))
        long = long[:, : filled.shape[1]]
    else:
        filled = np.pad(short, ((0, 0), (0, gap)), constant_values=op.pad_value)
    return (filled, long) if short is X else (long, filled)


@DOT_PRODUCT_WITH_PADDING.infer
def dot_product_with_padding_infer(op: OpView, X: TensorSpec, Y: TensorSpec) -> TensorSpec:
    return TensorSpec((padded_count(op, X, Y),), X.dtype)


@DOT_PRODUCT_WITH_PADDING.cost
def dot_product_with_padding_cost(op: OpView, X: TensorSpec, Y: TensorSpec, Z: TensorSpec) -> Cost:
    del op
    return streamed((X, Y), (Z,), flops=2 * max(X.size, Y.size))


@DOT_PRODUCT_WITH_PADDING.gradient
def dot_product_with_padding_gradient(g: GradientRequest) -> list[OperatorDef]:
    told = {"pad_value": g.op.pad_value, "replicate": g.op.replicate}
    return g.emit("DotProductWithPaddingGradient", [g.X, g.Y, g.dZ], [g.dX, g.dY], **told)


@kernel(DOT_PRODUCT_WITH_PADDING)
def dot_product_with_padding(op: OpView, X: Array, Y: Array, Z: Array) -> None:
    if Z.size:
        Z[...] = times(*whole(op, rows_of(X), rows_of(Y)))


DOT_PRODUCT_WITH_PADDING_GRADIENT = schema(
    "DotProductWithPaddingGradient",
    "dX = dZ Y and dY = dZ X, the shorter of the two filled; a row that was repeated gets the sum.",
    inputs=[blob("X", FLOAT), blob("Y", "X"), blob("dZ", "X", doc="(N)")],
    outputs=[blob("dX", "X"), blob("dY", "Y")],
    args=PADDING,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("DotProductWithPaddingGradient", [[1.0, 2.0, 3.0]], [[4.0, 5.0]], [1.0])
    (array([[4., 5., 0.]], dtype=float32), array([[1., 2.]], dtype=float32))
    """,
)


@DOT_PRODUCT_WITH_PADDING_GRADIENT.infer
def dot_product_with_padding_gradient_infer(
    op: OpView, X: TensorSpec, Y: TensorSpec, dZ: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    check_change(op, dZ, padded_count(op, X, Y))
    if op.replicate and X.dims and Y.dims and None not in (*X.dims, *Y.dims):
        lengths = sorted(product(dims[1:]) or 0 for dims in (X.dims, Y.dims))
        fits = lengths[0] == lengths[1] or (lengths[0] > 0 and lengths[1] % lengths[0] == 0)
        op.require(fits, f"rows of {lengths[0]} and {lengths[1]} numbers with replicate", "one must fit into the other")
    return TensorSpec(X.dims, X.dtype), TensorSpec(Y.dims, Y.dtype)


DOT_PRODUCT_WITH_PADDING_GRADIENT.cost(gradient_cost)


@kernel(DOT_PRODUCT_WITH_PADDING_GRADIENT)
def dot_product_with_padding_gradient_kernel(op: OpView, X: Array, Y: Array, dZ: Array, dX: Array, dY: Array) -> None:
    if not dZ.size:
        return
    slopes = times_slopes(*whole(op, rows_of(X), rows_of(Y)), dZ)
    for slope, given in zip(slopes, (dX, dY), strict=True):
        rows = rows_of(given)
        often = slope.shape[1] // max(rows.shape[1], 1) if op.replicate else 1
        kept = slope[:, : often * rows.shape[1]]
        given[...] = kept.reshape(len(rows), often, rows.shape[1]).sum(axis=1).reshape(given.shape)
