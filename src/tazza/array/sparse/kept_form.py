"""The CSR form of a COO matrix, kept from one product to the next: sorting takes far longer than multiplying.

It holds as long as rows and columns do. That their memory was not written to is known by its version; where somebody
else has a writable view of it, versions say nothing, and the elements are compared with a copy: one pass over memory,
where sorting takes some twenty. Values that changed are brought into the order that is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tazza.array.sparse.csr import CSR
from tazza.array.sparse.parts import Array, index_type, own, starts_of
from tazza.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tazza.array.sparse.coo import COO


class Seen:
    """A tensor as it was: tells whether it is still so."""

    __slots__ = ("_copy", "_generation", "_spec", "_storage", "_version")

    def __init__(self, tensor: Tensor) -> None:
        """Look at it, and copy it where its version would not tell."""
        storage = tensor.storage
        self._spec, self._storage = tensor.spec, storage
        self._version, self._generation = storage.version, storage.generation
        self._copy = _bits(tensor).copy() if storage.escaped else None

    def still(self, tensor: Tensor) -> bool:
        """Whether the tensor is what it was."""
        if tensor.spec is not self._spec or tensor.storage is not self._storage:
            return False
        if self._copy is not None:
            return np.array_equal(_bits(tensor), self._copy)
        storage = self._storage
        return (storage.version, storage.generation, storage.escaped) == (self._version, self._generation, False)


class KeptForm:
    """The form of one matrix, which products multiply with; nobody else gets it, so that nobody else writes to it.

    Immutable but for `csr`, which is replaced as a whole when values have changed.
    """

    __slots__ = ("_places", "_sorting", "_starts", "_values", "csr")

    def __init__(self, matrix: COO) -> None:
        """Sort the matrix."""
        self._places = Seen(matrix.rows), Seen(matrix.columns)
        self._sorting = sorting = matrix.sorting()
        kind = index_type(*matrix.shape, len(sorting.rows))
        columns = sorting.columns.astype(kind, copy=False)
        self._starts = own(starts_of(sorting.rows, matrix.shape[0], kind)), own(columns.copy())
        self._values, self.csr = self._with_values(matrix)

    def of(self, matrix: COO) -> CSR | None:
        """Return the form with the values of now; None where rows or columns have changed."""
        if not (self._places[0].still(matrix.rows) and self._places[1].still(matrix.columns)):
            return None
        if not self._values.still(matrix.values):
            self._values, self.csr = self._with_values(matrix)
        return self.csr

    def _with_values(self, matrix: COO) -> tuple[Seen, CSR]:
        seen = Seen(matrix.values)
        values = own(np.array(self._sorting.values_of(matrix)))
        return seen, CSR.made(matrix.shape, *self._starts, values)


def _bits(tensor: Tensor) -> Array:
    """Return the elements as integers: NaN equals itself then, and 0.0 is not -0.0."""
    array = tensor.plain()
    return array.view(f"u{array.itemsize}")
