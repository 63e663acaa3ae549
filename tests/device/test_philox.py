"""Words of a counter: the known answers of the paper's authors, and numbers that follow from seed and place alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.device.philox import CounterGenerator, philox

SEEDS = st.integers(0, 2**32 - 1)


def test_known_answers() -> None:
    """NumPy has Philox with words of 64 bits alone; this is the first of the authors' own answers."""
    assert [f"{int(word):08x}" for word in philox(np.zeros(1, np.uint64), 0)[0]] == [
        "6627e8d5",
        "e169c58d",
        "bc57ac4c",
        "9b00dbd8",
    ]


@pytest.mark.parametrize("kind", ["raw", "uniform", "gaussian"])
@settings(max_examples=20)
@given(SEEDS, st.lists(st.integers(0, 11), max_size=5))
def test_a_stream_goes_on(kind: str, seed: int, counts: list[int]) -> None:
    apart, whole = CounterGenerator(seed), CounterGenerator(seed)
    parts = [value for count in counts for value in getattr(apart, kind)(count).tolist()]
    assert parts == getattr(whole, kind)(sum(counts)).tolist()


def test_no_word_is_in_numbers_of_two_kinds() -> None:
    stream, fresh = CounterGenerator(3), CounterGenerator(3)
    stream.uniform(1)
    assert stream.gaussian(2).tolist() == fresh.gaussian(6)[4:].tolist()


def test_moments_and_frequencies() -> None:
    z = CounterGenerator(7).gaussian(100_000, 3, 2)
    assert abs(z.mean() - 3) < 5 * 2 / np.sqrt(z.size)
    assert abs(z.std() - 2) < 0.03
    u = CounterGenerator(7).uniform(100_000, -1, 1)
    assert abs(u.mean()) < 5 / np.sqrt(3 * u.size)
    assert abs(np.corrcoef(u[:-1], u[1:])[0, 1]) < 5 / np.sqrt(u.size)
    counts = np.bincount(CounterGenerator(7).integers(60_000, 0, 5))
    assert (np.abs(counts - 10_000) < 5 * np.sqrt(60_000 * 5 / 36)).all()
