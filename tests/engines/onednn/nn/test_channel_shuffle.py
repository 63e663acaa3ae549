"""Channel shuffles on oneDNN in every layout."""

from __future__ import annotations

import pytest

from tazza.engines.onednn.library import unavailable
from tests.engines.onednn.layouts import Relaid, check_ways, numbers

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X = numbers(2, 48, 5, 3)
CASES = [
    Relaid("ChannelShuffle", [X], {"group": 3}),
    Relaid("ChannelShuffle", [X], {"group": 16}),
    Relaid("ChannelShuffleGradient", [X], {"group": 3}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid) -> None:
    check_ways(case)
