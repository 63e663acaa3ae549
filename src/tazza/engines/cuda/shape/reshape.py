"""The same elements in another shape, or for other readers: the device copies the bytes of X, which is row-major."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import accepts_rows, accepts_rows_but
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.operator import Call, CallChain, Launch, Operands, OpView, Spec, Unsupported, launcher
from tazza.operator.split_call import SplitCall
from tazza.ops.shape.copy import STOP_GRADIENT
from tazza.ops.shape.prepend_dim import MERGE_DIM, PREPEND_DIM
from tazza.ops.shape.reshape import EXPAND_DIMS, FLATTEN, FLATTEN_TO_VEC, RESHAPE, RESIZE_LIKE, SQUEEZE
from tazza.ops.sparse.sparse_to_dense import ENSURE_DENSE
from tazza.tensor import DataType, TensorSpec


@dataclass(frozen=True, slots=True)
class RegroupLaunch:
    """Copies X to Y, which has another shape; nothing is done where Y lies over X."""

    scratch_bytes: int = 0
    capturable: bool = True

    def bind(self, operands: Operands) -> Call:
        """Return the copy, and what tells the former shape where that is asked for."""
        X, Y, context, old = operands["X"], operands["Y"], operands.context, operands.tensors.get("old_shape")
        calls: list[Callable[[], object]] = []
        if X.address != Y.address and X.size:
            source = X.view(Y.shape)
            calls.append(lambda: context.copy(source, Y))
        copies = CallChain(tuple(calls))
        if old is None:
            return copies
        sizes = np.array(X.shape, old.dtype.numpy)
        return SplitCall(lambda: old.assign(sizes), copies)


@launcher(RESHAPE, engine=KIND, device=KIND, accepts=accepts_rows_but({"new_shape"}))
@launcher(FLATTEN, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(FLATTEN_TO_VEC, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(SQUEEZE, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(EXPAND_DIMS, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(RESIZE_LIKE, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(PREPEND_DIM, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(MERGE_DIM, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(STOP_GRADIENT, engine=KIND, device=KIND, accepts=accepts_rows)
@launcher(ENSURE_DENSE, engine=KIND, device=KIND, accepts=accepts_rows)
def prepare_regroup(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Let the context copy X."""
    del op, context, outputs
    if cast("TensorSpec", inputs[0]).dtype is DataType.STRING:
        return Unsupported("strings do not lie on a device")
    return RegroupLaunch()
