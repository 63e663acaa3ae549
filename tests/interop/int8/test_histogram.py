"""Counts of numbers, against the numbers themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError
from tazza.interop.int8 import Histogram
from tazza.interop.int8.histogram import CHUNK

FLOATS = st.lists(st.floats(-(2.0**120), 2.0**120, width=32), min_size=1, max_size=40)


@given(FLOATS, st.integers(1, 5))
def test_it_is_no_matter_in_which_parts_numbers_come(numbers: list[float], parts: int) -> None:
    x = np.array(numbers, np.float32)
    whole, cut = Histogram.of(x), Histogram.of(*np.array_split(x, parts))
    assert (whole.count, whole.low, whole.high) == (len(x), x.min(), x.max())
    assert (cut.count, cut.low, cut.high) == (whole.count, whole.low, whole.high)
    for share in (0.0, 0.3, 1.0):
        assert cut.quantile(share) == whole.quantile(share)


@given(FLOATS)
def test_numbers_below_the_edges_of_bins_are_counted_exactly(numbers: list[float]) -> None:
    x = np.array(numbers, np.float32)
    edges = np.array([-1e30, -4.0, -0.5, 0.25, 3.0, 1e30])
    edges[[0, -1]] = -(2.0**121), 2.0**121
    seen = Histogram.of(x)
    found = seen.below(edges)
    # An edge itself belongs to the bin away from 0.
    lowest, highest = (x[:, None] < edges).sum(0), (x[:, None] <= edges).sum(0)
    assert ((lowest <= found) & (found <= highest)).all()


def test_a_quantile_is_within_the_width_of_a_bin() -> None:
    x = np.random.default_rng(1).standard_normal(200_003).astype(np.float32)
    seen = Histogram.of(x)
    for share in (0.0001, 0.1, 0.5, 0.99, 0.9999):
        right = float(np.quantile(x, share))
        assert seen.quantile(share) == pytest.approx(right, rel=1 / 128, abs=1e-3)
    assert (seen.quantile(0), seen.quantile(1)) == (x.min(), x.max())


def test_what_is_not_finite_is_left_out_and_zeros_are_told() -> None:
    seen = Histogram.of(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0], np.float32))
    assert (seen.count, seen.zeros, seen.low, seen.high) == (3, 2, 0.0, 2.0)


def test_numbers_of_several_chunks_and_of_other_types() -> None:
    x = np.arange(CHUNK + 7, dtype=np.float64)
    assert Histogram.of(x.reshape(1, -1)).count == CHUNK + 7
    assert Histogram.of(x[:100].astype(np.float16)).count == 100


def test_nothing_has_no_quantile() -> None:
    with pytest.raises(ArgumentError, match=r"the quantile 0\.5 of 0 numbers"):
        Histogram().quantile(0.5)
    with pytest.raises(ArgumentError, match="between 0 and 1"):
        Histogram.of(np.ones(3)).quantile(1.5)
