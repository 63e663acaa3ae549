"""FusedFC: a layer with a sum, a rectifier or both behind it, by one call of cuBLASLt."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.codegen.block import Slot
from tazza.codegen.prepare import flat
from tazza.engines.cublas import KIND, NAME, cublas_kernel
from tazza.engines.cublas.layer import LayerLaunch
from tazza.engines.cublas.nn.fc import check_product, matrix_extents
from tazza.engines.cublas.product import ProductLaunch
from tazza.operator import Launch, OpView, Unsupported, kernel_key
from tazza.operator.choice import EPILOGUES
from tazza.ops.nn.fused import FUSED_FC, epilogue_of, sum_and_relu
from tazza.tensor import DataType, TensorSpec


@cublas_kernel(FUSED_FC)
def fused_fc(op: OpView, X: TensorSpec, b: TensorSpec, specs: Mapping[str, TensorSpec]) -> Launch:
    (N, K), M = matrix_extents(op, "axis", "X", X), b.size
    check_product(flat(specs), (N, K, M))
    found = sum_and_relu(epilogue_of(op))
    if found is None or found.operands != op.operands:
        raise Unsupported(f"no product has the epilogue {op.epilogue!r}")
    if 0 in (N, M):
        return ProductLaunch(X.dtype, ())
    if X.dtype is DataType.DOUBLE or K == 0:
        raise Unsupported("float64, or sums of nothing")
    return LayerLaunch(X.dtype, (N, M, K), operand=Slot("S", 0) if found.operands else None, rectified=found.rectified)


EPILOGUES.register(
    kernel_key(FUSED_FC.type, NAME, KIND), lambda found: sum_and_relu(found) is not None, help="rectifiers"
)
