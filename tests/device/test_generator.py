"""The generator: one stream, however it is cut, and its maps against formulas (to the bit: test_random_fill)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.device import Generator
from tazza.errors import FormatError

SEEDS = st.integers(0, 2**32 - 1)
COUNTS = st.lists(st.integers(0, 9), max_size=5)


@settings(max_examples=30, deadline=None)
@given(SEEDS, COUNTS)
def test_gaussian_does_not_depend_on_how_the_stream_is_cut(seed: int, counts: list[int]) -> None:
    whole, parts = Generator(seed).gaussian(sum(counts), 3.0, 0.5), Generator(seed)
    cut = np.concatenate([np.empty(0, np.float32), *(parts.gaussian(count, 3.0, 0.5) for count in counts)])
    np.testing.assert_array_equal(whole, cut)


@settings(max_examples=30, deadline=None)
@given(SEEDS)
def test_maps_of_the_twister(seed: int) -> None:
    r = np.random.RandomState(seed).randint(0, 2**32, size=12, dtype=np.uint32).astype(np.uint64)
    u = (r & np.uint64(2**24 - 1)) / 2.0**24
    np.testing.assert_array_equal(Generator(seed).uniform(12), u.astype(np.float32))
    radius = np.sqrt(-2 * np.log(1 - u[1::2]))
    pairs = np.stack([radius * np.cos(2 * np.pi * u[0::2]), radius * np.sin(2 * np.pi * u[0::2])], 1).ravel()
    np.testing.assert_allclose(Generator(seed).gaussian(12), pairs, atol=1e-5)
    np.testing.assert_array_equal(Generator(seed).integers(12, -3, 6), (r % 10).astype(np.int64) - 3)
    bits = ((r[0::2] << np.uint64(32)) | r[1::2]) & np.uint64(2**53 - 1)
    np.testing.assert_array_equal(Generator(seed).bernoulli(6, 0.7), bits / 2.0**53 < 0.7)


def test_integers_over_the_whole_range() -> None:
    drawn = Generator(5).integers(3, -(2**31), 2**31 - 1)
    r = np.random.RandomState(5).randint(0, 2**32, size=3, dtype=np.uint32)
    np.testing.assert_array_equal(drawn, r.astype(np.int64) - 2**31)


@pytest.mark.parametrize(
    "probability", [0.0, 1.0, 0.5, 0.3, 1e-9, -1.0, 2.0, 2.0**-53, 2.0**-21 + 2.0**-50, float("nan")]
)
def test_booleans_compare_all_bits_of_a_number(probability: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the upper ones are those of the probability."""
    r = np.random.RandomState(1).randint(0, 2**32, size=2000, dtype=np.uint32)
    near = min(max(np.nan_to_num(probability), 0.0), 1.0)
    r[0::2] = int(near * 2**53) // 2**32 + np.arange(1000) % 3 - 1  # below, at and above
    monkeypatch.setattr(Generator, "raw", lambda generator, count: r[:count])
    bits = ((r[0::2].astype(np.uint64) << np.uint64(32)) | r[1::2]) & np.uint64(2**53 - 1)
    np.testing.assert_array_equal(Generator(0).bernoulli(1000, probability), bits * 2.0**-53 < probability)


DRAWS: dict[str, Callable[[Generator], NDArray[Any]]] = {
    "raw": lambda generator: generator.raw(3),
    "uniform": lambda generator: generator.uniform(700),
    "half a pair": lambda generator: generator.gaussian(3),
    "pairs": lambda generator: generator.gaussian(4),
    "integers": lambda generator: generator.integers(5, 0, 9, np.int64),
    "bernoulli": lambda generator: generator.bernoulli(7, 0.3),
}


@pytest.mark.parametrize("seed", [3, None])
@pytest.mark.parametrize("before", DRAWS)
def test_a_state_goes_on_with_the_same_numbers(before: str, seed: int | None) -> None:
    """Whatever was drawn before it was taken; also through a file, which has its numbers as int32."""
    first, second = Generator(seed), Generator(4)
    DRAWS[before](first)
    second.gaussian(1)
    second.restore(np.array(first.state().tolist(), np.int32))
    for draw in (*DRAWS.values(), DRAWS["half a pair"]):
        np.testing.assert_array_equal(draw(first), draw(second))


@pytest.mark.parametrize("wrong", [np.zeros(600), np.full(625, 900), np.zeros(630)])
def test_what_is_no_state_is_refused(wrong: NDArray[Any]) -> None:
    with pytest.raises(FormatError, match=r"\d+ numbers are no state of a random generator"):
        Generator(1).restore(wrong.astype(np.int32))
