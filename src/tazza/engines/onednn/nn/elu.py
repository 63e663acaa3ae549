"""Exponential linear units: Elu; any layout.

EluGradient is not here: at Y = 0 oneDNN takes the slope of the negative side.
"""

from __future__ import annotations

from tazza.engines.onednn.eltwise import eltwise, eltwise_ns
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.operator import OpView
from tazza.ops.nn.elu import ELU
from tazza.tensor import TensorSpec


@onednn(ELU, empty="zero", batch_invariant=True, estimate_ns=eltwise_ns)
def elu(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X where X >= 0, else alpha * (exp(X) - 1)."""
    return eltwise(op, specs, "eltwise_elu", float(op.alpha))
