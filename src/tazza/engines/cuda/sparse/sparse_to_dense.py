"""SparseToDense: as the gradient of a gather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import Slot, accepts_rows
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.sparse.gather import Parts
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.sparse.sparse_to_dense import SPARSE_TO_DENSE
from tazza.tensor import DataType, TensorSpec


@launcher(SPARSE_TO_DENSE, engine=KIND, device=KIND, accepts=accepts_rows)
def prepare_sparse_to_dense(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the sums, where `like` says how many rows there are."""
    del context
    indices, X = cast("Sequence[TensorSpec]", inputs[:2])
    Y = cast("TensorSpec", outputs[0])
    if not op.has_input("like"):
        return Unsupported("its indices say how many rows there are")
    if X.dtype is not DataType.FLOAT:
        return Unsupported(f"it adds up float32, not {X.dtype.label}")
    parts = Parts(1, Y.shape[0], math.prod(Y.shape[1:]), indices.size, X.dtype, 8 * indices.dtype.itemsize)
    return parts.sums({"indices": Slot("indices"), "source": Slot("X"), "target": Slot("Y")})
