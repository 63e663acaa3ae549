"""ReservoirSampling: recorded, drawn as Caffe2 draws, with and without objects, and what does not fit."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.control.mutex import Mutex
from tazza.ops.data.packed_records import PackedRecords
from tazza.ops.sparse.key_map import KeyMap
from tazza.proto import NetDef
from tazza.tensor.serialization import deserialize, serialize
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

CASES = [recorded("reservoirs", stored=True), recorded("reservoir_packed")]


@on_sequences(CASES)
def test_reservoirs(case: Sequence) -> None:
    check_op(case)


DRAWN: list[tuple[list[int], list[int], int]] = [
    ([1, 2], [1, 2], 2),
    ([3, 4, 5, 6], [1, 6, 3], 6),
    ([7, 8, 9], [1, 6, 3], 9),
    ([*range(10, 21)], [18, 6, 10], 20),
    ([], [18, 6, 10], 20),
]
"""Rows, and what Caffe2 has of them with seed 5: 3 that are kept, and how many it has seen."""
WITH_OBJECTS: list[tuple[list[int], list[int], list[int], int, list[int]]] = [
    ([1, 2], [10, 20], [1, 2], 2, [10, 20]),
    ([3, 4, 5, 6], [10, 30, 40, 10], [1, 2, 4], 4, [10, 20, 30]),
    ([7, 8, 9], [70, 70, 90], [1, 9, 4], 6, [10, 90, 30]),
    ([*range(10, 21)], [*range(100, 111)], [18, 9, 13], 17, [108, 90, 103]),
]
"""The same with objects: rows, their objects, what is kept, how many were counted, and the objects of the places."""


def _workspace() -> Workspace:
    made = Workspace()
    made.run_operator(operator_def("CreateMutex", [], ["m"]))
    made.run_operator(operator_def("CreateMap", [], ["p"], key_dtype=10, value_dtype=2))
    made.feed("r", np.zeros(0, np.int64))
    made.feed("n", np.array([0]))
    made.feed("o", np.zeros(0, np.int64))
    return made


def test_they_are_drawn_as_caffe2_draws() -> None:
    workspace = _workspace()
    op = operator_def("ReservoirSampling", ["r", "n", "x", "m"], ["r", "n"], num_to_collect=3)
    op.device_option.random_seed = 5
    workspace.feed("x", np.zeros(0, np.int64))
    net = create_net(NetDef(name="samples", op=[op]), workspace)
    for rows, kept, seen in DRAWN:
        workspace.feed("x", np.array(rows, np.int64))
        net.run()
        assert (workspace.fetch("r").tolist(), workspace.fetch("n").tolist()) == (kept, [seen])
    net.close()


def test_an_object_is_there_once() -> None:
    workspace = _workspace()
    names = ["r", "n", "x", "m", "i", "p", "o"]
    op = operator_def("ReservoirSampling", names, ["r", "n", "p", "o"], num_to_collect=3)
    op.device_option.random_seed = 5
    workspace.feed("x", np.zeros(0, np.int64))
    workspace.feed("i", np.zeros(0, np.int64))
    net = create_net(NetDef(name="samples", op=[op]), workspace)
    for rows, ids, kept, seen, objects in WITH_OBJECTS:
        workspace.feed("x", np.array(rows, np.int64))
        workspace.feed("i", np.array(ids, np.int64))
        net.run()
        assert (workspace.fetch("r").tolist(), workspace.fetch("n").tolist()) == (kept, [seen])
        assert workspace.fetch("o").tolist() == objects
        found = workspace.blob("p").get(KeyMap)
        assert dict(zip(found.keys.tolist(), found.values.tolist(), strict=True)) == {
            one: n for n, one in enumerate(objects)
        }
    net.close()


def test_a_row_more_asks_for_little_memory() -> None:
    workspace, N = _workspace(), 100_000
    op = operator_def("ReservoirSampling", ["r", "n", "x", "m"], ["r", "n"], num_to_collect=N)
    op.device_option.random_seed = 5
    workspace.feed("x", np.arange(N))
    net = create_net(NetDef(name="samples", op=[op]), workspace)
    net.run()
    workspace.feed("x", np.arange(N, N + 100))
    tracemalloc.start()
    net.run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 100_000, "the sample has 800 000 bytes"
    kept = workspace.fetch("r")
    assert 0 < (kept >= N).sum() <= 100
    assert (kept < N).sum() == (kept == np.arange(N)).sum()
    net.close()


def _packed(rows: list[int]) -> PackedRecords:
    found = run_op("PackRecords", np.array(rows, np.int64), fields=["x"])
    assert isinstance(found, PackedRecords)
    return found


def test_packed_records_are_drawn_as_rows_are() -> None:
    workspace = _workspace()
    op = operator_def("ReservoirSampling", ["r", "n", "x", "m"], ["r", "n"], num_to_collect=3)
    op.device_option.random_seed = 5
    workspace.create_blob("x").set(_packed([]))
    net = create_net(NetDef(name="samples", op=[op]), workspace)
    for rows, kept, seen in DRAWN:
        given = _packed(rows)
        workspace.blob("x").set(given)
        net.run()
        found = workspace.blob("r").get(PackedRecords)
        assert [int(record[0][0]) for record in found.records] == kept
        assert workspace.fetch("n").tolist() == [seen]
        assert [int(record[0][0]) for record in given.records] == rows, "what came is not written"
    net.close()


STORED: list[tuple[list[int], list[int], int, list[int]]] = [
    ([1, 2, 3, 1, 2], [1, 2, 3], 3, [1, 2, 3]),
    ([3, 5, 3, 3, 5], [3, 5], 2, [3, 5]),
    ([3, 5, 6, 3, 5], [3, 5, 6], 3, [3, 5, 6]),
]
"""Objects of packed records, which are kept and how many Caffe2 counts where the sample is stored behind the first."""


def test_a_stored_sample_of_packed_records_begins_anew() -> None:
    workspace = _workspace()
    names = ["r", "n", "x", "m", "i", "p", "o"]
    op = operator_def("ReservoirSampling", names, ["r", "n", "p", "o"], num_to_collect=10)
    workspace.create_blob("x")
    for ids, kept, seen, objects in STORED:
        workspace.blob("x").set(_packed(ids))
        workspace.feed("i", np.array(ids))
        workspace.run_operator(op)
        found = workspace.blob("r")
        assert [int(record[0][0]) for record in found.get(PackedRecords).records] == kept
        assert (workspace.fetch("n").tolist(), workspace.fetch("o").tolist()) == ([seen], objects)
        if seen == 3:
            again = deserialize(serialize(found, "r")).get(PackedRecords)
            assert [int(record[0][0]) for record in again.records] == kept, "it is all there, for who unpacks it"
            found.set(again)


def test_packed_records_and_rows_do_not_mix() -> None:
    packed, rows = _packed([1, 2]), np.zeros(2)
    for kept, data in ((packed, rows), (rows, packed)):
        for op, place in (("ReservoirSampling", np.array([2])), ("LastNWindowCollector", np.array(2, np.int32))):
            mutex = [Mutex()] if op == "ReservoirSampling" else []
            with pytest.raises(DTypeError, match=f"{op}: (.* packed records|.* is object)"):
                run_op(op, kept, place, data, *mutex, num_to_collect=3, outputs=2)


SEEN = np.array([2])
WRONG: list[tuple[list[Any], type[Exception], str]] = [
    ([np.zeros(3), SEEN, np.zeros(1)], ShapeError, "reservoir has 3 rows, 2 of at most 3 were seen"),
    ([np.zeros(2), SEEN, np.array(1.0)], ShapeError, "DATA has rank 0"),
    ([np.zeros(2), np.array([2, 2]), np.zeros(1)], ShapeError, "num_visited has 2 elements"),
    ([np.zeros((2, 2)), SEEN, np.zeros((1, 3))], ShapeError, r"rows of reservoir \(2, 2\) and DATA \(1, 3\) differ"),
    ([np.zeros(2), SEEN, np.zeros(1, np.float32)], DTypeError, "reservoir is float64, DATA is float32"),
]


@pytest.mark.parametrize(("inputs", "error", "words"), WRONG)
def test_refused(inputs: list[Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        run_op("ReservoirSampling", *inputs, Mutex(), num_to_collect=3, outputs=2)
    with pytest.raises(ArgumentError, match="num_to_collect"):
        run_op("ReservoirSampling", *inputs, Mutex(), outputs=2)


def test_objects_come_with_their_places() -> None:
    with pytest.raises(SchemaError, match="object_id"):
        run_op(
            "ReservoirSampling",
            np.zeros(0),
            np.array([0]),
            np.zeros(1),
            Mutex(),
            np.array([3]),
            outputs=2,
            num_to_collect=3,
        )
