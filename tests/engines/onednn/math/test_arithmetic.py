"""Binary operators on oneDNN: layouts that operands share, and operands that are broadcast."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.math.arithmetic import ALGORITHMS
from tazza.tensor import channels_last
from tests.check import assert_close
from tests.engines.onednn.layouts import Relaid, blocked, check_ways, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

A, B = numbers(2, 19, 7, 6), np.abs(numbers(6, 7, 19, 2).transpose(3, 2, 1, 0)) + np.float32(0.5)
TYPES = list(ALGORITHMS)
CASES = [
    *(Relaid(type, [A, B], images=(0, 1)) for type in TYPES),
    *(Relaid(type, [A, B], images=(0, 1), in_place={0: 0}) for type in TYPES),
    *(Relaid(type, [A, B], images=(0, 1), in_place={0: 1}) for type in TYPES if type != "Div"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid) -> None:
    check_ways(case, [row_major, channels_last] if case.type == "Div" else [row_major, channels_last, blocked])


UNDER = {"broadcast": 1, "axis": 1}
BROADCAST = [
    Relaid("Add", [A, numbers(19)], UNDER),
    Relaid("Div", [A, np.abs(numbers(19, 7)) + 1], UNDER),
    Relaid("Mul", [A, np.abs(numbers(7, 6))]),
    Relaid("Sub", [A, numbers(2, 1, 7, 1)]),
    Relaid("Sub", [A, numbers(19)], UNDER, in_place={0: 0}),
    Relaid("Mul", [A, numbers(1)]),
]


@pytest.mark.parametrize("case", BROADCAST, ids=lambda case: case.type)
def test_broadcast(case: Relaid) -> None:
    check_ways(case, [row_major, channels_last] if case.type == "Div" else [row_major, channels_last, blocked])


@pytest.mark.parametrize("type", TYPES)
def test_first_operand_is_broadcast(type: str) -> None:
    case = Relaid(type, [numbers(7, 1), B], images=(1,))
    expected, _ = case.run("reference", row_major)
    for way in (row_major, channels_last, blocked):
        got, _ = case.run("onednn", way)
        assert_close(got[0], expected[0])
