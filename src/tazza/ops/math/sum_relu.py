"""Sums of whole tensors with a rectifier behind them: SumRelu. All tensors of one operator have one shape."""

from __future__ import annotations

from tazza.operator import blob, fused, not_written
from tazza.ops.math.sum import SUM
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
