"""Products of a constant matrix with vectors: exact for any matrix, compiled for those of the algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import lanes_of
from tazza.codegen.term import Lines, Term
from tazza.engines.native.winograd.algorithm import FORMS, Matrix, algorithm
from tazza.engines.native.winograd.transform import apply_matrix, apply_twice
from tazza.tensor import DataType
from tests.launching import pointer_at, run_kernel

Array = NDArray[Any]
FLOAT = DataType.FLOAT
MATRICES = [(m, r, which) for m, r in FORMS for which in ("inverse", "filters", "data")]


@dataclass
class Exact:
    """A number in fractions instead of a `Term`: what would be written down is computed, and counted."""

    number: Fraction
    count: list[int]

    def _new(self, number: Fraction) -> Exact:
        self.count[0] += 1
        return Exact(number, self.count)

    def __add__(self, other: Exact) -> Exact:
        return self._new(self.number + other.number)

    def __sub__(self, other: Exact) -> Exact:
        return self._new(self.number - other.number)

    def __mul__(self, factor: float) -> Exact:
        return self._new(self.number * Fraction(factor))

    def __neg__(self) -> Exact:
        return self._new(-self.number)

    def fma(self, factor: float, total: Exact) -> Exact:
        return self._new(self.number * Fraction(factor) + total.number)


def applied(matrix: Matrix, numbers: Sequence[Fraction]) -> tuple[list[Fraction], int]:
    """Return the product of a matrix with numbers, and how many instructions it takes."""
    count = [0]
    values = cast("list[Term]", [Exact(number, count) for number in numbers])
    found = cast("list[Exact]", apply_matrix(matrix, values))
    return [one.number for one in found], count[0]


DYADIC = st.integers(-12, 12).map(lambda n: Fraction(n, 4))  # whose floats are exact


@st.composite
def matrices(draw: st.DrawFn) -> Matrix:
    """Draw a matrix without rows of zeros, some of whose rows and columns are others with some signs changed."""
    width = draw(st.integers(1, 6))
    row = st.lists(DYADIC, min_size=width, max_size=width).filter(any)
    rows = draw(st.lists(row, min_size=1, max_size=4))
    for _ in range(draw(st.integers(0, 2))):
        signs = draw(st.lists(st.sampled_from([1, -1]), min_size=width, max_size=width))
        rows.append([a * sign for a, sign in zip(draw(st.sampled_from(rows)), signs, strict=True)])
    if draw(st.booleans()):
        kept = draw(st.integers(0, width - 1))
        rows = [[*one, one[kept] * (-1) ** i] for i, one in enumerate(rows)]
    return tuple(map(tuple, rows))


@given(matrices(), st.data())
def test_products_are_exact(matrix: Matrix, data: st.DataObject) -> None:
    values = data.draw(st.lists(DYADIC, min_size=len(matrix[0]), max_size=len(matrix[0])))
    found, _ = applied(matrix, values)
    assert found == [sum((a * b for a, b in zip(row, values, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize(("m", "r", "which"), MATRICES)
def test_pairs_save_instructions(m: int, r: int, which: str) -> None:
    """Of points p and -p rows and columns share what they have in common: fewer than there are numbers but 0."""
    matrix: Matrix = getattr(algorithm(m, r), which)
    _, count = applied(matrix, [Fraction(i) for i in range(len(matrix[0]))])
    one_by_one = sum(sum(a != 0 for a in row) for row in matrix)
    assert count < one_by_one


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
@pytest.mark.parametrize(("m", "r", "which"), MATRICES)
def test_tiles_from_both_sides(m: int, r: int, which: str) -> None:
    """Matrix @ tile @ matrix^T of a tile that is no more symmetric than the matrix, lane by lane."""
    L = lane_count()
    matrix: Matrix = getattr(algorithm(m, r), which)
    A = np.array(matrix, float)
    rows, width = A.shape
    tile = np.random.default_rng(7).standard_normal((width, width, L)).astype(np.float32)
    found = np.full((rows, rows, L), np.nan, np.float32)

    def work(lines: Lines) -> None:
        v = lanes_of(lines)
        source, target = (pointer_at(lines, word) for word in (1, 2))
        values = [[v.load(source, (i * width + j) * L, None) for j in range(width)] for i in range(width)]
        for i, row in enumerate(apply_twice(matrix, values)):
            for j, value in enumerate(row):
                v.store(value, target, (i * rows + j) * L, None)

    run_kernel(f"winograd transform {m} {r} {which}", work, 1, tile.ctypes.data, found.ctypes.data)
    expected = np.einsum("ai,ijl,bj->abl", A, tile, A)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
