"""Operators of libraries that are not there: nets that name them are read, and a run says why it ends."""

from __future__ import annotations

import numpy as np

from tazza.errors import UnavailableError
from tazza.graph.text import parse_net
from tazza.operator import find_schema, operator_def
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

X = {"x": np.arange(3, dtype=np.float32)}
ATEN = operator_def("ATen", ["x"], ["y"], operator="cos", some_argument=3)
ONNX = operator_def("Onnxifi", ["x"], ["y"], onnx_model="", initializers=["w", "w"])
DUMMY = operator_def("Caffe2ModuleTestDynamicDummy")
TT = operator_def("TTLinearGradient", ["x"], ["y"])
CASES = [
    Sequence(
        "each",
        (
            Step(ATEN, {}, X, UnavailableError, "ATen: its function is one of PyTorch"),
            Step(ONNX, {}, {}, UnavailableError, "Onnxifi: its model runs on a device"),
            Step(DUMMY, {}, {}, UnavailableError, "it belongs to a compiled module"),
            Step(TT, {}, {}, UnavailableError, "Caffe2 declared it and never wrote it"),
        ),
    )
]


@on_sequences(CASES)
def test_why(case: Sequence) -> None:
    check_op(case)


def test_nets_that_name_them_can_be_read() -> None:
    assert find_schema("ATen").unknown_arguments(ATEN) == ["some_argument"]
    assert parse_net("y = ATen(x; operator='cos')").op[0].type == "ATen"
