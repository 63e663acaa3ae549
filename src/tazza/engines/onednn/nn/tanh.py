"""Tanh and its gradient; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import elementwise
from tazza.ops.nn.tanh import TANH, TANH_GRADIENT

elementwise(__name__, TANH, "eltwise_tanh")
elementwise(__name__, TANH_GRADIENT, "eltwise_tanh_use_dst_for_bwd")
