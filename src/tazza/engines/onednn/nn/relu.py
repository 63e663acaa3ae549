"""Rectifiers: Relu, for which a NaN becomes 0, and its gradient; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import accepts_narrow
from tazza.engines.onednn.eltwise import elementwise
from tazza.ops.nn.relu import RELU, RELU_GRADIENT

elementwise(__name__, RELU, "eltwise_relu", accepts=accepts_narrow)
elementwise(__name__, RELU_GRADIENT, "eltwise_relu_use_dst_for_bwd")
