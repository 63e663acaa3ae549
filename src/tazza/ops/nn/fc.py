"""Fully connected layers: FC, and FCTransposed, whose W lies the other way.

Letters: N rows, K inner size, M output features. X is cut into (N, K) at `axis`, W at `axis_w` into (M, K), for
FCTransposed (K, M); either may have any rank. With lead... the extents of X before `axis`, N their product:

    X (lead..., K)    W (M, K), or (K, M)    b (M)    Y (lead..., M)
"""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import DTypeError
from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    gradients_of,
    kernel,
    operator_def,
    schema,
    show_dims,
)
from tazza.operator.declared import sums_rows
from tazza.ops.shape.axis import agree, cut, matrix, product
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

FC_ARGS = (
    arg("axis", int, 1, doc="X is cut here: rows before it, K from it on"),
    arg("axis_w", int, 1, doc="W is cut here: M before it, K from it on"),
    arg("float16_compute", int, 0, doc="for float16 blobs: accumulate in float16; no effect on float32"),
)


@dataclass(frozen=True, slots=True)
class Weights:
    """How W lies, as a text, what stands for it in Y and in dW, and texts of the examples."""

    shape: str
    features_first: bool
    product: str
    slope: str
    example: str
    dW: str

    def in_rows(self, op: OpView, W: Array) -> Array:
        """Return W as (M, K), a view."""
        w = matrix(op, "axis_w", W)
        return w if self.features_first else w.T


def fc_dims(op: OpView, row: Weights, X: TensorSpec, W: TensorSpec) -> tuple[Dims, int | None] | None:
    """Return lead... and M, None where the rank of W, or of lead..., is unknown; checks that both sides have one K."""
    if W.dims is None or (X.dims is None and op.axis < 0):
        return None
    rows = (None,) * (op.axis + 1) if X.dims is None else X.dims
    lead, inner = cut(op, "axis", "X", rows)
    sides = cut(op, "axis_w", "W", W.dims)
    features, summed = sides if row.features_first else sides[::-1]
    K, taken = product(inner), product(summed)
    relation = f"X {show_dims(rows)} has K = {K} from axis {op.axis} on, W {show_dims(W.dims)} takes {taken}"
    op.require(agree(K, taken), relation, f"W must be {row.shape}, cut at axis_w")
    return lead, product(features)


def fc_infer(op: OpView, row: Weights, X: TensorSpec, W: TensorSpec, b: TensorSpec) -> TensorSpec:
    found = fc_dims(op, row, X, W)
    if found is None:
        return TensorSpec(None, X.dtype)
    lead, M = found
    if b.dims is None:
        return TensorSpec((*lead, M), X.dtype)
    op.require(agree(b.dims[0], M), f"b has {b.dims[0]} elements, W has M = {M} output features", "b must be (M)")
    return TensorSpec((*lead, b.dims[0] if M is None else M), X.dtype)


def fc_cost(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    K = W.size // max(b.size, 1)
    parameters = W.nbytes + b.nbytes
    return Cost(Y.size * (2 * K + 1), X.nbytes + parameters, Y.nbytes, parameters)


def fc_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit(f"{g.op.type}Gradient", [g.X, g.W, g.dY], [g.dW, g.db, g.dX])


def fc_gradient_infer(op: OpView, row: Weights, X: TensorSpec, W: TensorSpec, dY: TensorSpec) -> tuple[TensorSpec, ...]:
    found = fc_dims(op, row, X, W)
    M = None if found is None else found[1]
    if len(op.output_letters) > 2 and W.dtype is not X.dtype:
        raise op.error(DTypeError, f"W is {W.dtype}, X is {X.dtype}", "insert a Cast")
    if found is not None and dY.dims is not None:
        lead = found[0]
        same = len(dY.dims) > 0 and agree(dY.dims[-1], M) and agree(product(dY.dims[:-1]), product(lead))
        op.require(
            same, f"dY has the shape {show_dims(dY.dims)}, Y has {show_dims((*lead, M))}", "dY must have the rows of Y"
        )
    specs = (TensorSpec(W.dims, X.dtype), TensorSpec((M,), X.dtype), TensorSpec(X.dims, X.dtype))
    return specs[: len(op.output_letters)]


def fc_gradient_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, dY: TensorSpec, dW: TensorSpec, db: TensorSpec, dX: TensorSpec | None
) -> Cost:
    del op
    product_flops = 2 * dY.size * (W.size // max(db.size, 1))
    flops = product_flops * (1 if dX is None else 2) + dY.size
    written = dW.nbytes + db.nbytes + (0 if dX is None else dX.nbytes)
    return Cost(flops, X.nbytes + W.nbytes + dY.nbytes, written, W.nbytes)


@family(
    {
        "FC": Weights("(M, K)", True, "X W^T", "dY^T X", "[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]", "[[10.0, 20.0]]"),
        "FCTransposed": Weights(
            "(K, M)", False, "X W", "X^T dY", "[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]", "[[10.0], [20.0]]"
        ),
    }
)
def fcs(type: str, row: Weights) -> OpSchema:
    """A fully connected layer."""
    made = schema(
        type,
        f"""Y = {row.product} + b, with X as a matrix (N, K) and W as a matrix {row.shape}.

    Y keeps the dimensions of X before `axis`. X of rank 1 needs `axis` 0.""",
        inputs=[
            blob("X", FLOAT, elsewhere=HALVES, doc="(lead..., K), K possibly spread over several dimensions"),
            blob("W", "X", role=Role.PARAMETER, doc=f"{row.shape}, both possibly spread over several dimensions"),
            blob("b", "X", "M", role=Role.PARAMETER),
        ],
        outputs=[blob("Y", "X", doc="(lead..., M)")],
        args=FC_ARGS,
        effects=Effects.PURE,
        source="Caffe2",
        example=f"""
    >>> run("{type}", [[1.0, 2.0]], {row.example}, [10.0, 20.0, 30.0])
    array([[11., 22., 33.]], dtype=float32)
    """,
    )
    made.cost(fc_cost)
    made.gradient(fc_gradient)
    made.batched("X", when=lambda op: op.axis >= 1)

    @made.infer
    def infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec) -> TensorSpec:
        return fc_infer(op, row, X, W, b)

    @kernel(made)
    def fc(op: OpView, X: Array, W: Array, b: Array, Y: Array) -> None:
        x, w = matrix(op, "axis", X), row.in_rows(op, W)
        y = Y.reshape(len(x), len(w))
        np.matmul(x, w.T, out=y)
        y += b

    return made


FC = fcs["FC"]


@family(gradients_of(fcs))
def fc_gradients(type: str, row: Weights) -> OpSchema:
    """The gradient operator of a fully connected layer."""
    W, back = ("[[3.0, 4.0]]", "W") if row.features_first else ("[[3.0], [4.0]]", "W^T")
    made = schema(
        type,
        f"""dW = {row.slope}, db = the sum of dY over its rows, dX = dY {back}; with dY as a matrix (N, M).

    dX may be left out.""",
        inputs=[
            blob("X", FLOAT, elsewhere=HALVES),
            blob("W", role=Role.PARAMETER, doc="without dX of any type: not read"),
            blob("dY", "X", doc="(lead..., M), or the same rows in another shape: (..., M)"),
        ],
        outputs=[blob("dW", "X"), blob("db", "X"), blob("dX", like="X", optional=True)],
        args=FC_ARGS,
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="the transposed relations of the forward operator",
        example=f"""
    >>> dW, db, dX = run("{type}", [[1.0, 2.0]], {W}, [[10.0]], outputs=3)
    >>> dW.tolist(), db, dX
    ({row.dW}, array([10.], dtype=float32), array([[30., 40.]], dtype=float32))
    """,
    )
    made.cost(fc_gradient_cost)

    @sums_rows(made, ["X", "dY"], ["dW", "db"])
    def data_gradient(op: OpView, rank: int) -> tuple[list[OperatorDef], list[OperatorDef]] | None:
        """Return dX as a layer of dY, whose weights are W as it lies the other way, and whose biases are 0."""
        if op.axis not in (rank - 1, -1) or op.axis_w != 1:
            return None
        if len(op.output_letters) < 3:
            return [], []
        dY, dX, given = op.definition.input[2], op.definition.output[2], op.definition.input[1]
        W, shape, back, K, zero = (f"{dX}/{name}" for name in ("W", "shape", "back", "K", "zero"))
        before = [operator_def("Reshape", [given], [W, shape], shape=[0, -1]), operator_def("Transpose", [W], [back])]
        of_inner = "ReduceFrontSum" if row.features_first else "ReduceBackSum"
        before += [operator_def(of_inner, [W], [K]), operator_def("ConstantFill", [K], [zero])]
        weights = back if row.features_first else W
        return before, [operator_def("FC", [dY, weights, zero], [dX], axis=op.axis)]

    @made.infer
    def infer(op: OpView, X: TensorSpec, W: TensorSpec, dY: TensorSpec) -> tuple[TensorSpec, ...]:
        return fc_gradient_infer(op, row, X, W, dY)

    @kernel(made)
    def fc_gradient_kernel(op: OpView, X: Array, W: Array, dY: Array, dW: Array, db: Array, dX: Array | None) -> None:
        x, w = matrix(op, "axis", X), row.in_rows(op, W)
        dy = dY.reshape(len(x), len(w))
        np.matmul(dy.T, x, out=row.in_rows(op, dW))
        dy.sum(axis=0, out=db)
        if dX is not None:
            np.matmul(dy, w, out=dX.reshape(x.shape))

    return made


FC_GRADIENT = fc_gradients["FCGradient"]
