"""The same elements in another shape, or for other readers: the device copies the bytes of X, which is row-major."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.engines.cuda.translated import translated
from tazza.operator import Call, CallChain, Launch, Operands
from tazza.operator.split_call import SplitCall
from tazza.ops.shape.copy import STOP_GRADIENT
from tazza.ops.shape.prepend_dim import MERGE_DIM, PREPEND_DIM
from tazza.ops.shape.reshape import EXPAND_DIMS, FLATTEN, FLATTEN_TO_VEC, RESHAPE, RESIZE_LIKE, SQUEEZE
from tazza.ops.sparse.sparse_to_dense import ENSURE_DENSE


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


@translated(
    *(RESHAPE, FLATTEN, FLATTEN_TO_VEC, SQUEEZE, EXPAND_DIMS, RESIZE_LIKE, PREPEND_DIM, MERGE_DIM),
    *(STOP_GRADIENT, ENSURE_DENSE),
)
def regroup() -> Launch:
    """Let the context copy X."""
    return RegroupLaunch()
