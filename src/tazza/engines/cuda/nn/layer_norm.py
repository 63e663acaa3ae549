"""LayerNorm, as a program of rows."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.engines.cuda.rows import rows_kernel
from tazza.operator import OpView, RowProgram
from tazza.operator.row_program import Lies
from tazza.ops.nn.layer_norm import layer_norms
from tazza.ops.reduce.moment import MOMENT_TOTALS
from tazza.ops.shape.axis import matrix_cut
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
    return RowProgram(
        matrix_cut(op, specs["X"].shape), MOMENT_TOTALS, row, {"Y": f"(X - mean) * inverse{affine}"}, lies
    )


for _made in layer_norms.schemas:
    rows_kernel(_made)(layer_norm_rows)
