"""Batches have the rows of the chunks, in their order, whatever the lengths; queues of chunks are bounded and end."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.models.feeding import Batches, Chunks, check_chunk
from tests.patience import LONG_S


@given(
    st.lists(st.integers(0, 7), max_size=12),
    st.integers(1, 5),
    st.sampled_from([(0, 0), (0, 1), (1, 0), (2, 1)]),
    st.booleans(),
)
def test_batches_are_the_chunks_cut_anew(lengths: list[int], size: int, axes: tuple[int, int], at_once: bool) -> None:
    """Joined again, they are what came, but for less than a batch at the end; each has its size."""
    shapes = [(2, 3, 5), (7, 11)]
    chunks: list[list[Any]] = []
    for number, length in enumerate(lengths):
        made: list[Any] = []
        for shape, axis in zip(shapes, axes, strict=True):
            own = (*shape[:axis], length, *shape[axis + 1 :])
            made.append(np.random.default_rng(number).random(own))
        chunks.append(made)
    batches, found = Batches(["x", "y"], size, axes), list[list[Any]]()
    for chunk in chunks:
        batches.add(chunk)
        while not at_once and (batch := batches.take()) is not None:
            found.append(batch)
    while (batch := batches.take()) is not None:
        found.append(batch)
    assert len(found) == sum(lengths) // size
    for position, axis in enumerate(axes):
        assert all(batch[position].shape[axis] == size for batch in found)
        if found:
            came = np.concatenate([chunk[position] for chunk in chunks], axis)
            went = np.concatenate([batch[position] for batch in found], axis)
            np.testing.assert_array_equal(went, np.take(came, range(went.shape[axis]), axis))


@pytest.mark.parametrize(
    ("chunk", "kind", "text"),
    [
        ([np.zeros(3)], ArgumentError, "1 arrays for the 2 blobs x, y"),
        ([[1, 2], np.zeros(2)], DTypeError, "a list for 'x'"),
        ([np.zeros((3, 2)), np.zeros(2)], ShapeError, "unequal numbers of rows .'x': 3, 'y': 2"),
        ([np.zeros(3), np.array(1.0)], ShapeError, r"rows of 'y' lie along axis 0, .* shape \[\]"),
    ],
)
def test_a_chunk_that_does_not_fit_is_refused(chunk: Sequence[Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        Batches(["x", "y"], 2, [0, 0]).add(chunk)


def test_rows_are_not_counted_where_chunks_stay_as_they_are() -> None:
    assert len(check_chunk([np.zeros((3, 2)), np.zeros(2)], ["x", "y"], None)) == 2


def test_rows_have_one_shape() -> None:
    batches = Batches(["x"], 4, [1])
    batches.add([np.zeros((2, 3))])
    with pytest.raises(ShapeError, match=r"'x' had the shape \[2, 3\] and then \[5, 3\]: only axis 1"):
        batches.add([np.zeros((5, 3))])


@pytest.mark.parametrize(("size", "axes"), [(0, [0]), (-1, [0]), (2, [-1]), (2, []), (2, [0, 0])])
def test_sizes_and_axes_are_checked(size: int, axes: list[int]) -> None:
    with pytest.raises(ArgumentError):
        Batches(["x"], size, axes)


def test_a_queue_without_room_is_refused() -> None:
    with pytest.raises(ArgumentError, match="room for 0 chunks"):
        Chunks(0)


def test_a_queue_holds_no_more_than_it_has_room_for() -> None:
    chunks, going, put = Chunks(3), threading.Event(), list[bool]()
    going.set()

    def fetch() -> None:
        while put.append(chunks.put([np.zeros(1)], going.is_set)) or put[-1]:
            assert len(chunks) <= 3

    fetcher = threading.Thread(target=fetch)
    fetcher.start()
    for _ in range(20):
        assert chunks.take(going.is_set) is not None
    time.sleep(0.02)
    assert len(chunks) <= 3
    going.clear()
    chunks.wake()
    fetcher.join(LONG_S)
    assert not fetcher.is_alive()
    assert put[-1] is False


def test_who_waits_for_a_chunk_ends_without_one() -> None:
    chunks, going, found = Chunks(1), threading.Event(), list[object]()
    going.set()
    reader = threading.Thread(target=lambda: found.append(chunks.take(going.is_set)))
    reader.start()
    going.clear()
    reader.join(LONG_S)  # nobody woke it: it looks by itself
    assert found == [None]
