"""ComputeOffset, SortAndShuffle, ReadRandomBatch: data sets read in another order, by hand and by laws.

Recorded sequences of these are among those of `test_cursor.py`, whose cursors they share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tazza.ops.data.cursor import TreeCursor
from tests.ops.data.test_cursor import LENGTHS, LISTS, cursor_of
from tests.sequences import names, recorded

CASES = [recorded(name, stored=True) for name in names() if name == "cursor_at_random"]


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 5), st.integers(1, 3))
def test_every_record_comes_once(lengths: list[int], batch: int, parts: int) -> None:
    """In any order, with its own rows, whatever the batches are."""
    some, n = np.array(lengths, np.int32), np.arange(len(lengths), dtype=np.int32)
    columns, cursor = [some, np.repeat(n, some), n], cursor_of(*LISTS, "n")
    begins = run_op("ComputeOffset", cursor, *columns)
    np.testing.assert_array_equal(begins[:, 1], np.concatenate([[0], np.cumsum(lengths)]))
    shuffle: dict[str, Any] = {"batch_size": batch, "shuffle_size": parts, "sort_by_field_idx": 0}
    order = run_op("SortAndShuffle", cursor, *columns, **shuffle)
    seen: list[int] = []
    while True:
        got = run_op("ReadRandomBatch", cursor, order, begins, *columns, outputs=3, batch_size=batch)
        if not len(got[2]):
            break
        np.testing.assert_array_equal(got[1], np.repeat(got[2], got[0]))
        seen += got[2].tolist()
    assert seen == order.tolist()
    assert sorted(seen) == list(range(len(lengths)))


def test_a_part_is_shuffled_within_itself() -> None:
    values = np.array([5, 1, 4, 0, 3, 2, 6], np.int32)
    order = run_op("SortAndShuffle", cursor_of("x"), values, sort_by_field_idx=0, batch_size=2)
    assert sorted(map(sorted, values[order][:6].reshape(3, 2).tolist())) == [[0, 1], [2, 3], [4, 5]]
    assert values[order][6] == 6


def test_equal_numbers_stay_in_order() -> None:
    order = run_op(
        "SortAndShuffle", cursor_of("x"), np.arange(40, dtype=np.int32) % 2, sort_by_field_idx=0, batch_size=40
    )
    assert order.tolist() == [*range(0, 40, 2), *range(1, 40, 2)]


WRONG: list[tuple[dict[str, Any], list[Any], type[Exception], str]] = [
    ({"sort_by_field_idx": 2}, [LENGTHS, np.zeros(6)], ArgumentError, "sort_by_field_idx = 2, there are 2 fields"),
    ({}, [LENGTHS, np.zeros(6)], DTypeError, "field 'i:values' is float64, what records are sorted by is int32"),
    ({}, [LENGTHS, LENGTHS[:3]], ShapeError, "field 'i:values' has 3 numbers, there are 4 records"),
    ({"batch_size": 0}, [LENGTHS, LENGTHS], ArgumentError, "batch_size"),
    ({"shuffle_size": 0}, [LENGTHS, LENGTHS], ArgumentError, "shuffle_size"),
    ({"sort_by_field_idx": -2}, [LENGTHS, LENGTHS], ArgumentError, "sort_by_field_idx"),
]


@pytest.mark.parametrize(("arguments", "columns", "error", "words"), WRONG)
def test_orders_that_do_not_fit(
    arguments: dict[str, Any], columns: list[Any], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        run_op("SortAndShuffle", cursor_of(*LISTS), *columns, **arguments)


def test_offsets_that_do_not_fit() -> None:
    cursor, values = cursor_of(*LISTS), np.arange(6)
    begins = run_op("ComputeOffset", cursor, LENGTHS, values)

    def read(order: list[int], begins: Any) -> Any:
        return run_op("ReadRandomBatch", cursor, np.array(order), begins, LENGTHS, values, outputs=2)

    with pytest.raises(NumericError, match=r"idx\[0\] is 4, not in \[0, 4\)"):
        read([4], begins)
    with pytest.raises(NumericError, match=r"idx\[0\] is -1"):
        read([-1], begins)
    with pytest.raises(ShapeError, match="offsets tell of rows 3 to 7, the fields have 6"):
        read([3], np.where(begins == 6, 7, begins))
    with pytest.raises(ShapeError, match="offsets tell of rows 2 to 1"):
        read([0], np.array([[0, 2], [1, 1]]))
    with pytest.raises(ShapeError, match="offsets have 1 columns, the fields have 2 domains"):
        read([0], begins[:, :1])
    assert TreeCursor(LISTS).offsets == []
    assert cursor.offsets == [0, 0]
