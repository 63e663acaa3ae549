"""Rows that are rounded by chance."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError, NumericError, ShapeError
from tazza.operator import run_op

TO, FROM = "FloatToFusedRandRowwiseQuantized", "FusedRandRowwiseQuantizedToFloat"
X = np.random.default_rng(2).standard_normal((3, 11)).astype(np.float32)
NAN = float("nan")


def gaps(bits: int) -> np.ndarray:
    """Return how far the numbers that rows can hold are apart."""
    return (X.max(1, keepdims=True) - X.min(1, keepdims=True)) / (2**bits - 1)


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_there_and_back(bits: int) -> None:
    to_nearest = run_op(TO, X, bitwidth=bits, random=0)
    assert to_nearest.shape == (3, 10 + -(-11 * bits // 8))
    assert (np.abs(run_op(FROM, to_nearest) - X) <= gaps(bits) * 0.501 + 1e-6).all()
    by_chance = run_op(FROM, run_op(TO, X, bitwidth=bits))
    assert (np.abs(by_chance - X) <= gaps(bits) * 1.001 + 1e-6).all()


def test_the_mean_of_what_chance_gives_is_right() -> None:
    many = np.repeat(X[:1], 4000, axis=0)
    mean = run_op(FROM, run_op(TO, many, bitwidth=2)).mean(0)
    assert (np.abs(mean - X[0]) < 5 * gaps(2)[0] / 2 / np.sqrt(4000)).all()


def test_codes_lie_a_byte_apart() -> None:
    """Code k * T + t is code k of byte t; halves go to even, NaN is the largest."""
    row = run_op(TO, [[0.0, 1.0, 2.0, 3.0, 0.5, 2.5]], bitwidth=2, random=0)[0]
    assert row[:2].tolist() == [2, 2]
    assert row[10:].tolist() == [0b00_00_10_00, 0b00_10_11_01]
    assert run_op(TO, [[1.0, NAN, 3.0]], bitwidth=8, random=0)[0, 10:].tolist() == [0, 255, 255]


def test_nothing() -> None:
    assert run_op(TO, X[:0], bitwidth=2).shape == (0, 13)
    assert run_op(TO, X[:, :0], random=0).shape == (3, 10)
    assert run_op(FROM, run_op(TO, X[:, :0], random=0)).shape == (3, 0)


def test_what_is_refused() -> None:
    row = run_op(TO, X, bitwidth=2)
    for place, value, message in ((0, 3, r"X\[0, 0\] is 3"), (1, 13, r"X\[0, 1\] is 13")):
        broken = row.copy()
        broken[0, place] = value
        with pytest.raises(NumericError, match=message):
            run_op(FROM, broken)
    with pytest.raises(ShapeError, match="no rows"):
        run_op(FROM, row[:0])
    with pytest.raises(ShapeError, match="9 bytes"):
        run_op(FROM, row[:, :9])
    with pytest.raises(ArgumentError):
        run_op(TO, X, bitwidth=3)
