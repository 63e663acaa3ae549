"""Dimensions that are merged, and where rows begin in what is left."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.codegen.kernel import unavailable
from tazza.codegen.loop import count_loop
from tazza.codegen.nest import Nest, merged, nest_words
from tazza.codegen.term import Lines, Term
from tests.launching import run_kernel

EXTENTS = st.lists(st.integers(1, 4), max_size=4)


@given(EXTENTS, st.data())
def test_merged_dimensions_reach_the_same_elements_in_the_same_order(extents: list[int], data: st.DataObject) -> None:
    steps = [
        [data.draw(st.sampled_from([0, 1, *[math.prod(extents[k:]) for k in range(4)]])) for _ in range(2)]
        for _ in extents
    ]
    axes = [(extent, tuple(step)) for extent, step in zip(extents, steps, strict=True)]
    assert _reached(merged(axes)) == _reached(axes)
    assert len(merged(axes)) <= len(axes)


def _reached(axes: list[tuple[int, tuple[int, ...]]]) -> list[tuple[int, ...]]:
    """Return where each operand is, element by element."""
    places: list[tuple[int, ...]] = [(0, 0)]
    for extent, steps in axes:
        places = [tuple(a + i * b for a, b in zip(at, steps, strict=True)) for at in places for i in range(extent)]
    return places


def test_dense_dimensions_become_one() -> None:
    assert merged([(2, (15, 15)), (3, (5, 5)), (5, (1, 1))]) == [(30, (1, 1))]


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
@pytest.mark.parametrize("by_rows", [True, False, None])
@pytest.mark.parametrize("threads", [1, 3])
def test_a_kernel_goes_over_rows_as_its_words_say(threads: int, by_rows: bool | None) -> None:
    """Y[i, j, k] = X[j, i, k] + step, of which the number stands behind all operands."""
    X = np.arange(2 * 3 * 70).reshape(3, 2, 70)
    Y = np.full((2, 3, 70), -1)

    def work(lines: Lines) -> None:
        nest = Nest(lines, 2, 2)
        (step,) = nest.tail.take(1)

        def row(pointers: list[Term], begin: Term, end: Term) -> None:
            def one(k: Term) -> None:
                x, y = (pointer.of("i64").at(k) for pointer in pointers)
                value = x.of("i64").load()
                y.of("i64").store(value + step)

            count_loop(lines, begin, end, one)

        nest.each_row(row)

    operands = [(X.ctypes.data, X.transpose(1, 0, 2).strides[:2]), (Y.ctypes.data, Y.strides[:2])]
    words = [word for word in nest_words(threads, ([2, 3], 70), operands, by_rows=by_rows) if isinstance(word, int)]
    run_kernel("nest", work, *words, 1000)
    np.testing.assert_array_equal(Y, X.transpose(1, 0, 2) + 1000)
