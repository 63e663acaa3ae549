"""Sums of whole tensors with a rectifier behind them: SumRelu. All tensors of one operator have one shape."""

from __future__ import annotations

from tazza.operator import blob, formula, fused, not_written
from tazza.ops.math.sum import SUM, sum_text
from tazza.ops.nn.relu import RELU
from tazza.tensor import DataType

SUM_RELU = fused(
    "SumRelu",
    SUM,
    RELU,
    doc="Y = max(X0 + X1 + ..., 0).",
    inputs=[blob("X", frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.INT32}), variadic=True)],
    no_gradient=not_written("Caffe2 has none"),
    example="""
    >>> run("SumRelu", [1.0, 2.0], [10.0, -20.0])
    array([11.,  0.], dtype=float32)
    """,
)

formula(SUM_RELU, lambda op: {"Y": f"relu({sum_text(op)})"})
