"""Computing with some rows of a dense tensor (`RowSlices`): each once, summed up, added to a tensor, made dense."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.array.sparse.csr import CSR
from tazza.array.sparse.parts import as_tensor, index_tensor, index_type, own, plain, same_index_type, value_tensor
from tazza.array.sparse.product import sparse_matmul
from tazza.array.sparse.task import check_indices
from tazza.errors import DTypeError, ShapeError
from tazza.tensor.attached import attached
from tazza.tensor.dim import Dim
from tazza.tensor.rows import RowSlices
from tazza.tensor.tensor import Tensor


@attached
def coalesced_rows(given: RowSlices[Tensor]) -> RowSlices[Tensor]:
    """See `RowSlices.coalesce`."""
    indices = given.indices.plain()
    if bool(np.all(indices[1:] > indices[:-1])):
        return given
    order = np.argsort(indices, kind="stable")
    ordered = indices[order]
    first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
    return RowSlices(own(ordered[first]), _sum_groups(given.values, order, np.flatnonzero(first)))


@attached
def dense_of_rows(given: RowSlices[Tensor], rows: int) -> Tensor:
    """See `RowSlices.to_dense`."""
    check_indices("row", given.indices.plain(), rows)
    dense = Tensor((rows, *given.values.shape[1:]), given.values.dtype)
    dense.array[...] = 0
    single = given.coalesce()
    dense.array[single.indices.plain()] = single.values.plain()
    dense.mark_written()
    return dense


@attached
def add_rows(given: RowSlices[Tensor], target: Tensor, factor: float) -> None:
    """See `RowSlices.add_to`."""
    if target.dtype is not given.values.dtype:
        raise DTypeError(f"rows of {given.values.dtype} cannot be added to {target.spec}: types differ")
    if target.shape[1:] != given.values.shape[1:] or not target.shape:
        raise ShapeError(f"rows of {given.values.shape} cannot be added to {target.shape}: row shapes differ")
    check_indices("row", given.indices.plain(), target.shape[0])
    single = given.coalesce()
    step = single.values.plain()
    target.make_plain()
    target.array[single.indices.plain()] += step if factor == 1 else (step * factor).astype(step.dtype, copy=False)
    target.mark_written()


@attached
def joined_rows(given: RowSlices[Tensor], other: RowSlices[Tensor]) -> RowSlices[Tensor]:
    """See `RowSlices.__add__`."""
    if given.values.shape[1:] != other.values.shape[1:]:
        raise ShapeError(f"rows of {given.values.shape} and {other.values.shape} have different shapes")
    if given.values.dtype is not other.values.dtype:
        raise DTypeError(f"rows of {given.values.dtype} and of {other.values.dtype} are not added: types differ")
    indices = same_index_type(given.indices, other.indices)
    values = np.concatenate([given.values.plain(), other.values.plain()])
    return RowSlices(own(np.concatenate([one.plain() for one in indices])), own(values))


@attached
def row_slices(indices: Any, values: Any) -> RowSlices[Tensor]:
    """Return rows of a dense tensor; arrays are shared where possible.

    Indices of higher rank, as a lookup of many at once has them, are taken as one vector: indices (I ...), values
    (I ..., W ...).

    Raises:
        ShapeError: there are not as many values as indices.
        DTypeError: indices that are no integers, values that are no numbers.
    """
    places, found = plain(indices), plain(values)
    lead, rest = found.shape[: places.ndim], found.shape[places.ndim :]
    if lead != places.shape or places.ndim == 0:
        raise ShapeError(f"values {Dim(found.shape)} do not begin with {Dim(places.shape)}, the shape of the indices")
    if places.ndim == 1:
        return RowSlices(index_tensor("indices", indices), value_tensor(values))
    rows = as_tensor(found.reshape(places.size, *rest))
    return RowSlices(index_tensor("indices", places.reshape(-1)), value_tensor(rows))


def rows_of_dense(tensor: Tensor) -> RowSlices[Tensor]:
    """Return the rows of a tensor that hold anything but 0.

    Raises:
        ShapeError: the tensor has no rows: its rank is 0.
    """
    dense = tensor.plain()
    if dense.ndim == 0:
        raise ShapeError(f"{tensor.spec} of rank 0 has no rows")
    found = np.flatnonzero(np.any(dense.reshape(len(dense), -1) != 0, axis=1))
    return RowSlices(own(found.astype(index_type(len(dense)))), own(dense[found]))


def _sum_groups(values: Tensor, order: Any, firsts: Any) -> Tensor:
    """Return the sums of groups of rows: a product with a matrix of ones, one row for each group."""
    count, kind = len(order), index_type(len(order))
    rest = values.shape[1:]
    starts = np.append(firsts, count).astype(kind)
    ones = np.ones(count, values.dtype.numpy)
    groups = CSR.made(Dim((len(firsts), count)), own(starts), own(order.astype(kind)), own(ones))
    width = Dim(rest).numel
    total = sparse_matmul(groups, values.plain().reshape(count, width))
    return own(total.array.reshape(len(firsts), *rest))
