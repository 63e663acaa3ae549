"""SparseToDense: rows added up by their indices."""

from __future__ import annotations

import math
from dataclasses import replace

from tazza.codegen.rows import rows_check
from tazza.engines.native import native
from tazza.engines.native.sparse.gather import Form, of_letters, part_sums
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.sparse.sparse_to_dense import SPARSE_TO_DENSE
from tazza.tensor import DataType, TensorSpec


@native(SPARSE_TO_DENSE)
def prepare_sparse_to_dense(op: OpView, indices: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile the sums."""
    if Y.dtype is not DataType.FLOAT:
        raise Unsupported(f"it adds up float32, not {Y.dtype.label}")
    extents = 1, Y.shape[0], math.prod(Y.shape[1:])
    form, slots = Form(8 * indices.dtype.itemsize, Y.dtype.itemsize), of_letters("indices", "X", "Y")
    return replace(part_sums(extents, form, indices, slots), check=rows_check(op, "indices", extents[1]))
