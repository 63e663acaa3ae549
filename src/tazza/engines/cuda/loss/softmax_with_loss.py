"""SoftmaxWithLoss, as programs of rows; labels that are probabilities included."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import Cut, OpView, RowProgram, Total
from tazza.operator.row_program import Lies
from tazza.ops.loss.cross_entropy import NO_CLASS, NO_SHARES, OUTSIDE, PROBABILITY_MIN
from tazza.ops.loss.softmax_with_loss import SOFTMAX_WITH_LOSS, SUM_TOLERANCE, counted, weight_of
from tazza.ops.shape.axis import matrix_cut
from tazza.tensor import TensorSpec

WRONG_SHARES = f"logical_or(least < 0, abs(shares - 1) >= {SUM_TOLERANCE})"


@rows_kernel(SOFTMAX_WITH_LOSS)
def softmax_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    """Shares of classes and the loss of each row; then the sum of these."""
    cut = matrix_cut(op, specs["X"].shape)
    if 0 in (cut.before, cut.along):
        return "there is no row, or no class"
    totals = {"most": Total("max", "X"), "powers": Total("sum", "exp(X - most)")}
    share = f"max(exp(X - most) * share, {PROBABILITY_MIN})"
    if op.label_prob:
        totals["lost"] = Total("sum", f"-label * log({share})")
        totals |= {"shares": Total("sum", "label"), "least": Total("min", "label")}
        row = {"share": "1 / powers", "loss_of_row": "lost", "bad": WRONG_SHARES}
    else:
        totals["own"] = Total("sum", "where(index == label, X - most, 0)")
        row = {"share": "1 / powers", "loss_of_row": "log(powers) - own", "bad": OUTSIDE}
    each = {"P": "exp(X - most) * share"}
    complaint = NO_SHARES if op.label_prob else NO_CLASS
    sums = {"lost": Total("sum", f"{weight_of(op)} * loss_of_row"), **counted(op)}
    lies: dict[str, Lies] = {} if op.label_prob else {"label": "row"}
    return (
        RowProgram(cut, totals, row, each, lies, wrong="bad", complaint=complaint, keeps=("loss_of_row",)),
        RowProgram(Cut(1, cut.before), sums, {"loss": "where(counted == 0, 0, scale * lost / counted)"}),
    )
