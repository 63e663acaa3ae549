"""Collective operators between threads, by plain sums; ranks that differ, fail, leave and give up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.errors import ClosedError, DeadlineError, NetError, RunCancelledError, SchemaError, ShapeError, TazzaError
from tazza.nets import create_net
from tazza.operator import operator_def, run_op
from tazza.ops.distributed.thread_world import ThreadRank
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, names, on_sequences, recorded

MOST_S = 30.0
"""What tells that something hangs."""


def together(size: int, act: Callable[[int, Workspace], Any]) -> list[Any]:
    """Let each rank act in a thread and a workspace of its own; returns what came of each, errors included."""
    results: list[Any] = [None] * size

    def run(rank: int) -> None:
        workspace = Workspace()
        try:
            results[rank] = act(rank, workspace)
        except TazzaError as error:
            results[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(MOST_S)
        assert not thread.is_alive()
    return results


def join(workspace: Workspace, rank: int, size: int, **arguments: Any) -> None:
    """Make the blob `world`."""
    op = operator_def("CreateCommonWorld", [], ["world"], size=size, rank=rank, name="of a test", **arguments)
    workspace.run_operator(op)


def drawn(rank: int, dtype: Any, shape: tuple[int, ...], count: int) -> list[Any]:
    """Return the blobs of a rank."""
    random = np.random.default_rng(rank)
    return [np.asarray(random.standard_normal(shape) * 9).astype(dtype) for _ in range(count)]


ALONE = ("ranks_gather_float32_1",)
"""A single rank gathers nothing there."""
CASES = [
    recorded(name, wider=name in ALONE or ("float32" not in name and "float16" not in name))  # Caffe2 sums no others
    for name in names()
    if name.startswith("ranks")
]
TO_ONE = Sequence(
    "a sum for one rank",
    (
        Step(operator_def("CreateCommonWorld", [], ["w"], size=1, name="of a sum")),
        Step(operator_def("Reduce", ["w", "x"], ["y"]), {"y": np.arange(3)}, {"x": np.arange(3)}),
        Step(operator_def("Reduce", ["w", "x"], ["y"], root=1), fails=ShapeError, text="root = 1 is not below the 1"),
    ),
)


@on_sequences([*CASES, TO_ONE])
def test_ranks(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize(("size", "count", "shape"), [(1, 1, (3,)), (2, 1, (2, 3)), (3, 2, (5, 2, 1)), (4, 3, ())])
def test_allreduce_is_a_sum_with_the_same_bits_everywhere(
    dtype: Any, size: int, count: int, shape: tuple[int, ...]
) -> None:
    names = [f"x{i}" for i in range(count)]

    def act(rank: int, workspace: Workspace) -> list[Any]:
        join(workspace, rank, size)
        for name, value in zip(names, drawn(rank, dtype, shape, count), strict=True):
            workspace.feed(name, value)
        for _ in range(2):
            workspace.run_operator(operator_def("Allreduce", ["world", *names], names))
        return [workspace.fetch(name) for name in names]

    results = together(size, act)
    every = [value for rank in range(size) for value in drawn(rank, dtype, shape, count)]
    once = np.asarray(sum(every[1:], start=every[0]), dtype)
    wanted = np.asarray(sum([once] * (size * count - 1), start=once), dtype)  # the sum of sums
    for arrays in results:
        for array in arrays:
            assert array.dtype == dtype
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("root", [0, 2])
def test_broadcast_hands_out_what_the_root_has(root: int) -> None:
    def act(rank: int, workspace: Workspace) -> list[Any]:
        join(workspace, rank, 3)
        for name, value in zip("ab", drawn(rank, np.float32, (2, 3), 2), strict=True):
            workspace.feed(name, value)
        workspace.run_operator(operator_def("Broadcast", ["world", "a", "b"], ["a", "b"], root=root))
        return [workspace.fetch(name) for name in "ab"]

    wanted, _ = drawn(root, np.float32, (2, 3), 2)
    for arrays in together(3, act):
        for array in arrays:
            np.testing.assert_array_equal(array, wanted)


@pytest.mark.parametrize("type", ["simple", "dag", "async_scheduling", "plan"])
def test_nets_train_together(type: str) -> None:
    """Each rank adds the mean gradient of all: the parameters stay the same bits everywhere."""
    data = [drawn(rank, np.float32, (7, 3), 1)[0] for rank in range(2)]

    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 2)
        workspace.feed("x", data[rank])
        workspace.feed("w", np.full((3,), rank + 1, np.float32))
        workspace.run_operator(operator_def("Broadcast", ["world", "w"], ["w"], root=1))
        ops = [
            operator_def("ReduceFrontSum", ["x"], ["g"]),
            operator_def("Allreduce", ["world", "g"], ["g"]),
            operator_def("Scale", ["g"], ["h"], scale=0.5),
            operator_def("Add", ["w", "h"], ["w"]),
        ]
        net = create_net(NetDef(name=f"rank {rank}", type=type, num_workers=2, op=ops), workspace)
        for _ in range(3):
            net.run()
        net.close()
        return workspace.fetch("w")

    first, second = together(2, act)
    np.testing.assert_array_equal(first, second)
    wanted = 2 + 3 * 0.5 * (data[0].sum(0) + data[1].sum(0))
    np.testing.assert_allclose(first, wanted, rtol=1e-5, atol=1e-5)


def test_nobody_passes_a_barrier_before_all_have_come() -> None:
    came: list[str] = []

    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 3)
        came.append("in")
        workspace.run_operator(operator_def("Barrier", ["world"], []))
        came.append("out")

    together(3, act)
    assert came == ["in"] * 3 + ["out"] * 3


def test_worlds_are_told_apart() -> None:
    """By store and name; clones meet apart from what they were made of."""

    def act(rank: int, workspace: Workspace) -> list[float]:
        pair, place = divmod(rank, 2)
        store = operator_def("FileStoreHandlerCreate", [], ["store"], path="/nowhere", prefix=f"pair {pair}")
        create = operator_def("CreateCommonWorld", ["store"], ["world"], size=2, rank=place)
        clone = operator_def("CloneCommonWorld", ["world"], ["other"])
        found: list[float] = []
        for op in (store, create, clone):
            workspace.run_operator(op)
        for world in ("world", "other"):
            workspace.feed("x", np.array([float(rank)]))
            workspace.run_operator(operator_def("Allreduce", [world, "x"], ["x"]))
            found.append(float(workspace.fetch("x")[0]))
        return found

    assert together(4, act) == [[1, 1], [1, 1], [5, 5], [5, 5]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.uint8])
@pytest.mark.parametrize("count", [1, 3])
def test_allgather_joins_all(count: int, dtype: Any) -> None:
    names = [f"x{i}" for i in range(count)]

    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 3)
        for name, value in zip(names, drawn(rank, dtype, (2, 5), count), strict=True):
            workspace.feed(name, value)
        workspace.run_operator(operator_def("Allgather", ["world", *names], ["y"]))
        return workspace.fetch("y")

    wanted = np.concatenate([value.ravel() for rank in range(3) for value in drawn(rank, dtype, (2, 5), count)])
    for found in together(3, act):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("root", [0, 2])
def test_reduce_gives_the_sum_to_the_root(root: int) -> None:
    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 3)
        workspace.feed("x", np.full((2, 5), 10**rank))
        workspace.run_operator(operator_def("Reduce", ["world", "x"], ["y"], root=root))
        return workspace.fetch("y")

    for rank, found in enumerate(together(3, act)):
        np.testing.assert_array_equal(found, np.full((2, 5), 111 if rank == root else 0))


@pytest.mark.parametrize("counts", [[2, 3, 5], [4, 0, 1], [9, 4, 4]])
def test_reduce_scatter_gives_each_rank_its_part(counts: list[int]) -> None:
    def act(rank: int, workspace: Workspace) -> Any:
        join(workspace, rank, 3)
        for name, value in zip("ab", drawn(rank, np.int64, (2, 5), 2), strict=True):
            workspace.feed(name, value)
        workspace.feed("n", np.array(counts, np.int32))
        workspace.run_operator(operator_def("ReduceScatter", ["world", "a", "b", "n"], ["a", "b", "n"]))
        return [workspace.fetch(name) for name in "ab"]

    total = np.sum([value.ravel() for rank in range(3) for value in drawn(rank, np.int64, (2, 5), 2)], axis=0)
    for rank, arrays in enumerate(together(3, act)):
        for before, found in zip(drawn(rank, np.int64, (2, 5), 2), arrays, strict=True):
            begin = sum(counts[:rank])
            part = total[begin : begin + counts[rank]]
            assert found.shape == (2, 5)
            np.testing.assert_array_equal(found.ravel(), [*part, *before.ravel()[len(part) :]])


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def _errors(act: Callable[[int, Workspace], Any], size: int = 2) -> list[str]:
    results = together(size, act)
    assert all(isinstance(one, TazzaError) for one in results), results
    return sorted(f"{type(one).__name__}: {one}" for one in results)


def _run(op: OperatorDef, **feeds: Any) -> Callable[[Workspace], None]:
    def run(workspace: Workspace) -> None:
        for name, value in feeds.items():
            workspace.feed(name, value)
        workspace.run_operator(op)

    return run


SUM = operator_def("Allreduce", ["world", "x"], ["x"])
WRONG: list[tuple[Callable[[Workspace], None], Callable[[Workspace], None]]] = [
    (_run(SUM, x=np.zeros(3)), _run(SUM, x=np.zeros(4))),
    (_run(SUM, x=np.zeros(3)), _run(SUM, x=np.zeros(3, np.float32))),
    (_run(SUM, x=np.zeros(3)), _run(operator_def("Broadcast", ["world", "x"], ["x"]), x=np.zeros(3))),
    (_run(SUM, x=np.zeros(3)), _run(operator_def("Barrier", ["world"], []))),
]


@pytest.mark.parametrize("pair", WRONG)
def test_ranks_that_do_not_do_the_same_are_told_so(pair: tuple[Callable[[Workspace], None], ...]) -> None:
    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 2)
        pair[rank](workspace)

    first, second = _errors(act)
    assert first.startswith("ClosedError: the common world 'of a test' is closed: rank")
    assert second.startswith("NetError: rank")
    assert "hint: all ranks run the same collective operators" in second


def test_a_rank_that_leaves_ends_the_wait_of_the_others() -> None:
    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 2)
        workspace.feed("x", np.zeros(3))
        if rank:
            workspace.run_operator(operator_def("DestroyCommonWorld", ["world"], ["world"]))
        workspace.run_operator(SUM)

    errors = _errors(act)
    assert any(one.startswith("ClosedError: the common world 'of a test' is closed: rank 1 has left") for one in errors)


def test_a_rank_that_never_comes() -> None:
    workspace = Workspace()
    with pytest.raises(DeadlineError, match=r"waited 0.05 seconds for the other ranks"):
        join(workspace, 0, 2, timeout_ms=50)

    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 2)
        if rank == 0:
            workspace.blob("world").get(ThreadRank).timeout_s = 0.05  # to join, it waits for as long as it takes
            workspace.feed("x", np.zeros(3))
            workspace.run_operator(SUM)

    late, fine = together(2, act)
    assert isinstance(late, DeadlineError)
    assert fine is None


def test_a_rank_that_waits_can_be_cancelled() -> None:
    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 2)
        workspace.feed("x", np.zeros(3))
        if rank:
            return
        net = create_net(NetDef(name="waits", type="async_scheduling", num_workers=1, op=[SUM]), workspace)
        run = net.run_async()
        world = workspace.blob("world").get(ThreadRank).world
        while not world.open_meetings:
            time.sleep(1e-3)
        run.cancel()
        with pytest.raises(RunCancelledError):
            run.wait(MOST_S)
        with pytest.raises(ClosedError, match="is closed: rank 0 left: RunCancelledError"):
            workspace.run_operator(SUM)
        net.close()

    assert together(2, act) == [None, None]


def test_what_is_refused() -> None:
    world = run_op("CreateCommonWorld", size=1)
    with pytest.raises(ShapeError, match="rank = 2 is not below size = 2"):
        run_op("CreateCommonWorld", size=2, rank=2)
    with pytest.raises(ShapeError, match="root = 1 is not below the 1 ranks"):
        run_op("Broadcast", world, np.zeros(3), root=1)
    with pytest.raises(ShapeError, match="the blobs of a rank differ"):
        run_op("Allreduce", world, np.zeros(3), np.zeros(4), outputs=2)
    workspace = Workspace()
    join(workspace, 0, 1)
    workspace.feed("x", np.zeros(3))
    with pytest.raises(SchemaError, match="Allreduce"):
        workspace.run_operator(operator_def("Allreduce", ["world", "x"], ["y"]))

    def act(rank: int, workspace: Workspace) -> None:
        try:
            join(workspace, 1, 2)
        except NetError:
            join(Workspace(), 0, 2)  # for which the other one waits
            raise

    results = together(2, act)
    assert any(isinstance(one, NetError) and "rank 1 of the common world" in str(one) for one in results)


@pytest.mark.parametrize(
    ("counts", "error", "text"),
    [([1], ShapeError, "there are 1 counts for 2 ranks"), ([-1, 7], ShapeError, r"a count is negative: \[-1, 7\]")],
)
def test_counts_of_parts(counts: list[int], error: type[Exception], text: str) -> None:
    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 2)
        workspace.feed("x", np.zeros(6))
        workspace.feed("n", np.array(counts, np.int32))
        with pytest.raises(error, match=text):
            workspace.run_operator(operator_def("ReduceScatter", ["world", "x", "n"], ["x", "n"]))

    assert together(2, act) == [None, None]


def test_ranks_have_to_agree_on_the_parts() -> None:
    def act(rank: int, workspace: Workspace) -> None:
        join(workspace, rank, 2)
        workspace.feed("x", np.zeros(6))
        workspace.feed("n", np.array([2 + rank, 4 - rank], np.int32))
        workspace.run_operator(operator_def("ReduceScatter", ["world", "x", "n"], ["x", "n"]))

    assert any("comes with ReduceScatter by" in error for error in _errors(act))
