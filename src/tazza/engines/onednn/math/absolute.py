"""Abs, Negative, Reciprocal; any layout that all operands share."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import elementwise
from tazza.ops.math.absolute import ABS, NEGATIVE, RECIPROCAL

elementwise(__name__, ABS, "eltwise_abs")
# No estimate: a compiled one would leave denormals as they are, which what computes counts as 0.
elementwise(__name__, NEGATIVE, "eltwise_linear", -1.0, estimate_ns=None)
elementwise(__name__, RECIPROCAL, "eltwise_pow", 1.0, beta=-1.0)
