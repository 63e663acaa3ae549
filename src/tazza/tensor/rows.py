"""Some rows of a dense tensor: what the gradient of a lookup is.

The same type is used in two ways. In a graph, the gradient of a blob of which only some rows were read is a
`RowSlices[str]`: the names of the blobs that will hold indices and values (Caffe2: `GradientSlice`). Of tensors,
`RowSlices[Tensor]` is the gradient itself; `fetched` makes the latter of the former. What is computed with tensors of
rows lies above this floor (`attached.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tazza.data_class import dataclass
from tazza.tensor.attached import ATTACHED
from tazza.tensor.blob import blob_type
from tazza.tensor.tensor import Tensor

T = TypeVar("T")


@blob_type("tazza::RowSlices", serialized="tazza.RowSlices")
@dataclass(frozen=True, slots=True)
class RowSlices(Generic[T]):
    """`values[i]` (W ...) belongs to row `indices[i]` of a tensor (R, W ...); a row that occurs twice is the sum.

    Of names, any; of tensors, make them with `row_slices`, which checks them.

    >>> import numpy as np; from tazza.array.sparse.rows import row_slices
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
        return ATTACHED["row_slices"](fetch(self.indices), fetch(self.values))

    def coalesce(self: RowSlices[Tensor]) -> RowSlices[Tensor]:
        """Return each row once, in ascending order; rows that occur more than once are summed up."""
        return ATTACHED["coalesced_rows"](self)

    def to_dense(self: RowSlices[Tensor], rows: int) -> Tensor:
        """Return the tensor of `rows` rows of which these are not 0.

        Raises:
            ShapeError: an index is not in [0, rows).
        """
        return ATTACHED["dense_of_rows"](self, rows)

    def add_to(self: RowSlices[Tensor], target: Tensor, factor: float = 1.0) -> None:
        """Do target[indices] += factor * values, row by row and each row once; a step of gradient descent, say.

        Raises:
            ShapeError: an index is outside of the target, or its rows have another shape.
            DTypeError: the target has another element type.
        """
        ATTACHED["add_rows"](self, target, factor)

    def __add__(self: RowSlices[Tensor], other: RowSlices[Tensor]) -> RowSlices[Tensor]:
        """Return both one after the other, as the gradients of a blob that is read twice are added up.

        Raises:
            ShapeError: their rows have different shapes.
            DTypeError: they have different element types.
        """
        return ATTACHED["joined_rows"](self, other)
