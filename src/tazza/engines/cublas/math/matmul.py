"""MatMul, and BatchMatMul where the products of a batch lie one behind the other."""

from __future__ import annotations

import math

from tazza.codegen.block import Slot
from tazza.engines.cublas import cublas_kernel
from tazza.engines.cublas.nn.fc import check_product, matrix_extents
from tazza.engines.cublas.product import Batch, Product, ProductLaunch
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.math.matmul import BATCH_MATMUL, MATMUL
from tazza.tensor import TensorSpec


@cublas_kernel(MATMUL)
def matmul(op: OpView, A: TensorSpec, B: TensorSpec, Y: TensorSpec) -> Launch:
    rows, columns = matrix_extents(op, "axis_a", "A", A), matrix_extents(op, "axis_b", "B", B)
    M, K = rows[::-1] if op.trans_a else rows
    N = columns[0] if op.trans_b else columns[1]
    check_product([A, B, Y], (M, N, K))  # the value of `like` is not read
    flipped = bool(op.trans_a), bool(op.trans_b)
    return ProductLaunch(A.dtype, (Product(Slot("A"), Slot("B"), Slot("Y"), (M, N, K), flipped),))


@cublas_kernel(BATCH_MATMUL)
def batch_matmul(op: OpView, A: TensorSpec, B: TensorSpec, Y: TensorSpec) -> Launch:
    a, b, flipped = tuple(A.shape), tuple(B.shape), (bool(op.trans_a), bool(op.trans_b))
    if len(a) == 1:
        a, flipped = (1, *a), (False, flipped[1])
    if len(b) == 1:
        b, flipped = (*b, 1), (flipped[0], False)
    (M, K), N = (a[-1:-3:-1] if flipped[0] else a[-2:]), b[-2] if flipped[1] else b[-1]
    batches = a[:-2], b[:-2]
    counts = math.prod(batches[0]), math.prod(batches[1])
    if batches[0] != batches[1] and 1 not in counts:
        raise Unsupported("batches are broadcast against each other")
    check_product([A, B, Y], (M, N, K, *counts))
    count = Y.size // max(1, M * N)
    batch = Batch(count, (0 if counts[0] == 1 else M * K, 0 if counts[1] == 1 else K * N, M * N))
    return ProductLaunch(A.dtype, (Product(Slot("A"), Slot("B"), Slot("Y"), (M, N, K), flipped, batch=batch),))
