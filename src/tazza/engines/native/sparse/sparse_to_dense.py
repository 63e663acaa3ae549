"""SparseToDense: rows added up by their indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import cast

from tazza.codegen.block import Slot, accepts_rows
from tazza.device import Context
from tazza.engines.native.sparse.gather import Form, part_sums
from tazza.operator import Launch, Operands, OpView, Spec, Unsupported, launcher
from tazza.ops.sparse.segment import check_rows
from tazza.ops.sparse.sparse_to_dense import SPARSE_TO_DENSE
from tazza.tensor import DataType, TensorSpec


@launcher(SPARSE_TO_DENSE, engine="native", accepts=accepts_rows)
def prepare_sparse_to_dense(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the sums."""
    del context
    indices, Y = cast("tuple[TensorSpec, TensorSpec]", (inputs[0], outputs[0]))
    if Y.dtype is not DataType.FLOAT:
        return Unsupported(f"it adds up float32, not {Y.dtype.label}")
    extents = 1, Y.shape[0], math.prod(Y.shape[1:])
    form, slots = Form(8 * indices.dtype.itemsize, Y.dtype.itemsize), (Slot("indices"), Slot("X"), Slot("Y"))

    def check(operands: Operands) -> None:
        check_rows(op, operands["indices"].array, extents[1], "indices")

    return replace(part_sums(extents, form, indices, slots), check=check)
