"""Products of quantized matrices: of the integers, exact, and of the numbers that they stand for."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import INTEGER_PRODUCTS, ProductTask, compute
from tazza.array.quantized.qtensor import QTensor
from tazza.errors import DTypeError, ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

IntegerMatrix: TypeAlias = "QTensor | Tensor | npt.NDArray[Any]"


def integer_matmul(
    a: IntegerMatrix,
    b: IntegerMatrix,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    engine: str | None = None,
) -> Tensor:
    """Return the matrix product of integers: exact, without scale and bias.

    It is int32 where K * max|a| * max|b| < 2^31 for all that the types of `a` and `b` can hold, else int64: so the type
    does not depend on the elements. Factors are QTensors of any bits, or int8 and uint8; in any mixture. A QTensor
    keeps what a kernel made of it (at most as many bytes again as its planes, with rows padded to 64 elements).

    Args:
        a: (M, K); or (K,), which gives a result without M.
        b: (K, N); or (K,), which gives a result without N.
        transpose_a: `a` is (K, M).
        transpose_b: `b` is (N, K), as weights of FC are; a QTensor lies best that way.
        engine: whom to ask, a name in `INTEGER_PRODUCTS`; None takes the fastest, by estimate.

    Raises:
        ShapeError: not one or two axes, or the two K are not the same.
        DTypeError: other elements.
        NotFoundError: no such engine.
        UnsupportedError: the engine that was asked for cannot compute this.

    >>> q = QTensor.of_integers([[1, -2, 3]], 2, signed=True)
    >>> integer_matmul(q, np.uint8([200, 100, 255]))
    Tensor([765], dtype=int32)
    """
    task, shape = _task(a, b, transpose_a, transpose_b)
    result = compute(task, engine)
    return Tensor.from_numpy(result.reshape(shape), copy=None)


def quantized_matmul(
    a: QTensor, b: QTensor, *, transpose_a: bool = False, transpose_b: bool = False, engine: str | None = None
) -> Tensor:
    """Return the matrix product of the numbers that two QTensors stand for, in float32.

    It is s t (C + f u + e v + K e f), with scales s, t, biases e, f, the exact integer product C of x and y, u the sums
    of the rows of x and v those of the columns of y; computed in float64 from exact integers and rounded once to
    float32: |error| <= 2^-24 |result| + 2^-50 s t (|C| + |f u| + |e v| + K |e f|).

    For real matrices A and B that were quantized with errors of at most p and q (`error_bound`), the result is within
    K (p max|B| + q max|A| + p q) of A B, and that rounding.

    Args, shapes and errors are those of `integer_matmul`.

    >>> a = QTensor.of_integers([[1, 2]], 2, signed=False, scale=0.5); b = QTensor.of_integers([3, 1], 2, signed=False)
    >>> a @ b
    Tensor([2.5], dtype=float32)
    """
    task, shape = _task(a, b, transpose_a, transpose_b)
    result = Tensor((task.a.rows, task.b.rows), DataType.FLOAT)
    total = compute(task, engine).astype(np.float64)
    if b.bias != 0:
        total += b.bias * _row_sums(task.a)[:, None]
    if a.bias != 0:
        total += a.bias * _row_sums(task.b)[None, :] + task.a.depth * a.bias * b.bias
    np.multiply(total, a.scale * b.scale, out=result.array, casting="same_kind")
    return result.view(shape)


def explain_quantized_matmul(
    a: IntegerMatrix, b: IntegerMatrix, *, transpose_a: bool = False, transpose_b: bool = False
) -> str:
    """Return who would compute the integer product, at which estimates, and why others would not.

    Raises:
        ShapeError, DTypeError: as `integer_matmul`.
    """
    task, _ = _task(a, b, transpose_a, transpose_b)
    return f"{task}\n{INTEGER_PRODUCTS.choose(task)}"


def _row_sums(factor: Factor) -> npt.NDArray[np.int64]:
    def add() -> npt.NDArray[np.int64]:
        return factor.integers().sum(axis=1, dtype=np.int64)

    if isinstance(factor.source, QTensor):
        return factor.source.derived(("row sums", factor.transposed, tuple(factor.source.shape)), add)
    return add()


def _task(a: IntegerMatrix, b: IntegerMatrix, transpose_a: bool, transpose_b: bool) -> tuple[ProductTask, Dim]:
    """Return the product, and the shape that its result is to have."""
    left, m = _factor(a, transpose_a, "a")
    right, n = _factor(b, not transpose_b, "b")
    if left.depth != right.depth:
        raise ShapeError(
            f"K of a is {left.depth} != {right.depth} of b: shapes {list(a.shape)} and {list(b.shape)}"
            f"{', a transposed' * transpose_a}{', b transposed' * transpose_b}",
            hint="the last axis of a and the first of b are summed over",
        )
    return ProductTask(left, right), Dim((*m, *n))


def _factor(x: IntegerMatrix, transposed: bool, name: str) -> tuple[Factor, tuple[int, ...]]:
    """Return one side, and what it gives to the shape of the result."""
    source = x if isinstance(x, QTensor) else _plain(x, name)
    rank = len(source.shape)
    if rank == 1:
        return Factor(source.reshape((1, source.shape[0]))), ()
    if rank != 2:
        raise ShapeError(f"{name} has shape {list(source.shape)} of rank {rank}, wanted 1 or 2")
    factor = Factor(source, transposed)
    return factor, (factor.rows,)


def _plain(x: Tensor | npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    array = np.asarray(x)
    if array.dtype not in (np.dtype(np.int8), np.dtype(np.uint8)):
        raise DTypeError(
            f"{name} has elements of type {array.dtype}, wanted int8, uint8 or a QTensor",
            hint="quantize() makes a QTensor of real numbers",
        )
    return array
