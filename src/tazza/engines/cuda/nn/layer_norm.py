"""LayerNorm and its gradient, as programs of rows."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.nn.softmax import matrix_cut
from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import Cut, OpView, RowProgram, Total
from tazza.operator.row_program import Lies
from tazza.ops.nn.layer_norm import LAYER_NORM_GRADIENT, layer_norms
from tazza.ops.reduce.moment import MOMENT_TOTALS
from tazza.tensor import TensorSpec


def layer_norm_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    """Mean and deviation of a row; what lies within `epsilon` of them comes out near 0."""
    row = {
        "mean": "total / count",
        "std": "sqrt(max(squares - rest * rest / count, 0) / count + epsilon)",
        "inverse": "1 / std",
    }
    affine = " * gamma + beta" if op.elementwise_affine else ""
    lies: dict[str, Lies] = {"gamma": "along", "beta": "along"}
    return RowProgram(matrix_cut(op, "X", specs["X"]), MOMENT_TOTALS, row, {"Y": f"(X - mean) * inverse{affine}"}, lies)


for _made in layer_norms.schemas:
    rows_kernel(_made)(layer_norm_rows)


@rows_kernel(LAYER_NORM_GRADIENT)
def gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...]:
    """Of columns, which are summed over rows, where parameters were there; then of rows."""
    cut = matrix_cut(op, "X", specs["X"])
    slope = "dY * gamma" if op.elementwise_affine else "dY"
    totals = {"slopes": Total("sum", slope), "dots": Total("sum", f"{slope} * (X - mean)")}
    row = {
        "inverse": "1 / std",
        "middle": "slopes * inverse / count",
        "part": "dots * inverse * inverse * inverse / count",
    }
    each = {"dX": f"{slope} * inverse - middle - (X - mean) * part"}
    last = RowProgram(cut, totals, row, each, {"mean": "row", "std": "row", "gamma": "along"})
    if not op.elementwise_affine:
        return (last,)
    columns = {"dgamma": Total("sum", "dY * (X - mean) / std"), "dbeta": Total("sum", "dY")}
    across = Cut(1, cut.before, cut.along)
    return RowProgram(across, columns, lies={"mean": "along", "std": "along"}), last
