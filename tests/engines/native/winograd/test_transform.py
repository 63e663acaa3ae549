"""Products of a constant matrix with vectors: exact for any matrix, compiled for those of the algorithm."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen.emit import Lines, Vector
from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import lanes_of
from tazza.engines.native.winograd.algorithm import FORMS, Matrix, algorithm
from tazza.engines.native.winograd.transform import apply_matrix, apply_twice
from tazza.tensor import DataType
from tests.launching import run_kernel

Array = NDArray[Any]
FLOAT = DataType.FLOAT
MATRICES = [(m, r, which) for m, r in FORMS for which in ("inverse", "filters", "data")]


class Exact:
    """Computes at once, in fractions, what `Vector` would write down, and counts the instructions."""

    def __init__(self, values: Sequence[Fraction]) -> None:
        self.held = {f"%{i}": value for i, value in enumerate(values)}
        self.names = list(self.held)
        self.count = 0

    def _new(self, value: Fraction) -> str:
        self.count += 1
        self.held[f"%{len(self.held)}"] = value
        return list(self.held)[-1]

    def constant(self, value: float) -> str:
        name = f"constant {value}"
        self.held[name] = Fraction(value)
        return name

    def add(self, a: str, b: str) -> str:
        return self._new(self.held[a] + self.held[b])

    def sub(self, a: str, b: str) -> str:
        return self._new(self.held[a] - self.held[b])

    def mul(self, a: str, b: str) -> str:
        return self._new(self.held[a] * self.held[b])

    def neg(self, a: str) -> str:
        return self._new(-self.held[a])

    def fma(self, a: str, b: str, c: str) -> str:
        return self._new(self.held[a] * self.held[b] + self.held[c])


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
    exact = Exact(values)
    found = [exact.held[name] for name in apply_matrix(cast("Vector", exact), matrix, exact.names)]
    assert found == [sum((a * b for a, b in zip(row, values, strict=True)), Fraction(0)) for row in matrix]


@pytest.mark.parametrize(("m", "r", "which"), MATRICES)
def test_pairs_save_instructions(m: int, r: int, which: str) -> None:
    """Of points p and -p rows and columns share what they have in common: fewer than there are numbers but 0."""
    matrix: Matrix = getattr(algorithm(m, r), which)
    exact = Exact([Fraction(i) for i in range(len(matrix[0]))])
    apply_matrix(cast("Vector", exact), matrix, exact.names)
    one_by_one = sum(sum(a != 0 for a in row) for row in matrix)
    assert exact.count < one_by_one


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
        source, target = (lines.load_pointer("%block", word) for word in (1, 2))
        values = [[v.load(source, str((i * width + j) * L), None) for j in range(width)] for i in range(width)]
        for i, row in enumerate(apply_twice(v, matrix, values)):
            for j, value in enumerate(row):
                v.store(value, target, str((i * rows + j) * L), None)

    run_kernel(f"winograd transform {m} {r} {which}", work, 1, tile.ctypes.data, found.ctypes.data)
    expected = np.einsum("ai,ijl,bj->abl", A, tile, A)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
