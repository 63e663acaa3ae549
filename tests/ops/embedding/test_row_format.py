"""Rows in few bits: what stands in which bits, how far numbers move, and what is odd."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.ops.embedding.row_format import (
    EIGHT,
    EIGHT_HALF,
    FOUR,
    FOUR_IN_EIGHT,
    TWO,
    TWO_IN_EIGHT,
    RowFormat,
    bounds,
)

FORMATS = [EIGHT, EIGHT_HALF, FOUR, TWO, FOUR_IN_EIGHT, TWO_IN_EIGHT]
on_all_formats = pytest.mark.parametrize("format", FORMATS, ids=lambda format: f"{format.bits} in {format.room}")
NAN = float("nan")


def rows(seed: int = 0, count: int = 7, columns: int = 24) -> np.ndarray:
    """Return rows whose ranges differ."""
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((count, columns)) * 10.0 ** rng.integers(-2, 3, (count, 1))).astype(np.float32)


@on_all_formats
def test_a_number_moves_by_half_a_step_and_what_bounds_are_rounded_by(format: RowFormat) -> None:
    x = rows()
    low, high = bounds(x, first=False)
    step = (high - low) / format.top
    rounded = 0 if format.exact else 2.0**-10 * (np.abs(low) + high - low)
    assert (np.abs(format.decode(format.encode(x)) - x) <= 0.501 * step + rounded).all()


@on_all_formats
def test_what_was_coded_once_is_coded_the_same(format: RowFormat) -> None:
    """Codes and bias stay; the scale may be rounded once more."""
    first = format.encode(rows())
    again = format.encode(format.decode(first))
    assert (again[:, : -format.behind] == first[:, : -format.behind]).all()


@on_all_formats
def test_extents(format: RowFormat) -> None:
    for columns in (0, 4, 24):
        assert format.columns(format.width(columns)) == columns
    assert format.encode(rows(columns=24)).shape == (7, format.width(24))
    assert format.columns(format.behind - 1) < 0


def test_the_first_code_has_the_lowest_bits() -> None:
    x = np.array([0, 1, 2, 3], np.float32)
    assert TWO.encode(x)[:1].tolist() == [0b11_10_01_00]
    assert FOUR.encode(x * 5)[:2].tolist() == [0x50, 0xFA]
    assert TWO_IN_EIGHT.encode(x)[:4].tolist() == [0, 1, 2, 3]


@on_all_formats
def test_equal_numbers_come_back(format: RowFormat) -> None:
    x = np.full((2, 4), 2.5, np.float32)
    assert (format.decode(format.encode(x)) == x).all()


@on_all_formats
def test_nan_and_infinity_have_the_code_0(format: RowFormat) -> None:
    assert (format.encode(np.array([[1, NAN, 2, 3]], np.float32))[0, : 4 // format.in_byte] == 0).sum() < 4
    for row in ([np.inf, 1, 2, 3], [-np.inf, 1, 2, 3]):
        assert (format.encode(np.array([row], np.float32))[0, : -format.behind] == 0).all()


@pytest.mark.parametrize("format", [FOUR, TWO, FOUR_IN_EIGHT, TWO_IN_EIGHT])
def test_a_search_makes_errors_less(format: RowFormat) -> None:
    x = rows(1, count=40, columns=64)
    plain, searched = (np.square(format.decode(format.encode(x, search=search)) - x).sum(1) for search in (False, True))
    assert (searched <= plain * 1.01).all()
    assert (searched < plain * 0.99).any()


def test_a_search_leaves_rows_that_have_no_range() -> None:
    x = np.array([[1, 1, 1, 1], [NAN, 1, 2, 3], [1, 2, 3, np.inf]], np.float32)
    assert (FOUR.encode(x, search=True)[0] == FOUR.encode(x)[0]).all()


def test_nan_counts_where_it_stands_first() -> None:
    x = np.array([[NAN, 1, 2], [1, NAN, 2]], np.float32)
    assert np.isnan(bounds(x, first=True)[0][:, 0]).tolist() == [True, False]
    assert bounds(x, first=False)[0][:, 0].tolist() == [1, 1]
