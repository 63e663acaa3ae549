"""SparseToDense: as the gradient of a gather."""

from __future__ import annotations

import math

from tazza.codegen.block import Slot
from tazza.engines.cuda.sparse.gather import Parts
from tazza.engines.cuda.translated import Specs, translated
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.sparse.sparse_to_dense import SPARSE_TO_DENSE


@translated(SPARSE_TO_DENSE, floats={"X"})
def sparse_to_dense(op: OpView, specs: Specs) -> Launch | Unsupported:
    """Compile the sums, where `like` says how many rows there are."""
    if not op.has_input("like"):
        return Unsupported("its indices say how many rows there are")
    indices, X, Y = specs["indices"], specs["X"], specs["Y"]
    parts = Parts(1, Y.shape[0], math.prod(Y.shape[1:]), indices.size, X.dtype, 8 * indices.dtype.itemsize)
    return parts.sums({"indices": Slot("indices"), "source": Slot("X"), "target": Slot("Y")})
