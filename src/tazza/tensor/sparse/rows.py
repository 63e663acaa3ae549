"""Some rows of a dense tensor: what the gradient of a lookup is.

The same type is used in two ways. In a graph, the gradient of a blob of which only some rows were read is a
`RowSlices[str]`: the names of the blobs that will hold indices and values (Caffe2: `GradientSlice`). Of tensors,
`RowSlices[Tensor]` is the gradient itself; `fetched` makes the latter of the former.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from tazza.errors import DTypeError, ShapeError
from tazza.tensor.blob import blob_type
from tazza.tensor.dim import Dim
from tazza.tensor.tensor import Tensor

T = TypeVar("T")


@blob_type("tazza::RowSlices", serialized="tazza.RowSlices")
@dataclass(frozen=True, slots=True)
class RowSlices(Generic[T]):
    """`values[i]` (W ...) belongs to row `indices[i]` of a tensor (R, W ...); a row that occurs twice is the sum.

    Of names, any; of tensors, make them with `row_slices`, which checks them.

    >>> g = row_slices([2, 0, 2], np.float32([[1, 2], [3, 4], [10, 20]]))
    >>> g.to_dense(3).numpy().tolist(), g.coalesce().indices.numpy().tolist()
    ([[3.0, 4.0], [0.0, 0.0], [11.0, 22.0]], [0, 2])
    """

    indices: T
    values: T

    def fetched(self: RowSlices[str], fetch: Callable[[str], Any]) -> RowSlices[Tensor]:
        """Return the tensors of two blobs; `fetch` gives what a name stands for, as `Workspace.fetch` does.

        Raises:
            ShapeError: there are not as many values as indices.
            DTypeError: indices that are no integers, values that are no numbers.
        """
        return row_slices(fetch(self.indices), fetch(self.values))

    def coalesce(self: RowSlices[Tensor]) -> RowSlices[Tensor]:
        """Return each row once, in ascending order; rows that occur more than once are summed up."""
        from tazza.tensor.sparse.parts import own

        indices = self.indices.plain()
        if bool(np.all(indices[1:] > indices[:-1])):
            return self
        order = np.argsort(indices, kind="stable")
        ordered = indices[order]
        first = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        return RowSlices(own(ordered[first]), _sum_groups(self.values, order, np.flatnonzero(first)))

    def to_dense(self: RowSlices[Tensor], rows: int) -> Tensor:
        """Return the tensor of `rows` rows of which these are not 0.

        Raises:
            ShapeError: an index is not in [0, rows).
        """
        from tazza.tensor.sparse.task import check_indices

        check_indices("row", self.indices.plain(), rows)
        dense = Tensor((rows, *self.values.shape[1:]), self.values.dtype)
        dense.array[...] = 0
        single = self.coalesce()
        dense.array[single.indices.plain()] = single.values.plain()
        dense.mark_written()
        return dense

    def add_to(self: RowSlices[Tensor], target: Tensor, factor: float = 1.0) -> None:
        """Do target[indices] += factor * values, row by row and each row once; a step of gradient descent, say.

        Raises:
            ShapeError: an index is outside of the target, or its rows have another shape.
            DTypeError: the target has another element type.
        """
        from tazza.tensor.sparse.task import check_indices

        if target.dtype is not self.values.dtype:
            raise DTypeError(f"rows of {self.values.dtype} cannot be added to {target.spec}: types differ")
        if target.shape[1:] != self.values.shape[1:] or not target.shape:
            raise ShapeError(f"rows of {self.values.shape} cannot be added to {target.shape}: row shapes differ")
        check_indices("row", self.indices.plain(), target.shape[0])
        single = self.coalesce()
        step = single.values.plain()
        target.make_plain()
        target.array[single.indices.plain()] += step if factor == 1 else (step * factor).astype(step.dtype, copy=False)
        target.mark_written()

    def __add__(self: RowSlices[Tensor], other: RowSlices[Tensor]) -> RowSlices[Tensor]:
        """Return both one after the other, as the gradients of a blob that is read twice are added up.

        Raises:
            ShapeError: their rows have different shapes.
            DTypeError: they have different element types.
        """
        from tazza.tensor.sparse.parts import own, same_index_type

        if self.values.shape[1:] != other.values.shape[1:]:
            raise ShapeError(f"rows of {self.values.shape} and {other.values.shape} have different shapes")
        if self.values.dtype is not other.values.dtype:
            raise DTypeError(f"rows of {self.values.dtype} and of {other.values.dtype} are not added: types differ")
        indices = same_index_type(self.indices, other.indices)
        values = np.concatenate([self.values.plain(), other.values.plain()])
        return RowSlices(own(np.concatenate([one.plain() for one in indices])), own(values))


def row_slices(indices: Any, values: Any) -> RowSlices[Tensor]:
    """Return rows of a dense tensor; arrays are shared where possible.

    Indices of higher rank, as a lookup of many at once has them, are taken as one vector: indices (I ...), values
    (I ..., W ...).

    Raises:
        ShapeError: there are not as many values as indices.
        DTypeError: indices that are no integers, values that are no numbers.
    """
    from tazza.tensor.sparse.parts import as_tensor, index_tensor, plain, value_tensor

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
    from tazza.tensor.sparse.parts import index_type, own

    dense = tensor.plain()
    if dense.ndim == 0:
        raise ShapeError(f"{tensor.spec} of rank 0 has no rows")
    found = np.flatnonzero(np.any(dense.reshape(len(dense), -1) != 0, axis=1))
    return RowSlices(own(found.astype(index_type(len(dense)))), own(dense[found]))


def _sum_groups(values: Tensor, order: Any, firsts: Any) -> Tensor:
    """Return the sums of groups of rows: a product with a matrix of ones, one row for each group."""
    from tazza.tensor.sparse.csr import CSR
    from tazza.tensor.sparse.parts import index_type, own
    from tazza.tensor.sparse.product import sparse_matmul

    count, kind = len(order), index_type(len(order))
    rest = values.shape[1:]
    starts = np.append(firsts, count).astype(kind)
    ones = np.ones(count, values.dtype.numpy)
    groups = CSR.made(Dim((len(firsts), count)), own(starts), own(order.astype(kind)), own(ones))
    width = Dim(rest).numel
    total = sparse_matmul(groups, values.plain().reshape(count, width))
    return own(total.array.reshape(len(firsts), *rest))
