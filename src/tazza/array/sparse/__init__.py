"""Sparse tensors: matrices as COO and CSR, and gradients as some rows of a dense tensor.

>>> import numpy as np
>>> from tazza.array.sparse import CSR
>>> A = CSR.from_dense(np.float32([[0, 2, 0], [0, 0, 3]])); A.nnz, (A @ np.float32([1, 10, 100])).numpy()
(2, array([ 20., 300.], dtype=float32))

The names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tazza.runtime.lazy_names import lazy_names

if TYPE_CHECKING:
    from tazza.array.sparse.arithmetic import sparse_add, sparse_divide, sparse_multiply
    from tazza.array.sparse.coo import COO
    from tazza.array.sparse.csr import CSR
    from tazza.array.sparse.matrix import SparseMatrix
    from tazza.array.sparse.product import explain_sparse_matmul, sparse_matmul
    from tazza.array.sparse.rows import row_slices
    from tazza.tensor.rows import RowSlices

__all__ = [
    "COO",
    "CSR",
    "RowSlices",
    "SparseMatrix",
    "explain_sparse_matmul",
    "row_slices",
    "sparse_add",
    "sparse_divide",
    "sparse_matmul",
    "sparse_multiply",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        ".arithmetic": ("sparse_add", "sparse_divide", "sparse_multiply"),
        ".coo": ("COO",),
        ".csr": ("CSR",),
        ".matrix": ("SparseMatrix",),
        ".product": ("explain_sparse_matmul", "sparse_matmul"),
        ".rows": ("row_slices",),
        "tazza.tensor.rows": ("RowSlices",),
    },
)
