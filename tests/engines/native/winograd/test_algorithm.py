"""Winograd's algorithm in exact fractions, and the vector code that applies its matrices."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.engines.native.winograd.algorithm import FORMS, Matrix, algorithm

FRACTIONS = st.fractions(-8, 8, max_denominator=8)


def _times(matrix: Matrix, vector: list[Fraction]) -> list[Fraction]:
    return [sum((a * b for a, b in zip(row, vector, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize(("m", "r"), FORMS)
@given(st.data())
def test_correlation_is_exact(m: int, r: int, data: st.DataObject) -> None:
    found = algorithm(m, r)
    d = data.draw(st.lists(FRACTIONS, min_size=found.a, max_size=found.a))
    g = data.draw(st.lists(FRACTIONS, min_size=r, max_size=r))
    products = [a * b for a, b in zip(_times(found.filters, g), _times(found.data, d), strict=True)]
    expected = [sum((d[i + k] * g[k] for k in range(r)), Fraction(0)) for i in range(m)]
    assert _times(found.inverse, products) == expected


@pytest.mark.parametrize(("m", "r"), FORMS)
def test_shapes(m: int, r: int) -> None:
    found = algorithm(m, r)
    assert found.a == m + r - 1
    shapes = [(len(matrix), len(matrix[0])) for matrix in (found.inverse, found.filters, found.data)]
    assert shapes == [(m, found.a), (found.a, r), (found.a, found.a)]
