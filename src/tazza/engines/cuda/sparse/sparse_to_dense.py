"""SparseToDense: as the gradient of a gather."""

from __future__ import annotations

import math

from tazza.codegen.block import Slot
from tazza.engines.cuda.sparse.gather import Parts
from tazza.engines.cuda.translated import translated
from tazza.operator import Launch, Unsupported
from tazza.ops.sparse.sparse_to_dense import SPARSE_TO_DENSE
from tazza.tensor import TensorSpec


@translated(SPARSE_TO_DENSE, float32={"X"})
def sparse_to_dense(indices: TensorSpec, X: TensorSpec, like: TensorSpec | None, Y: TensorSpec) -> Launch:
    """Compile the sums, where `like` says how many rows there are."""
    if like is None:
        raise Unsupported("its indices say how many rows there are")
    parts = Parts(1, Y.shape[0], math.prod(Y.shape[1:]), indices.size, X.dtype, 8 * indices.dtype.itemsize)
    return parts.sums({"indices": Slot("indices"), "source": Slot("X"), "target": Slot("Y")})
