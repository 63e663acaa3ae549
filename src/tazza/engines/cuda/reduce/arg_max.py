"""ArgMax and ArgMin, as programs of rows: the best element, then the first place where it stands."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import Cut, OpView, RowProgram, Total
from tazza.ops.reduce.arg_max import arg_axis, arg_extremes
from tazza.tensor import TensorSpec

COUNTED = 1 << 24
"""Places up to here are numbers of float32."""


def arg_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """The first best one; a NaN that stands first is that, and equal to none."""
    shape, dtype = specs["X"].shape, specs["X"].dtype
    if not dtype.is_float:
        return f"it compares float32, in which different {dtype.label} may be equal"
    cut = Cut.of(shape, [arg_axis(op, len(shape))])
    if isinstance(cut, str):
        return cut
    if not 0 < cut.along <= COUNTED:
        return f"it finds one of {COUNTED} places at most, there are {cut.along}"
    size = "X" if op.type == "ArgMax" else "-X"
    totals = {"best": Total("first_max", size), "place": Total("min", f"where({size} == best, index, {COUNTED})")}
    return RowProgram(cut, totals, {"Y": "where(best == best, place, 0)"})


for _made in arg_extremes.schemas:
    rows_kernel(_made)(arg_rows)
