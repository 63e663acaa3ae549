"""Float16ConstantFill and Float16UniformFill: what Caffe2 drew; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError
from tazza.operator import operator_def, run_op
from tazza.proto import DeviceOption
from tests.check import Case, check_op, on_all_engines, run

CASES = [
    Case("Float16ConstantFill", [], np.full((2, 3), 0.1, np.float16), {"shape": [2, 3], "value": 0.1}),
    Case("Float16ConstantFill", [], np.zeros(0, np.float16), {"shape": [0]}, id="nothing"),
    Case("Float16ConstantFill", [], np.array(np.inf, np.float16), {"value": 70000.0}, id="too large"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_equal_to_caffe2() -> None:
    device = DeviceOption(random_seed=7)
    (Y,), _ = run(operator_def("Float16UniformFill", [], ["Y"], device=device, shape=[6], min=-1.0, max=2.0), [])
    drawn = [0.60498046875, -0.403564453125, 0.9775390625, 0.970703125, -0.3017578125, 0.275146484375]
    np.testing.assert_array_equal(Y, np.array(drawn, np.float16))


@pytest.mark.parametrize("limits", [{"min": 2.0, "max": 2.0}, {"min": 3.0}])
def test_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="is not below max"):
        run_op("Float16UniformFill", shape=[2], **limits)
