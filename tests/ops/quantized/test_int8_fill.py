"""Fills with given integers."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError, ShapeError
from tazza.operator import run_op
from tazza.tensor import Int8Tensor, PerChannel
from tests.check import Case, check_op, on_all_engines

BYTES = np.array([[0, 1, 127], [128, 254, 255]], np.uint8)
WHOLE = np.array([[-1, 70000]], np.int32)
TO = {"Y_scale": 0.25, "Y_zero_point": 3}
MANY = {"Y_scales": [0.5, 2.0], "Y_zero_points": [128, 3]}
CASES = [
    Case("Int8GivenTensorFill", (), Int8Tensor(BYTES, 0.25, 3), {"shape": [2, 3], "values": BYTES.tobytes(), **TO}),
    Case("Int8GivenTensorFill", (), Int8Tensor(np.array([97], np.uint8), 1.0, 0), {"shape": [1], "values": b"a"}),
    Case(
        "Int8GivenTensorFill",
        (),
        Int8Tensor.of(BYTES, PerChannel(0, (0.5, 2.0), (128, 3))),
        {"shape": [2, 3], "values": BYTES.tobytes(), **MANY},
    ),
    Case("Int8GivenIntTensorFill", (), Int8Tensor(WHOLE, 0.25, 3), {"shape": [1, 2], "values": [-1, 70000], **TO}),
    Case(
        "Int8GivenIntTensorFill",
        (),
        Int8Tensor.of(WHOLE, PerChannel(1, (0.5, 2.0), (0, 0))),
        {"shape": [1, 2], "values": [-1, 70000], "Y_scales": [0.5, 2.0], "axis": 1},
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="2 values are given for the 3 elements"):
        run_op("Int8GivenTensorFill", shape=[3], values=b"ab")
    with pytest.raises(ShapeError, match="2 scales along axis 0"):
        run_op("Int8GivenTensorFill", shape=[3], values=b"abc", Y_scales=[1.0, 2.0])
    with pytest.raises(ArgumentError, match="2 scales with 1 zero points"):
        run_op("Int8GivenTensorFill", shape=[2], values=b"ab", Y_scales=[1.0, 2.0], Y_zero_points=[3])
