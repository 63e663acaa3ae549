"""The cost of operators that have a formula."""

from __future__ import annotations

from tazza.operator import find_schema, operator_def
from tazza.tensor import DataType, TensorSpec


def test_the_cost_of_a_formula() -> None:
    spec, schema = TensorSpec((2, 3), DataType.FLOAT), find_schema("LeakyReluGradient")
    cost = schema.infer_cost(schema.view(operator_def("LeakyReluGradient", ["y", "g"], ["x"])), [spec, spec], [spec])
    # a comparison, a product and a choice
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (3 * 6, 48, 24)
