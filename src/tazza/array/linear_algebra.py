"""Linear algebra of the Python array-API standard: products along chosen axes, norms, trace; and `einsum`.

Operands are promoted as the standard says (`tensor.promotion`). Products run on the engines of `tensor.product`; what
is no product of matrices is done by NumPy. Results are new tensors.

Source: Python array API standard 2024.12, "Linear Algebra Functions" and the extension `linalg`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from tazza.array.operand import Array, Operand, as_tensor, plain_operand
from tazza.array.product import product_into
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.attached import attached
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.promotion import promote
from tazza.tensor.tensor import Tensor

__all__ = [
    "einsum",
    "matmul",
    "matrix_norm",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

Axes = int | tuple[int, ...] | None


# -- products ----------------------------------------------------------------------------------------------------------


@attached
def multiply_matrices(x1: object, x2: object) -> Any:
    """Return x1 @ x2 for the operator of tensors; `NotImplemented` where one is neither tensor nor array."""
    known = (Tensor, np.ndarray)
    given = isinstance(x1, known) and isinstance(x2, known)
    return matmul(cast("Operand", x1), cast("Operand", x2)) if given else NotImplemented


def matmul(x1: Operand, x2: Operand) -> Tensor:
    """Return x1 @ x2: matrices are the last two axes, the axes before them broadcast.

    x1 of rank 1 is a row (K), x2 of rank 1 a column (K); that axis is not in the result.

    >>> matmul([[1, 2], [3, 4]], [1, 10]).plain().tolist()
    [21, 43]

    Raises:
        ShapeError: a rank of 0, inner extents that differ, or batches that do not broadcast.
        DTypeError: bool, or text.
    """
    if isinstance(x1, Tensor) and isinstance(x2, Tensor) and not (x1.place.is_host and x2.place.is_host):
        from tazza.array.on_device import multiply_there  # it needs lazy expressions

        return multiply_there(x1, x2)
    a, b = _numbers("matmul", x1, x2)
    for name, array in (("x1", a), ("x2", b)):
        if array.ndim == 0:
            raise ShapeError(f"matmul: {name} has rank 0, it must have an axis", hint="multiply by a number with *")
    first = a[None, :] if a.ndim == 1 else a
    second = b[:, None] if b.ndim == 1 else b
    if first.shape[-1] != second.shape[-2]:
        raise ShapeError(
            f"matmul: x1 {Dim(a.shape)} has K = {first.shape[-1]}, x2 {Dim(b.shape)} has K = {second.shape[-2]}",
            hint="the last axis of x1 and the last but one of x2 (its only one) must be equal",
        )
    batch = Dim(first.shape[:-2]).broadcast(second.shape[:-2])
    result = Tensor((*batch, first.shape[-2], second.shape[-1]), DataType.of(a))
    product_into(first, second, result.array)
    result.mark_written()
    rows, columns = (() if a.ndim == 1 else first.shape[-2:-1]), (() if b.ndim == 1 else second.shape[-1:])
    result.resize((*batch, *rows, *columns))
    return result


def matrix_transpose(x: Operand) -> Tensor:
    """Return x with its last two axes exchanged, as a new tensor.

    Raises:
        ShapeError: fewer than two axes.
    """
    array = plain_operand(x, "matrix_transpose: x")
    _need_axes("matrix_transpose", array, 2)
    return as_tensor(np.array(array.swapaxes(-1, -2), order="C"))


def tensordot(x1: Operand, x2: Operand, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """Return the sum of products over pairs of axes: those that are left of x1, then those of x2.

    Args:
        x1: any rank.
        x2: any rank.
        axes: how many last axes of x1 meet as many first ones of x2; or the axes of x1 and those of x2, pair by pair.

    >>> tensordot(np.ones((2, 3, 5)), np.ones((5, 3, 7)), axes=((1, 2), (1, 0))).shape
    Dim(2, 7)

    Raises:
        ShapeError: extents of a pair differ, or an axis is not there.
        ArgumentError: an axis stands twice, or the numbers of axes differ.
        DTypeError: bool, or text.
    """
    a, b = _numbers("tensordot", x1, x2)
    mine, theirs = _contracted(axes, a, b)
    for i, j in zip(mine, theirs, strict=True):
        if a.shape[i] != b.shape[j]:
            relation = f"axis {i} of x1 {Dim(a.shape)} has {a.shape[i]}, axis {j} of x2 {Dim(b.shape)} has {b.shape[j]}"
            raise ShapeError(f"tensordot: {relation}", hint="the axes of a pair must have the same extent")
    left = [i for i in range(a.ndim) if i not in mine]
    right = [j for j in range(b.ndim) if j not in theirs]
    dims = (*(a.shape[i] for i in left), *(b.shape[j] for j in right))
    inner = math.prod(a.shape[i] for i in mine)
    first = a.transpose(*left, *mine).reshape(math.prod(a.shape[i] for i in left), inner)
    second = b.transpose(*theirs, *right).reshape(inner, math.prod(b.shape[j] for j in right))
    result = Tensor((first.shape[0], second.shape[1]), DataType.of(a))
    product_into(first, second, result.array)
    result.mark_written()
    result.resize(dims)
    return result


def vecdot(x1: Operand, x2: Operand, *, axis: int = -1) -> Tensor:
    """Return the sum of x1 * x2 along one axis; the other axes broadcast.

    >>> vecdot([[1, 2], [3, 4]], [10, 1]).plain().tolist()
    [12, 34]

    Raises:
        ShapeError: the axis has different extents, is not there, or the others do not broadcast.
        ArgumentError: the axis is not negative, so it does not name the same in both.
        DTypeError: bool, or text.
    """
    a, b = _numbers("vecdot", x1, x2)
    if axis >= 0 and a.ndim != b.ndim:
        message = f"vecdot: axis {axis} >= 0 counts from the front, but x1 has rank {a.ndim} and x2 rank {b.ndim}"
        raise ArgumentError(message, hint="count from the end: axis=-1 is the last")
    first, second = (np.moveaxis(one, Dim(one.shape).canonical_axis(axis), -1) for one in (a, b))
    if first.shape[-1] != second.shape[-1]:
        raise ShapeError(f"vecdot: axis {axis} has {first.shape[-1]} in x1 and {second.shape[-1]} in x2")
    batch = Dim(first.shape[:-1]).broadcast(second.shape[:-1])
    result = Tensor(batch, DataType.of(a))
    product_into(first[..., None, :], second[..., :, None], result.array[..., None, None])
    result.mark_written()
    return result


def outer(x1: Operand, x2: Operand) -> Tensor:
    """Return the matrix of all products x1[i] * x2[j] of two vectors.

    Raises:
        ShapeError: one has another rank than 1.
        DTypeError: bool, or text.
    """
    a, b = _numbers("outer", x1, x2)
    for name, array in (("x1", a), ("x2", b)):
        if array.ndim != 1:
            raise ShapeError(f"outer: {name} has rank {array.ndim} {Dim(array.shape)}, a vector has rank 1")
    return as_tensor(np.multiply.outer(a, b))


def einsum(subscripts: str, *operands: Operand) -> Tensor:
    """Return the sum of products that Einstein's notation names, such as `"bij,bjk->bik"`; ellipses broadcast.

    Several operands are contracted in an order that NumPy finds to be cheap. float16 and bfloat16 are computed in
    float32.

    >>> einsum("ij,j->i", [[1, 2], [3, 4]], [1, 10]).plain().tolist()
    [21, 43]

    Raises:
        ArgumentError: NumPy cannot read the subscripts, or they do not fit the operands.
        DTypeError: bool, or text.
    """
    arrays = _numbers("einsum", *operands)
    dtype = DataType.of(arrays[0]) if arrays else DataType.FLOAT
    wide = [_widened(array) for array in arrays]
    try:
        result = np.einsum(subscripts, *wide, optimize=True)
    except (ValueError, TypeError, IndexError) as error:
        shapes = ", ".join(str(Dim(array.shape)) for array in arrays)
        raise ArgumentError(f"einsum: {subscripts!r} with {shapes}: {error}", hint="like 'ij,jk->ik'") from error
    return _rounded(result, dtype)


def _contracted(axes: int | tuple[Sequence[int], Sequence[int]], a: Array, b: Array) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ArgumentError(f"tensordot: axes = {axes}, x1 has rank {a.ndim} and x2 rank {b.ndim}")
        return list(range(a.ndim - axes, a.ndim)), list(range(axes))
    mine, theirs = ([Dim(one.shape).canonical_axis(i) for i in some] for one, some in zip((a, b), axes, strict=True))
    if len(mine) != len(theirs) or len(set(mine)) != len(mine) or len(set(theirs)) != len(theirs):
        raise ArgumentError(f"tensordot: axes {mine} of x1 and {theirs} of x2 are no pairs", hint="name each axis once")
    return mine, theirs


# -- norms and the like ------------------------------------------------------------------------------------------------


def trace(x: Operand, *, offset: int = 0) -> Tensor:
    """Return the sum along the diagonal of the matrices in the last two axes; `offset` > 0 is above the main one.

    Integers are added in int64, floats keep their type.

    Raises:
        ShapeError: fewer than two axes.
        DTypeError: bool, or text.
    """
    (array,) = _numbers("trace", x)
    _need_axes("trace", array, 2)
    dtype = DataType.of(array) if DataType.of(array).is_float else DataType.INT64
    wide = _widened(array)
    return _rounded(wide.trace(offset, -2, -1, None if dtype.is_float else np.int64), dtype)


def vector_norm(x: Operand, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """Return (sum of |x| ** ord) ** (1 / ord) along axes; all by default.

    ord = inf is the largest, -inf the smallest magnitude, 0 the number of elements that are not 0.

    >>> vector_norm([3.0, 4.0]).plain().tolist()
    5.0

    Raises:
        ShapeError: an axis is not there.
        DTypeError: elements that are no floating-point numbers.
    """
    array = _floats("vector_norm", x)
    dims = Dim(array.shape)
    chosen = range(array.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    along = [dims.canonical_axis(one) for one in chosen]
    if len(set(along)) != len(along):
        raise ArgumentError(f"vector_norm: axes {tuple(chosen)} name one twice")
    left = [i for i in range(array.ndim) if i not in along]
    flat = _widened(array).transpose(*left, *along).reshape(*(dims[i] for i in left), -1) if array.size else None
    kept = [dims[i] for i in left]
    found = _norm_of_nothing(kept, ord) if flat is None else np.linalg.norm(flat, ord, axis=-1)
    shape = [1 if i in along else dims[i] for i in range(array.ndim)] if keepdims else kept
    return _rounded(np.asarray(found).reshape(shape), DataType.of(array))


def matrix_norm(x: Operand, *, keepdims: bool = False, ord: float | str | None = "fro") -> Tensor:
    """Return a norm of the matrices in the last two axes.

    Args:
        x: floats.
        keepdims: keep these axes with extent 1.
        ord: "fro" (root of the sum of squares), "nuc" (sum of singular values), 1 and -1 (largest and smallest sum of
            magnitudes of a column), inf and -inf (of a row), 2 and -2 (largest and smallest singular value).

    >>> matrix_norm([[3.0, 0.0], [0.0, -4.0]], ord="nuc").plain().tolist()
    7.0

    Raises:
        ShapeError: fewer than two axes, or an extent of 0 where a largest or smallest is asked for.
        ArgumentError: another ord.
        DTypeError: elements that are no floating-point numbers.
    """
    array = _floats("matrix_norm", x)
    _need_axes("matrix_norm", array, 2)
    if ord not in ("fro", "nuc", None, 1, -1, 2, -2, math.inf, -math.inf):
        raise ArgumentError(f"matrix_norm: ord = {ord!r} is not known", hint="'fro', 'nuc', 1, -1, 2, -2, inf or -inf")
    if 0 in array.shape[-2:] and ord not in ("fro", "nuc", None):
        raise ShapeError(f"matrix_norm: {Dim(array.shape)} has no elements to take the norm {ord} of")
    norm: Callable[..., Any] = np.linalg.norm  # the stub knows fewer kinds of ord than the function
    return _rounded(norm(_widened(array), ord, axis=(-2, -1), keepdims=keepdims), DataType.of(array))


def _norm_of_nothing(dims: Sequence[int], ord: float) -> Array:
    if 0 not in dims and ord < 0:
        raise ShapeError(f"vector_norm: no elements to take the norm {ord} of", hint="ord >= 0 is 0 there")
    return np.zeros(dims)


# -- operands ----------------------------------------------------------------------------------------------------------


def _numbers(who: str, *values: Operand) -> list[Array]:
    """Return the operands in their common type.

    Raises:
        DTypeError: one is bool or text.
    """
    arrays = [plain_operand(value, f"{who}: operand {i}") for i, value in enumerate(values)]
    types = [DataType.of(array) for array in arrays]
    if DataType.BOOL in types:
        position = types.index(DataType.BOOL)
        raise DTypeError(f"{who}: operand {position} is bool, which is no number", hint="cast it to int32, say")
    joint = types[0] if types else DataType.FLOAT
    for one in types[1:]:
        joint = promote(joint, one)
    return [array.astype(joint.numpy, copy=False) for array in arrays]


def _floats(who: str, x: Operand) -> Array:
    (array,) = _numbers(who, x)
    if not DataType.of(array).is_float:
        raise DTypeError(f"{who}: x is {DataType.of(array)}, a norm needs floating-point numbers", hint="cast it")
    return array


def _need_axes(who: str, array: Array, count: int) -> None:
    if array.ndim < count:
        raise ShapeError(f"{who}: x has rank {array.ndim} {Dim(array.shape)} < {count}")


def _widened(array: Array) -> Array:
    """Return floats of two bytes as float32, in which they are computed; all else as it is."""
    return array.astype(np.float32) if DataType.of(array).is_float and array.itemsize < 4 else array


def _rounded(result: Any, dtype: DataType) -> Tensor:
    with np.errstate(over="ignore"):
        return as_tensor(np.array(result, dtype.numpy))
