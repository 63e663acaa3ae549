"""Pieces of bfloat16: three of them are a number, exactly; how they lie in pairs, and columns that become rows."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import compiled, lane_count, unavailable
from tazza.codegen.loop import lanes_of
from tazza.codegen.term import Lines, Term
from tazza.codegen.tiles import PIECES, UPPER, halves, paired, pieces, transposed
from tazza.codegen.vector import Vector
from tests.launching import pointer_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason="nothing can be compiled here")

Array = NDArray[Any]


def computed(description: str, write: Callable[[Vector, Term, Term], None], X: Array, Y: Array) -> None:
    """Run a kernel on X and Y, which `write` writes given their addresses."""

    def work(lines: Lines) -> None:
        write(lanes_of(lines), *(pointer_at(lines, i) for i in (1, 2)))

    address = compiled(description, work)
    block = np.array([1, X.ctypes.data, Y.ctypes.data], np.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(address)(block.ctypes.data, None, None, None) == 0


def test_three_pieces_are_the_number() -> None:
    def write(v: Vector, X: Term, Y: Term) -> None:
        for number, piece in enumerate(pieces(v, v.load(X, 0, None))):
            upper = piece & UPPER
            Y.at(number * v.count).of(v.integer).store(upper, 4)

    X = np.random.default_rng(3).standard_normal(lane_count(), np.float32) * np.float32(1e30)
    X[:3] = 3.4e38, -1e-30, 0
    Y = np.zeros((PIECES, lane_count()), np.float32)
    computed("pieces of a vector", write, X, Y)
    np.testing.assert_array_equal(Y.astype(np.float64).sum(axis=0), X)
    assert not (Y.view(np.uint32) & 0xFFFF).any()
    X[:3] = np.inf, -np.inf, np.array(0x7F800001, np.uint32).view(np.float32)
    computed("pieces of a vector", write, X, Y)
    np.testing.assert_array_equal(Y.sum(axis=0, dtype=np.float32), X)


def test_two_halves_are_what_was_paired() -> None:
    def write(v: Vector, X: Term, Y: Term) -> None:
        words = paired(*(v.load(X, i * v.count, None).as_bits() for i in range(2)))
        for number, half in enumerate(halves(words)):
            v.store(half, Y, number * v.count, None)

    X = np.random.default_rng(5).standard_normal((2, lane_count()), np.float32)
    Y = np.zeros_like(X)
    computed("paired vectors", write, X, Y)
    np.testing.assert_array_equal(Y.view(np.uint32), X.view(np.uint32) & 0xFFFF0000)


def test_columns_become_rows() -> None:
    def write(v: Vector, X: Term, Y: Term) -> None:
        rows = [v.load(X, r * v.count, None) for r in range(v.count)]
        for c, column in enumerate(transposed(v, rows)):
            v.store(column, Y, c * v.count, None)

    X = np.arange(lane_count() ** 2, dtype=np.float32).reshape(lane_count(), -1)
    Y = np.zeros_like(X)
    computed("transposed vectors", write, X, Y)
    np.testing.assert_array_equal(Y, X.T)
