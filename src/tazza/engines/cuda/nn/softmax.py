"""Softmax and its gradient, as programs of rows."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import OpView, RowProgram, Total
from tazza.ops.nn.softmax import SOFTMAX, SOFTMAX_GRADIENT
from tazza.ops.shape.axis import matrix_cut
from tazza.tensor import TensorSpec


@rows_kernel(SOFTMAX)
def softmax_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    """The largest of a row, the sum of powers, and their shares."""
    totals = {"most": Total("max", "X"), "powers": Total("sum", "exp(X - most)")}
    share = {"share": "1 / powers"}
    return RowProgram(matrix_cut(op, specs["X"].shape), totals, share, {"Y": "exp(X - most) * share"})


@rows_kernel(SOFTMAX_GRADIENT)
def softmax_gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    """What all of a row have in common, and the differences from it."""
    return RowProgram(
        matrix_cut(op, specs["Y"].shape), {"shared": Total("sum", "Y * dY")}, each={"dX": "(dY - shared) * Y"}
    )
