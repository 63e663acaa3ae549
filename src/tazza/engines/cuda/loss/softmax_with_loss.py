"""SoftmaxWithLoss and its gradient, as programs of rows; labels that are probabilities included."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.nn.softmax import matrix_cut
from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import Cut, OpView, RowProgram, Total
from tazza.operator.row_program import Lies
from tazza.ops.loss.cross_entropy import NO_CLASS, NO_SHARES, PROBABILITY_MIN
from tazza.ops.loss.softmax_with_loss import SOFTMAX_WITH_LOSS, SOFTMAX_WITH_LOSS_GRADIENT, SUM_TOLERANCE
from tazza.tensor import TensorSpec

OUTSIDE = "logical_or(label < 0, label >= count)"
WRONG_SHARES = f"logical_or(least < 0, abs(shares - 1) >= {SUM_TOLERANCE})"


def _weight(op: OpView) -> str:
    """Return the text of what a row counts."""
    return "weights" if op.has_input("weights") else "1"


def _counted(op: OpView, rows: int) -> dict[str, Total]:
    """Return the sum of what rows count, which their losses are divided by."""
    return {"counted": Total("sum", "1" if op.average_by_batch_size else _weight(op))} if rows else {}


@rows_kernel(SOFTMAX_WITH_LOSS)
def softmax_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    """Shares of classes and the loss of each row; then the sum of these."""
    cut = matrix_cut(op, "X", specs["X"])
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
    sums = {"lost": Total("sum", f"{_weight(op)} * loss_of_row"), **_counted(op, cut.before)}
    lies: dict[str, Lies] = {} if op.label_prob else {"label": "row"}
    return (
        RowProgram(cut, totals, row, each, lies, wrong="bad", complaint=complaint, keeps=("loss_of_row",)),
        RowProgram(Cut(1, cut.before), sums, {"loss": "where(counted == 0, 0, scale * lost / counted)"}),
    )


@rows_kernel(SOFTMAX_WITH_LOSS_GRADIENT)
def gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    """What all rows count; then elements."""
    cut = matrix_cut(op, "P", specs["P"])
    if 0 in (cut.before, cut.along):
        return "there is no row, or no class"
    factor = {"factor": "where(counted == 0, 0, scale * dloss / counted)"}
    row = {"part": f"{_weight(op)} * factor"}
    lies: dict[str, Lies] = {"weights": "row", "factor": "one"}
    first = RowProgram(Cut(1, cut.before), _counted(op, cut.before), factor, lies={"dloss": "one"}, keeps=("factor",))
    if op.label_prob:
        return first, RowProgram(cut, row=row, each={"dX": "(P - label) * part"}, lies=lies)
    row |= {"bad": OUTSIDE}
    each = {"dX": "where(index == label, P - 1, P) * part"}
    return first, RowProgram(cut, row=row, each=each, lies={**lies, "label": "row"}, wrong="bad", complaint=NO_CLASS)
