"""Products on oneDNN: factors that lie in other ways, batches, epilogues in place."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tazza.tensor import channels_last
from tests.check import assert_close
from tests.engines.onednn.layouts import Relaid, blocked, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

A, B = numbers(2, 16, 3, 5), numbers(240, 7)
CASES = [
    Relaid("MatMul", [A, B]),
    Relaid("MatMul", [A, numbers(7, 32)], {"axis_a": 2, "trans_a": 1, "trans_b": 1}),
    Relaid("BatchMatMul", [A, numbers(2, 16, 5, 7)], images=(0, 1)),
    Relaid("BatchMatMul", [A, numbers(2, 16, 3, 7)], {"trans_a": 1}, images=(0, 1)),
    Relaid("BatchMatMul", [A, numbers(16, 7, 5)], {"trans_b": 1, "broadcast": 1}),
    Relaid("BatchMatMul", [A, numbers(7, 5)], {"trans_b": 1, "broadcast": 1}),
    Relaid("FusedMatMul", [A, B, numbers(2, 7)], {"epilogue": "relu(y + s0)", "operands": 1}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid) -> None:
    expected, _ = case.run("reference", row_major)
    for way in (row_major, channels_last, blocked):
        got, _ = case.run("onednn", way)
        assert_close(got[0], expected[0], slack=20)


@pytest.mark.parametrize("epilogue", ["relu(y + s0)", "y * s0", "s0 - y", "tanh(y) / s0 + s0"])
def test_in_place_over_an_operand(epilogue: str) -> None:
    inputs = [A, B, numbers(2, 7)]
    case = Relaid("FusedMatMul", inputs, {"epilogue": epilogue, "operands": 1}, images=(), in_place={0: 2})
    expected, _ = case.run("reference", row_major)
    got, _ = case.run("onednn", row_major)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-4)
