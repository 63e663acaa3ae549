"""Exchanges between threads while a net goes on: sums, rows, and ranks that are not the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ClosedError, DeadlineError, NetError
from tazza.operator import operator_def
from tazza.ops.distributed.communicator import NOTES, CommonWorld
from tazza.tensor import ROW_MAJOR, channels_last
from tazza.workspace import Workspace
from tests.check import check_op
from tests.ops.distributed.test_collective import join, together
from tests.sequences import Sequence, Step, on_sequences

ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
PICKED = np.array([4, 0, 4], np.int64)
CASES = [
    Sequence(
        "alone",
        (
            Step(operator_def("CreateCommonWorld", [], ["w"], size=1, name="of exchanges")),
            Step(operator_def("AllSame", ["w"], [], text="a")),
            Step(operator_def("BeginAllreduce", ["w", "x", "y"], ["e", "w"]), {}, {"x": ROWS, "y": ROWS[0]}),
            Step(
                operator_def("EndAllreduce", ["e", "x", "y"], ["x", "y"], scale=0.5), {"x": ROWS / 2, "y": ROWS[0] / 2}
            ),
            Step(operator_def("BeginAllgatherRows", ["w", "i", "r"], ["f", "w"]), {}, {"i": PICKED, "r": ROWS}),
            Step(
                operator_def("EndAllgatherRows", ["f", "i", "r"], ["j", "s"], scale=2.0), {"j": PICKED, "s": ROWS * 2}
            ),
        ),
    )
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def exchanged(workspace: Workspace, rank: int, sent_as: str) -> Any:
    """Begin two sums and end them in the other order; return both."""
    for name, value in (("a", rank + 1.0), ("b", 10.0 * rank)):
        workspace.feed(name, np.full((2, 3), value + 1 / 3, np.float32))
        begin = operator_def("BeginAllreduce", ["world", name], [f"{name}_exchange", "world"], sent_as=sent_as)
        workspace.run_operator(begin)
    for name in ("b", "a"):
        workspace.run_operator(operator_def("EndAllreduce", [f"{name}_exchange", name], [name]))
    return workspace.fetch("a"), workspace.fetch("b")


@pytest.mark.parametrize(("sent_as", "slack"), [("float32", 1e-6), ("bfloat16", 1e-2), ("float16", 1e-3)])
def test_sums_end_in_any_order(sent_as: str, slack: float) -> None:
    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 3)
        return exchanged(workspace, rank, sent_as)

    results = together(3, act)
    for a, b in results:
        np.testing.assert_allclose(a, 7.0, rtol=slack)
        np.testing.assert_allclose(b, 31.0, rtol=slack)
        np.testing.assert_array_equal(a, results[0][0])


@pytest.mark.parametrize("sent_as", ["float32", "bfloat16"])
@pytest.mark.parametrize("unlike", [False, True])
def test_tensors_go_around_as_they_lie_or_in_rows_where_ranks_have_them_otherwise(unlike: bool, sent_as: str) -> None:
    shape = (16, 64, 9, 9)  # large enough to be sent from where it lies
    values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 64

    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 3)
        workspace.feed("x", values)
        x = workspace.blob("x").tensor()
        x.resize(shape, layout=ROW_MAJOR if unlike and rank == 1 else channels_last(shape))
        x.array[...] = values + rank
        workspace.feed("y", np.full(2, rank, np.float32))
        begin = operator_def("BeginAllreduce", ["world", "x", "y"], ["e", "world"], sent_as=sent_as)
        workspace.run_operator(begin)
        workspace.run_operator(operator_def("EndAllreduce", ["e", "x", "y"], ["x", "y"], scale=0.5))
        return x.layout, workspace.fetch("x"), workspace.fetch("y")

    for layout, x, y in together(3, act):
        np.testing.assert_allclose(x, (3 * values + 3) / 2, rtol=1e-2 if sent_as == "bfloat16" else 0)
        np.testing.assert_array_equal(y, np.full(2, 1.5, np.float32))
        assert layout == (ROW_MAJOR if unlike else channels_last(shape))


def test_rows_of_all_are_joined_by_ranks() -> None:
    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 2)
        count = 3 * rank  # rank 0 has none
        workspace.feed("i", np.arange(count, dtype=np.int32))
        workspace.feed("r", np.full((count, 2), rank, np.float32))
        workspace.run_operator(operator_def("BeginAllgatherRows", ["world", "i", "r"], ["e", "world"]))
        workspace.run_operator(operator_def("EndAllgatherRows", ["e", "i", "r"], ["j", "s"]))
        return workspace.fetch("j"), workspace.fetch("s")

    for indices, rows in together(2, act):
        np.testing.assert_array_equal(indices, np.arange(3, dtype=np.int32))
        np.testing.assert_array_equal(rows, np.ones((3, 2), np.float32))


def test_ranks_that_are_not_the_same_are_named() -> None:
    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 3)
        workspace.run_operator(operator_def("AllSame", ["world"], [], text="a" if rank != 1 else "b", what="net"))

    for error in together(3, act):
        assert isinstance(error, NetError)
        assert "the net of rank 1 is not that of rank 0" in str(error)


def test_who_ends_in_vain_says_so() -> None:
    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 2)
        workspace.feed("x", ROWS)
        world = workspace.blob("world").get(CommonWorld)
        if rank:
            world.close()
            return
        world.timeout_s = 0.05
        workspace.run_operator(operator_def("BeginAllreduce", ["world", "x"], ["e", "world"]))
        workspace.run_operator(operator_def("EndAllreduce", ["e", "x"], ["x"]))

    error, _ = together(2, act)
    assert isinstance(error, ClosedError | DeadlineError)


def test_errands_are_noted() -> None:
    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 2)
        exchanged(workspace, rank, "float32")
        return workspace.blob("world").get(CommonWorld)

    worlds = together(2, act)
    noted = [note for note in NOTES if any(note.world() is world for world in worlds)]
    assert [note.nbytes for note in noted] == [24] * 4
    assert all(note.start_s <= note.end_s and "BeginAllreduce" in note.what for note in noted)
