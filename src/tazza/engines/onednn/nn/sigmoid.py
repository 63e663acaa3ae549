"""Sigmoid, Swish and their gradients; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import elementwise
from tazza.ops.nn.sigmoid import SIGMOID, SIGMOID_GRADIENT, SWISH, SWISH_GRADIENT

elementwise(__name__, SIGMOID, "eltwise_logistic")
elementwise(__name__, SIGMOID_GRADIENT, "eltwise_logistic_use_dst_for_bwd")
elementwise(__name__, SWISH, "eltwise_swish", 1.0)
elementwise(__name__, SWISH_GRADIENT, "eltwise_swish", 1.0)
