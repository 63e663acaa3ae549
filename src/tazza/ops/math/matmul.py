"""Products of matrices: MatMul, BatchMatMul. Their gradients are products again, so neither has a gradient operator.

Letters: M rows and N columns of Y, K the inner size, `batch...` leading dimensions. With trans_a a matrix of A is
(K, M), else (M, K); with trans_b one of B is (N, K), else (K, N). MatMul cuts A and B into matrices at axis_a and
axis_b; BatchMatMul takes the last two dimensions as matrices.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import GradientError
from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.shape.axis import agree, cut, matrix, product
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

TRANSPOSED = (
    arg("trans_a", int, 0, doc="A holds (K, M)"),
    arg("trans_b", int, 0, doc="B holds (N, K)"),
)

MATMUL = schema(
    "MatMul",
    """Y = A B with A and B as matrices, each transposed where trans_a or trans_b says so.

    Y is (M, N), or has the shape of `like` when that is there.""",
    inputs=[
        blob("A", FLOAT, elsewhere=HALVES, doc="as a matrix (M, K)"),
        blob("B", "A", role=Role.PARAMETER, doc="as a matrix (K, N)"),
        blob("like", optional=True, role=Role.SHAPE, doc="its shape is that of Y; its value does not matter"),
    ],
    outputs=[blob("Y", "A", doc="(M, N), or the same elements in the shape of `like`")],
    args=[
        arg("axis_a", int, 1, doc="A is cut here: rows before it, columns from it on"),
        arg("axis_b", int, 1, doc="B is cut here"),
        *TRANSPOSED,
    ],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("MatMul", [[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]], trans_b=1)
    array([[11., 17.]], dtype=float32)
    """,
)


@MATMUL.infer
def matmul_infer(op: OpView, A: TensorSpec, B: TensorSpec, like: TensorSpec | None) -> TensorSpec:
    M, K = (None, None) if A.dims is None else _matmul_sides(op, "a", A)
    taken, N = (None, None) if B.dims is None else _matmul_sides(op, "b", B)
    if A.dims is not None and B.dims is not None:
        relation = f"A {show_dims(A.dims)} has K = {K}, B {show_dims(B.dims)} has K = {taken}"
        op.require(agree(K, taken), relation, "check axis_a, axis_b, trans_a and trans_b")
    if like is None:
        return TensorSpec((M, N), A.dtype)
    if like.dims is not None:
        relation = f"like has the shape {show_dims(like.dims)}, Y is ({M}, {N})"
        op.require(agree(product(like.dims), product((M, N))), relation, "both must have as many elements")
    return TensorSpec(like.dims, A.dtype)


MATMUL.batched("A", when=lambda op: op.axis_a >= 1 and not op.trans_a and not op.has_input("like"))


@MATMUL.cost
def matmul_cost(op: OpView, A: TensorSpec, B: TensorSpec, like: TensorSpec | None, Y: TensorSpec) -> Cost:
    del like  # its value is not read
    K = _matmul_sides(op, "a", A)[1]
    return Cost(2 * Y.size * (0 if K is None else K), A.nbytes + B.nbytes, Y.nbytes)


# (trans_a, trans_b) -> for dA and dB the two factors, with the letters of those that are transposed. Each follows from
# Y = A B: dA = dY B^T and dB = A^T dY, and their transposes where A or B is stored transposed.
_GRADIENTS = {
    (False, False): (("Y", "B", "b"), ("A", "Y", "a")),
    (False, True): (("Y", "B", ""), ("Y", "A", "a")),
    (True, False): (("B", "Y", "b"), ("A", "Y", "")),
    (True, True): (("B", "Y", "ab"), ("Y", "A", "ab")),
}


# Of the arguments of the forward operator only the axis of the other factor counts, at the side where that one stands.
def matmul_gradient(g: GradientRequest) -> list[OperatorDef]:
    definitions: list[OperatorDef] = []
    for letter, (first, second, transposed) in zip("AB", _gradient_rule(g.op), strict=True):
        blobs = {"A": g.A, "B": g.B, "Y": g.dY}
        other, side = (second, "b") if first == "Y" else (first, "a")
        flags = {f"trans_{side}": 1 for side in transposed}
        axis = {f"axis_{side}": g.op.axis_a if other == "A" else g.op.axis_b}
        output = g.dA if letter == "A" else g.dB
        definitions += g.emit("MatMul", [blobs[first], blobs[second], blobs[letter]], [output], **flags, **axis)
    return definitions


MATMUL.gradient(matmul_gradient, copy_arguments=False)


@kernel(MATMUL)
def matmul(op: OpView, A: Array, B: Array, Y: Array) -> None:
    a, b = matrix(op, "axis_a", A), matrix(op, "axis_b", B)
    y = (a.T if op.trans_a else a) @ (b.T if op.trans_b else b)
    Y[...] = y.reshape(Y.shape)


BATCH_MATMUL = schema(
    "BatchMatMul",
    """Y[i] = A[i] B[i], each transposed where trans_a or trans_b says so.

    A is (batch..., M, K), B (batch..., K, N) with the same batch. With `broadcast` the batches are broadcast against
    each other as NumPy does it, and there is no gradient. A of rank 1 is one row, B of rank 1 one column, whatever
    trans_a and trans_b say; that dimension of Y is left out, and Y of two vectors is (1).""",
    inputs=[
        blob("A", FLOAT, elsewhere=HALVES, doc="(batch..., M, K)"),
        blob("B", "A", role=Role.PARAMETER, doc="(batch..., K, N)"),
    ],
    outputs=[blob("Y", "A", doc="(batch..., M, N)")],
    args=[
        *TRANSPOSED,
        arg("broadcast", int, 0, doc="the batches may differ, as far as they broadcast"),
        arg("use_scratch", int, 0, doc="no effect: it chose where the GPU kernel of Caffe2 kept pointers"),
    ],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("BatchMatMul", np.ones((2, 1, 3), "f"), np.ones((3, 2), "f"), broadcast=1).tolist()
    [[[3.0, 3.0]], [[3.0, 3.0]]]
    """,
)


@BATCH_MATMUL.infer
def batch_matmul_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    if A.dims is None or B.dims is None:
        return TensorSpec(None, A.dtype)
    a, b = tuple(A.dims), tuple(B.dims)
    for letter, dims in (("A", a), ("B", b)):
        op.require(len(dims) > 0, f"{letter} has rank 0, it must have at least 1 dimension")
    batch_a, M, K = _batch_sides(a, vector_first=True, transposed=bool(op.trans_a))
    batch_b, taken, N = _batch_sides(b, vector_first=False, transposed=bool(op.trans_b))
    shapes = f"A {show_dims(a)}, B {show_dims(b)}"
    op.require(agree(K, taken), f"{shapes}: A has K = {K}, B has K = {taken}", "check trans_a and trans_b")
    batch = _batch(op, batch_a, batch_b, shapes, vectors=1 in (len(a), len(b)))
    found = (*batch, *(() if len(a) == 1 else (M,)), *(() if len(b) == 1 else (N,)))
    return TensorSpec(found if found else (1,), A.dtype)


@BATCH_MATMUL.cost
def batch_matmul_cost(op: OpView, A: TensorSpec, B: TensorSpec, Y: TensorSpec) -> Cost:
    K = _batch_sides(tuple(A.shape), vector_first=True, transposed=bool(op.trans_a))[2]
    return Cost(2 * Y.size * (0 if K is None else K), A.nbytes + B.nbytes, Y.nbytes)


def batch_matmul_gradient(g: GradientRequest) -> list[OperatorDef]:
    if g.op.broadcast:
        message = "BatchMatMul has no gradient with broadcast = 1"
        raise GradientError(message, hint="make both batches equal with Tile, and drop broadcast")
    definitions: list[OperatorDef] = []
    for letter, (first, second, transposed) in zip("AB", _gradient_rule(g.op), strict=True):
        blobs = {"A": g.A, "B": g.B, "Y": g.dY}
        output = g.dA if letter == "A" else g.dB
        flags = {f"trans_{side}": 1 for side in transposed}
        definitions += g.emit("BatchMatMul", [blobs[first], blobs[second]], [output], **flags)
    return definitions


BATCH_MATMUL.gradient(batch_matmul_gradient, copy_arguments=False)


@kernel(BATCH_MATMUL)
def batch_matmul(op: OpView, A: Array, B: Array, Y: Array) -> None:
    a = A.reshape(1, -1) if A.ndim == 1 else A.swapaxes(-1, -2) if op.trans_a else A
    b = B.reshape(-1, 1) if B.ndim == 1 else B.swapaxes(-1, -2) if op.trans_b else B
    Y[...] = np.matmul(a, b).reshape(Y.shape)


def _gradient_rule(op: OpView) -> tuple[tuple[str, str, str], tuple[str, str, str]]:
    return _GRADIENTS[bool(op.trans_a), bool(op.trans_b)]


def _matmul_sides(op: OpView, side: str, spec: TensorSpec) -> tuple[int | None, int | None]:
    """Return rows and columns of A or B as they stand in the product."""
    dims = () if spec.dims is None else spec.dims
    before, behind = cut(op, f"axis_{side}", side.upper(), dims)
    rows, columns = product(before), product(behind)
    return (columns, rows) if op.arguments[f"trans_{side}"] else (rows, columns)


def _batch_sides(dims: Dims, *, vector_first: bool, transposed: bool) -> tuple[Dims, int | None, int | None]:
    """Return batch, rows and columns as they stand in the product; a vector is a row or a column."""
    if len(dims) == 1:
        return ((), 1, dims[0]) if vector_first else ((), dims[0], 1)
    rows, columns = dims[-2:]
    return (dims[:-2], columns, rows) if transposed else (dims[:-2], rows, columns)


def _batch(op: OpView, first: Dims, second: Dims, shapes: str, *, vectors: bool) -> Dims:
    """Return the batch of Y; a vector meets any batch, with or without `broadcast`."""
    if not op.broadcast and not vectors:
        same = len(first) == len(second) and all(map(agree, first, second))
        op.require(same, f"{shapes}: the batches {show_dims(first)} and {show_dims(second)} differ", "set broadcast=1")
    rank = max(len(first), len(second))
    pairs = zip((1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second, strict=True)
    batch: list[int | None] = []
    for a, b in pairs:
        fits = agree(a, b) or 1 in (a, b)
        op.require(fits, f"{shapes}: the batches {show_dims(first)} and {show_dims(second)} do not broadcast")
        batch.append(b if a == 1 else a if a is not None else b if b != 1 else None)
    return tuple(batch)
