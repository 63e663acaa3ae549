"""Operations on matrices: products with scaling and accumulation, sums and additions along rows and columns.

Letters: A is (M, K), B (K, N), C (M, N) as they stand in the product; a transposed factor is stored the other way.
All take tensors, arrays and nested lists, check them first, and leave them as they are but for `out`. The products run
on the best engine of `tensor.product`. float16 and bfloat16 are computed in float32 and rounded once; integers wrap
around, and take integer alpha and beta only.

>>> gemm([[1, 2]], [[3, 4], [5, 6]], transpose_b=True).plain().tolist()
[[11, 17]]
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tazza.array.coercion import values_beside
from tazza.array.operand import Array, Operand, as_tensor, plain_operand, result_for
from tazza.array.product import explain_product, product_into
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

__all__ = [
    "add_column",
    "add_row",
    "batched_gemm",
    "column_sums",
    "explain_gemm",
    "gemm",
    "gemv",
    "row_sums",
    "set_elements",
    "strided_batched_gemm",
]


# -- products ----------------------------------------------------------------------------------------------------------


def gemm(
    a: Operand,
    b: Operand,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Tensor | None = None,
) -> Tensor:
    """C = alpha op(A) op(B) + beta C, where op transposes if `transpose_a` or `transpose_b` says so.

    Args:
        a: (M, K), or (K, M) with transpose_a.
        b: (K, N), or (N, K) with transpose_b; same dtype.
        transpose_a: A is stored transposed.
        transpose_b: B is stored transposed.
        alpha: factor of the product.
        beta: factor of what `out` held; with 0 it is not read, whatever it holds.
        out: C, which may share memory with A or B; a new tensor by default.

    Raises:
        ShapeError: a factor is no matrix, the inner extents differ, or `out` has another shape.
        DTypeError: element types differ or are no numbers.
        ArgumentError: beta without out; alpha or beta is no integer although the elements are.
    """
    A, B = _factors("gemm", a, b)
    for letter, array in (("A", A), ("B", B)):
        _check_rank("gemm", letter, array, 2)
    return _product("gemm", A, B, (transpose_a, transpose_b), (alpha, beta), out)


def explain_gemm(
    a: Operand,
    b: Operand,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> str:
    """Tell which engine multiplies such operands, matrices or batches of them, and why others do not.

    >>> print(explain_gemm(np.ones((2, 3), np.int64), np.ones((3, 5), np.int64)).splitlines()[-1])
    numpy: taken

    Raises:
        ShapeError, DTypeError: as `gemm`.
    """
    A, B = _factors("explain_gemm", a, b)
    dims = _product_dims("explain_gemm", A, B, (transpose_a, transpose_b))
    C = np.empty(dims, A.dtype)
    return explain_product(_turned(A, transpose_a), _turned(B, transpose_b), C, alpha, beta)


def gemv(
    a: Operand, x: Operand, *, transpose: bool = False, alpha: float = 1.0, beta: float = 0.0, out: Tensor | None = None
) -> Tensor:
    """Y = alpha op(A) x + beta Y: a matrix (M, K), or (K, M) with `transpose`, by a vector (K).

    alpha, beta and out are those of `gemm`.

    >>> gemv([[1.0, 2.0], [3.0, 4.0]], [1.0, 10.0]).plain().tolist()
    [21.0, 43.0]

    Raises:
        ShapeError, DTypeError, ArgumentError: as `gemm`.
    """
    A, X = _factors("gemv", a, x, "Ax")
    _check_rank("gemv", "A", A, 2)
    _check_rank("gemv", "x", X, 1)
    first = A.T if transpose else A
    if first.shape[1] != X.shape[0]:
        fits = first.shape[0] == X.shape[0]
        raise ShapeError(
            f"gemv: op(A) has K = {first.shape[1]} columns, x has K = {X.shape[0]} elements",
            hint=f"A is {Dim(A.shape)}" + (f": transpose={not transpose} would fit" if fits else ""),
        )
    _check_scaling("gemv", A, alpha, beta, out)
    Y = result_for(out, (first.shape[0],), DataType.of(A), "gemv")
    product_into(first, X[:, None], Y.array[:, None], alpha, beta)
    Y.mark_written()
    return Y


def strided_batched_gemm(
    a: Operand,
    b: Operand,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Tensor | None = None,
) -> Tensor:
    """C[i] = alpha op(A[i]) op(B[i]) + beta C[i] for the matrices of A (batch..., M, K) and B (batch..., K, N).

    The batch axes may have any strides, so that views work without a copy. They broadcast: one matrix for all others is
    a batch of extent 1, or none. The rest is as in `gemm`.

    >>> strided_batched_gemm([[[1.0]], [[2.0]]], [[3.0]]).plain().tolist()
    [[[3.0]], [[6.0]]]

    Raises:
        ShapeError: fewer than two axes, batches that do not broadcast, or what `gemm` says.
        DTypeError, ArgumentError: as `gemm`.
    """
    who = "strided_batched_gemm"
    A, B = _factors(who, a, b)
    for letter, array in (("A", A), ("B", B)):
        if array.ndim < 2:
            raise ShapeError(f"{who}: {letter} has rank {array.ndim}, it must have at least 2 axes")
    return _product(who, A, B, (transpose_a, transpose_b), (alpha, beta), out)


def batched_gemm(
    a: Sequence[Operand],
    b: Sequence[Operand],
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    alpha: float = 1.0,
    beta: float = 0.0,
    out: Sequence[Tensor] | None = None,
) -> list[Tensor]:
    """C[i] = alpha op(A[i]) op(B[i]) + beta C[i] for matrices that lie anywhere, each pair of a shape of its own.

    All pairs are checked before the first is multiplied.

    >>> [c.plain().tolist() for c in batched_gemm([[[1.0]], [[1.0, 2.0]]], [[[3.0]], [[4.0], [5.0]]])]
    [[[3.0]], [[14.0]]]

    Raises:
        ShapeError: different numbers of matrices, or what `gemm` says of a pair.
        DTypeError, ArgumentError: as `gemm`.
    """
    counts = [len(a), len(b), *([] if out is None else [len(out)])]
    if len(set(counts)) != 1:
        raise ShapeError(f"batched_gemm: {' and '.join(map(str, counts))} matrices", hint="give as many of each")
    targets: Sequence[Tensor | None] = [None] * len(a) if out is None else out
    ready: list[tuple[Array, Array, Tensor | None]] = []
    for i, (one, other, target) in enumerate(zip(a, b, targets, strict=True)):
        who = f"batched_gemm, pair {i}"
        A, B = _factors(who, one, other)
        for letter, array in (("A", A), ("B", B)):
            _check_rank(who, letter, array, 2)
        dims = _product_dims(who, A, B, (transpose_a, transpose_b))
        _check_scaling(who, A, alpha, beta, target)
        if target is not None:
            result_for(target, dims, DataType.of(A), who)
        ready.append((A, B, target))
    return [_product("batched_gemm", A, B, (transpose_a, transpose_b), (alpha, beta), target) for A, B, target in ready]


def _factors(who: str, a: Operand, b: Operand, letters: str = "AB") -> tuple[Array, Array]:
    first = plain_operand(values_beside(a, b), f"{who}: {letters[0]}")
    second = plain_operand(values_beside(b, first), f"{who}: {letters[1]}")
    if first.dtype != second.dtype:
        types = DataType.of(first), DataType.of(second)
        raise DTypeError(f"{who}: {letters[0]} is {types[0]}, {letters[1]} is {types[1]}", hint="cast one of them")
    if first.dtype == np.bool_:
        raise DTypeError(f"{who}: {letters[0]} is bool, which is no number", hint="cast it to int32, say")
    return first, second


def _check_rank(who: str, letter: str, array: Array, rank: int) -> None:
    if array.ndim != rank:
        noun = "matrix" if rank == 2 else "vector"
        raise ShapeError(
            f"{who}: {letter} has rank {array.ndim} {Dim(array.shape)}, a {noun} has rank {rank}",
            hint="strided_batched_gemm takes more axes" if array.ndim > rank == 2 else "reshape it",
        )


def _check_scaling(who: str, A: Array, alpha: float, beta: float, out: Tensor | None) -> None:
    if alpha == 1 and beta == 0:
        return
    if beta != 0 and out is None:
        message = f"{who}: beta = {beta} needs what C held, but out is not given"
        raise ArgumentError(message, hint="give out, or beta = 0")
    for name, factor in (("alpha", alpha), ("beta", beta)):
        if not DataType.of(A).is_float and int(factor) != factor:
            raise ArgumentError(f"{who}: {name} = {factor} is no integer, A is {DataType.of(A)}", hint="cast A and B")


def _turned(array: Array, transposed: bool) -> Array:
    return array.swapaxes(-1, -2) if transposed else array


def _product_dims(who: str, A: Array, B: Array, trans: tuple[bool, bool]) -> tuple[int, ...]:
    """Return the shape of C.

    Raises:
        ShapeError: A and B do not fit; the hint has the transposition that would.
    """
    first, second = _turned(A, trans[0]).shape, _turned(B, trans[1]).shape
    if first[-1] != second[-2]:
        fitting = [
            (a, b)
            for a, b in itertools.product((False, True), repeat=2)
            if _turned(A, a).shape[-1] == _turned(B, b).shape[-2]
        ]
        stored = f"A is {Dim(A.shape)}, B is {Dim(B.shape)}"
        would = "" if not fitting else f": transpose_a={fitting[0][0]}, transpose_b={fitting[0][1]} would fit"
        message = f"{who}: op(A) has K = {first[-1]} columns, op(B) has K = {second[-2]} rows"
        raise ShapeError(message, hint=stored + would)
    if A.ndim == B.ndim == 2:
        return first[0], second[1]
    try:
        batch = Dim(first[:-2]).broadcast(second[:-2])
    except ShapeError as error:
        raise ShapeError(f"{who}: the batches of A and B do not fit: {error.message}", hint=error.hint) from None
    return (*batch, first[-2], second[-1])


def _product(
    who: str, A: Array, B: Array, trans: tuple[bool, bool], factors: tuple[float, float], out: Tensor | None
) -> Tensor:
    dims = _product_dims(who, A, B, trans)
    _check_scaling(who, A, *factors, out)
    C = result_for(out, dims, DataType.of(A), who)
    product_into(_turned(A, trans[0]), _turned(B, trans[1]), C.array, *factors)
    C.mark_written()
    return C


# -- along rows and columns --------------------------------------------------------------------------------------------


def row_sums(a: Operand) -> Tensor:
    """y[i] = sum over j of A[i, j]: (M, N) to (M).

    Floats keep their type, added in float32 at least; integers and bools are added in int64.

    >>> row_sums([[1, 2], [3, 4]]).plain().tolist(), column_sums([[1, 2], [3, 4]]).plain().tolist()
    ([3, 7], [4, 6])

    Raises:
        ShapeError: A is no matrix.
    """
    return _sums("row_sums", a, 1)


def column_sums(a: Operand) -> Tensor:
    """y[j] = sum over i of A[i, j]: (M, N) to (N); types as in `row_sums`.

    Raises:
        ShapeError: A is no matrix.
    """
    return _sums("column_sums", a, 0)


def _sums(who: str, a: Operand, axis: int) -> Tensor:
    A = plain_operand(a, f"{who}: A")
    _check_rank(who, "A", A, 2)
    dtype = DataType.of(A)
    if not dtype.is_float:
        return as_tensor(np.add.reduce(A, axis=axis, dtype=np.int64))
    wide = DataType.DOUBLE if dtype is DataType.DOUBLE else DataType.FLOAT
    return as_tensor(np.add.reduce(A, axis=axis, dtype=wide.numpy).astype(dtype.numpy, copy=False))


def add_row(a: Operand, row: Operand, *, alpha: float = 1.0, out: Tensor | None = None) -> Tensor:
    """C[i, j] = A[i, j] + alpha row[j], for A (M, N) and row (N); `out` may be A itself.

    >>> a = [[1, 2], [3, 4]]; add_row(a, [10, 20]).plain().tolist(), add_column(a, [10, 20]).plain().tolist()
    ([[11, 22], [13, 24]], [[11, 12], [23, 24]])

    Raises:
        ShapeError: A is no matrix, or row does not have its number of columns.
        DTypeError: element types differ, or out has another.
        ArgumentError: alpha is no integer although the elements are.
    """
    return _add("add_row", a, row, 1, alpha, out)


def add_column(a: Operand, column: Operand, *, alpha: float = 1.0, out: Tensor | None = None) -> Tensor:
    """C[i, j] = A[i, j] + alpha column[i], for A (M, N) and column (M); `out` may be A itself.

    Raises:
        ShapeError: A is no matrix, or column does not have its number of rows.
        DTypeError, ArgumentError: as `add_row`.
    """
    return _add("add_column", a, column, 0, alpha, out)


def _add(who: str, a: Operand, vector: Operand, axis: int, alpha: float, out: Tensor | None) -> Tensor:
    A, X = _factors(who, a, vector, "Ax")
    _check_rank(who, "A", A, 2)
    _check_rank(who, "x", X, 1)
    if X.shape[0] != A.shape[axis]:
        nouns = ("rows", "columns")
        raise ShapeError(
            f"{who}: A {Dim(A.shape)} has {A.shape[axis]} {nouns[axis]}, the vector has {X.shape[0]} elements",
            hint=("add_row" if axis == 0 else "add_column") + " would fit" if X.shape[0] == A.shape[1 - axis] else None,
        )
    _check_scaling(who, A, alpha, 0.0, out)
    C = result_for(out, A.shape, DataType.of(A), who)
    half = A.dtype.itemsize < 4 and DataType.of(A).is_float
    wide = X.astype(np.float32) if half else X
    scaled = wide if alpha == 1 else wide * wide.dtype.type(alpha)
    np.copyto(C.array, A + (scaled[:, None] if axis == 0 else scaled), casting="unsafe")
    C.mark_written()
    return C


def set_elements(x: Tensor, value: Operand, *, where: Operand | None = None) -> Tensor:
    """X = value, element by element, in place; with `where` only those elements at which it is true.

    `value` and `where` broadcast to X; value is cast to its type, integers modulo 2 ** bits. Returns X.

    >>> x = Tensor.from_numpy(np.arange(4.0)); set_elements(x, -1, where=[True, False, False, True]).plain()
    array([-1.,  1.,  2., -1.])

    Raises:
        ShapeError: value or where does not broadcast to X.
        DTypeError: where is not bool.
    """
    values = plain_operand(value, "set_elements: value")
    mask = np.True_ if where is None else plain_operand(where, "set_elements: where")
    if mask.dtype != np.bool_:
        raise DTypeError(f"set_elements: where is {DataType.of(mask.dtype)}, it must be bool", hint="compare it first")
    for letter, dims in (("value", values.shape), ("where", mask.shape)):
        if x.shape.broadcast(dims) != x.shape:
            raise ShapeError(f"set_elements: {letter} {Dim(dims)} does not broadcast to X {x.shape}")
    x = result_for(x, x.shape, x.dtype, "set_elements")
    with np.errstate(invalid="ignore", over="ignore"):  # a NaN that becomes an integer is whatever the processor makes
        np.copyto(x.array, values, casting="unsafe", where=mask)
    x.mark_written()
    return x
