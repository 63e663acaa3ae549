"""Pieces of bfloat16: three of them are a number, exactly."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tazza.codegen.emit import Lines
from tazza.codegen.kernel import compiled, lane_count, unavailable
from tazza.codegen.loop import lanes_of, load
from tazza.codegen.rows import element
from tazza.codegen.tiles import PIECES, UPPER, pieces
from tazza.codegen.writer import FLOAT

pytestmark = pytest.mark.skipif(unavailable() is not None, reason="nothing can be compiled here")


def test_three_pieces_are_the_number() -> None:
    def work(lines: Lines) -> None:
        v, (X, Y) = lanes_of(lines), (lines.load_pointer("%block", i) for i in (1, 2))
        for number, piece in enumerate(pieces(v, load(v, FLOAT, X, "0", None))):
            upper = v.int_op("and", piece, v.whole(UPPER))
            lines.do(f"store {v.integer} {upper}, ptr {element(lines, Y, str(number * v.count))}, align 4")

    address = compiled("pieces of a vector", work)
    X = np.random.default_rng(3).standard_normal(lane_count(), np.float32) * np.float32(1e30)
    X[:3] = 3.4e38, -1e-30, 0
    Y = np.zeros((PIECES, lane_count()), np.float32)
    block = np.array([1, X.ctypes.data, Y.ctypes.data], np.int64)
    assert ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 4)(address)(block.ctypes.data, None, None, None) == 0
    np.testing.assert_array_equal(Y.astype(np.float64).sum(axis=0), X)
    assert not (Y.view(np.uint32) & 0xFFFF).any()
