"""Accuracy, as programs of rows."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import Cut, OpView, RowProgram, Total
from tazza.ops.loss.accuracy import ACCURACY
from tazza.tensor import TensorSpec


@rows_kernel(ACCURACY)
def accuracy_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    """How many scores rank before that of the label, row by row; then the part of rows where these are few."""
    del op
    N, D = specs["X"].shape
    if 0 in (N, D):
        return "there is no row, or no class"
    totals = {
        "own": Total("sum", "where(index == label, X, 0)"),
        "named": Total("sum", "where(index == label, 1, 0)"),
        "ahead": Total("sum", "where(logical_or(X > own, logical_and(X == own, index < label)), 1, 0)"),
    }
    hit = "where(logical_and(named == 1, logical_and(ahead < top_k, own == own)), 1, 0)"
    return (
        RowProgram(Cut(N, D), totals, {"hit": hit}, lies={"label": "row"}, keeps=("hit",)),
        RowProgram(Cut(1, N), {"hits": Total("sum", "hit")}, {"accuracy": "hits / count"}),
    )
