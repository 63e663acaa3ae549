"""Ranges: what every method holds to, and what tells one from another."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError
from tazza.interop.int8 import METHODS, Histogram
from tazza.interop.int8.method import RARE, entropy, find_method

NUMBERS = st.lists(st.floats(-1000, 1000, width=32), min_size=1, max_size=60)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(METHODS))
@given(numbers=NUMBERS)
def test_a_range_lies_within_the_extremes(name: str, numbers: list[float]) -> None:
    seen = Histogram.of(np.array(numbers, np.float32))
    found = METHODS[name](seen)
    assert seen.low <= found.low <= found.high <= seen.high
    meaning = found.quantization
    assert 0 <= meaning.zero_point <= 255
    assert meaning.real(np.array([meaning.zero_point], np.uint8)) == 0.0


def with_far_ones() -> Histogram:
    """Return numbers within about 4 of 0, and a few at 100."""
    x = np.random.default_rng(2).standard_normal(200_000).astype(np.float32)
    return Histogram.of(x, np.full(5, 100, np.float32))


def test_methods_differ_where_a_few_numbers_are_far_out() -> None:
    seen = with_far_ones()
    highs = {name: METHODS[name](seen).high for name in METHODS}
    assert highs["min-max"] == 100.0
    assert 3.0 < highs["percentile"] < 5.0
    assert highs["entropy"] < 50.0


def test_percentile_leaves_out_its_share() -> None:
    x = np.random.default_rng(3).uniform(-1, 3, 300_000).astype(np.float32)
    found = METHODS["percentile"](Histogram.of(x))
    assert (x < found.low).mean() == pytest.approx(RARE, abs=5e-5)
    assert (x > found.high).mean() == pytest.approx(RARE, abs=2e-3)


def test_entropy_cuts_nothing_off_where_numbers_lie_evenly() -> None:
    x = np.linspace(-2, 2, 400_001, dtype=np.float32)
    found = entropy(Histogram.of(x))
    assert (found.low, found.high) == (pytest.approx(-2, rel=0.02), pytest.approx(2, rel=0.02))


def test_entropy_does_not_see_zeros() -> None:
    """However many there are: a rectifier makes half of what it gives 0, and bytes hold 0 exactly."""
    x = np.abs(np.random.default_rng(4).standard_normal(50_000)).astype(np.float32)
    found, beside = (entropy(Histogram.of(x, np.zeros(n, np.float32))) for n in (0, 500_000))
    assert (found.high, found.quantization) == (beside.high, beside.quantization)


def test_a_blob_of_zeros() -> None:
    for name in METHODS:
        found = METHODS[name](Histogram.of(np.zeros(9)))
        assert (found.low, found.high, found.quantization.scale) == (0.0, 0.0, 1.0)


def test_there_is_no_other_method() -> None:
    with pytest.raises(ArgumentError, match=r"no method 'best' of calibration"):
        find_method("best")
