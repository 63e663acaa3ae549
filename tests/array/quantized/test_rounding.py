"""Roundings, against decimal's exact ones."""

from __future__ import annotations

import decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tazza.array.quantized.rounding import ROUNDINGS
from tazza.errors import ArgumentError

MODES = {
    "nearest_even": decimal.ROUND_HALF_EVEN,
    "nearest_away": decimal.ROUND_HALF_UP,
    "floor": decimal.ROUND_FLOOR,
}


@pytest.mark.parametrize("name", MODES)
@example(0.49999999999999994)
@example(-2.5)
@example(4503599627370495.5)
@given(st.floats(-1e6, 1e6) | st.integers(-100, 100).map(lambda n: n / 2))
def test_exact(name: str, x: float) -> None:
    found = float(ROUNDINGS[name].round(np.array([x]), None)[0])
    assert found == int(decimal.Decimal(x).to_integral_value(MODES[name]))
    assert abs(found - x) <= ROUNDINGS[name].reach


def test_stochastic_is_right_on_average() -> None:
    x = np.full(4000, -1.25)
    found = ROUNDINGS["stochastic"].round(x, np.random.default_rng(3))
    assert set(found.tolist()) == {-2.0, -1.0}
    assert abs(found.mean() - -1.25) < 4 * np.sqrt(0.25 * 0.75 / 4000)
    whole = np.array([-3.0, 0.0, 7.0])
    assert ROUNDINGS["stochastic"].round(whole, np.random.default_rng(3)).tolist() == whole.tolist()


def test_stochastic_wants_random_numbers() -> None:
    with pytest.raises(ArgumentError, match="generator is None"):
        ROUNDINGS["stochastic"].round(np.zeros(1), None)
