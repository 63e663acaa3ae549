"""CheckDatasetConsistency, TrimDataset, Append, AtomicAppend: recorded sequences, growth, and what does not fit."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, names, on_sequences, recorded

CASES = [recorded(name, stored=True) for name in names() if name.startswith("data_set_")]


@on_sequences(CASES)
def test_data_sets(case: Sequence) -> None:
    check_op(case)


def test_rows_are_appended_where_there_is_room() -> None:
    """One copy for each doubling, not one for each row; what shares the memory keeps what it has."""
    workspace = Workspace()
    workspace.feed("a", np.zeros((0, 3)))
    tensor = workspace.blob("a").tensor()
    places = set[int]()
    for n in range(100):
        workspace.feed("b", np.full((1, 3), n))
        workspace.run_operator(operator_def("Append", ["a", "b"], ["a"]))
        places.add(tensor.address)
    np.testing.assert_array_equal(workspace.fetch("a"), np.repeat(np.arange(100), 3).reshape(-1, 3))
    assert len(places) < 12
    workspace.run_operator(operator_def("Alias", ["a"], ["c"]))
    workspace.run_operator(operator_def("Append", ["a", "b"], ["a"]))
    assert (workspace.fetch("a").shape, workspace.fetch("c").shape) == ((101, 3), (100, 3))


def test_threads_append_together() -> None:
    workspace = Workspace()
    workspace.run_operator(operator_def("CreateMutex", [], ["m"]))
    workspace.feed("a", np.zeros(0, np.int64))
    workspace.feed("b", np.zeros(0, np.int64))

    def add(first: int) -> None:
        mine = f"x{first}"
        for n in range(first, first + 40):
            workspace.feed(mine, np.array([n]))
            workspace.run_operator(operator_def("AtomicAppend", ["m", "a", "b", mine, mine], ["a", "b"]))

    threads = [threading.Thread(target=add, args=(n * 40,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(workspace.fetch("a"), workspace.fetch("b"))
    assert sorted(workspace.fetch("a").tolist()) == list(range(120))


LENGTHS = np.array([2, 1], np.int32)
LISTS = ["i:lengths", "i:values"]
WRONG: list[tuple[list[str], list[Any], type[Exception], str]] = [
    (LISTS, [LENGTHS, np.zeros(4)], ShapeError, "'i:lengths' adds up to 3, its fields have 4 rows"),
    (LISTS, [LENGTHS, np.zeros(2)], ShapeError, "'i:lengths' reaches to row 3, its fields have 2"),
    (LISTS[:1], [LENGTHS], ShapeError, "'i:lengths' adds up to 3, its fields have None rows"),
    (["x", "y"], [np.zeros(2), np.zeros(3)], ShapeError, "field 'y' has 3 rows, another one of its domain has 2"),
    (["x", "y"], [np.zeros(2)], ShapeError, "1 blobs for 2 fields"),
    (["x"], [np.array(2.0)], ShapeError, "has rank 0"),
    (LISTS, [LENGTHS.astype(np.int64), np.zeros(3)], DTypeError, "is int64, lengths are int32"),
    (LISTS[::-1], [np.zeros(3), LENGTHS], ArgumentError, "stands before its lengths"),
]


@pytest.mark.parametrize(("fields", "columns", "error", "words"), WRONG)
def test_fields_that_do_not_fit(fields: list[str], columns: list[Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run_op("CheckDatasetConsistency", *columns, fields=fields)


def test_rows_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"rows of 'in0' .* and 'in1' .* differ"):
        run_op("Append", np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(DTypeError, match="'in0' is float64, 'in1' is int64"):
        run_op("Append", np.zeros(2), np.arange(2))
    with pytest.raises(ShapeError, match="'in1' has rank 0, it has rows"):
        run_op("Append", np.zeros(2), np.array(2.0))
    with pytest.raises(ArgumentError, match="multiple_of"):
        run_op("TrimDataset", np.zeros(2), fields=["x"], multiple_of=0)
