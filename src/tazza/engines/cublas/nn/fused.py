"""FusedFC: a layer with a sum, a rectifier or both behind it, by one call of cuBLASLt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import Slot, accepts_rows
from tazza.device import Context
from tazza.engines.cublas import KIND, NAME
from tazza.engines.cublas.layer import LayerLaunch
from tazza.engines.cublas.nn.fc import matrix_extents, refusal
from tazza.engines.cublas.product import ProductLaunch
from tazza.operator import Launch, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.choice import EPILOGUES
from tazza.ops.nn.fused import FUSED_FC, epilogue_of, sum_and_relu
from tazza.tensor import DataType, TensorSpec


@launcher(FUSED_FC, engine=NAME, device=KIND, accepts=accepts_rows)
def prepare_fused_fc(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    del context
    X = cast("TensorSpec", inputs[0])
    N, K = matrix_extents(op, "axis", "X", X)
    M = cast("TensorSpec", inputs[2]).size
    reason = refusal([*inputs, *outputs], (N, K, M))
    if reason is not None:
        return reason
    found = sum_and_relu(epilogue_of(op))
    if found is None or found.operands != op.operands:
        return Unsupported(f"no product has the epilogue {op.epilogue!r}")
    if 0 in (N, M):
        return ProductLaunch(X.dtype, ())
    if X.dtype is DataType.DOUBLE or K == 0:
        return Unsupported("float64, or sums of nothing")
    return LayerLaunch(X.dtype, (N, M, K), operand=Slot("S", 0) if found.operands else None, rectified=found.rectified)


EPILOGUES.register(
    kernel_key(FUSED_FC.type, NAME, KIND), lambda found: sum_and_relu(found) is not None, help="rectifiers"
)
