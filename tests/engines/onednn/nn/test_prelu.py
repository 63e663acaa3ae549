"""The gradient of rectifiers with learned slopes on oneDNN in every layout, with slopes by channel and a single one."""

from __future__ import annotations

import pytest

from tazza.engines.onednn.library import unavailable
from tazza.tensor import channels_last
from tests.check import assert_close
from tests.engines.onednn.layouts import Relaid, blocked, check_ways, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X, DY = numbers(2, 19, 7, 6), numbers(6, 7, 19, 2).transpose(3, 2, 1, 0).copy()
CASES = [
    Relaid("PReluGradient", [X, DY, X, numbers(slopes)], images=(0, 1, 2), outputs=2, slack=20) for slopes in (19, 1)
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid) -> None:
    check_ways(case, [row_major, channels_last])


def test_blocks_are_read_with_dense_channels() -> None:
    case = CASES[0]
    expected, _ = case.run("reference", row_major)
    got, operator = case.run("onednn", blocked)
    assert_close(got[0], expected[0])
    target = operator.outputs[0].tensor()
    assert target.layout == channels_last(target.shape)
