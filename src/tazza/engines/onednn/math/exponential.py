"""Powers: Sqrt, Sqr; any layout that all operands share. Its Cube is that of any power, slower than two products."""

from __future__ import annotations

from tazza.engines.onednn.eltwise import elementwise
from tazza.ops.math.exponential import powers

elementwise(__name__, powers["Sqrt"], "eltwise_sqrt")
elementwise(__name__, powers["Sqr"], "eltwise_square")
