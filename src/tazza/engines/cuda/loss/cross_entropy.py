"""LabelCrossEntropy and its gradient, as programs of rows."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import Cut, OpView, RowProgram, Total
from tazza.ops.loss.cross_entropy import (
    LABEL_CROSS_ENTROPY,
    LABEL_CROSS_ENTROPY_GRADIENT,
    NO_CLASS,
    OUTSIDE,
    PROBABILITY_MIN,
)
from tazza.tensor import TensorSpec


def _rows(specs: Mapping[str, TensorSpec]) -> Cut | str:
    rows = specs["label"].size
    if 0 in (rows, specs["X"].size):
        return "there is no row, or no class"
    return Cut(rows, specs["X"].size // rows)


@rows_kernel(LABEL_CROSS_ENTROPY)
def cross_entropy_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """The share of the label, and its logarithm."""
    del op
    cut = _rows(specs)
    if isinstance(cut, str):
        return cut
    row = {"Y": f"-log(max(own, {PROBABILITY_MIN}))", "bad": OUTSIDE}
    totals = {"own": Total("sum", "where(index == label, X, 0)")}
    return RowProgram(cut, totals, row, lies={"label": "row"}, wrong="bad", complaint=NO_CLASS)


@rows_kernel(LABEL_CROSS_ENTROPY_GRADIENT)
def gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """One number in each row that is not 0."""
    del op
    cut = _rows(specs)
    if isinstance(cut, str):
        return cut
    each = {"dX": f"where(index == label, -dY / max(X, {PROBABILITY_MIN}), 0)"}
    return RowProgram(
        cut, row={"bad": OUTSIDE}, each=each, lies={"label": "row", "dY": "row"}, wrong="bad", complaint=NO_CLASS
    )
