"""The gradient of Normalize, as a program of rows."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import OpView, RowProgram, Total
from tazza.ops.nn.normalize import DIVISOR, NORMALIZE_GRADIENT, SHORTEST, SQUARES, vectors_cut
from tazza.tensor import TensorSpec


@rows_kernel(NORMALIZE_GRADIENT)
def gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """The length of a vector, and what its slope has in its direction."""
    cut = vectors_cut(op, specs["X"])
    if isinstance(cut, str):
        return cut
    totals = {**SQUARES, "dots": Total("sum", "X * small * dY")}
    row = {**DIVISOR, "part": f"where(length < {SHORTEST}, 0, dots / small / divisor / divisor)"}
    return RowProgram(cut, totals, row, {"dX": "(dY - X * part) / divisor"})
