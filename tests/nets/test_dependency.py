"""The edges between tasks of a net, and that a missing one is noticed."""

from __future__ import annotations

import threading

import pytest

from tazza.errors import KernelError
from tazza.graph import dependency
from tazza.graph.dependency import Access, Dependencies
from tazza.nets.executor import task as tasks
from tazza.nets.parallel import ParallelNet
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import CUDAPlace
from tazza.workspace import Workspace
from tests.nets.dags import PARALLEL, subject
from tests.nets.simulated import mix, watching
from tests.patience import LONG_S, wait_until

pytestmark = pytest.mark.usefixtures("device")

HAZARDS = {
    "read after write": [mix("one", [], ["b"]), mix("two", ["b"], ["c"])],
    "write after read": [mix("one", ["b"], ["c"]), mix("two", [], ["b"])],
    "write after write": [mix("one", [], ["b"]), mix("two", [], ["b"])],
}


def without_edges(_: object) -> Dependencies:
    """Say that two operators wait for nobody."""
    return Dependencies(((), ()), ((), ()))


@pytest.mark.parametrize("type", PARALLEL)
@pytest.mark.parametrize("hazard", HAZARDS)
def test_a_missing_edge_is_noticed(type: str, hazard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests which find no overlap say something."""
    monkeypatch.setattr(tasks, "dependencies", without_edges)
    made = subject(HAZARDS[hazard], type, 2)

    def stay() -> None:
        wait_until(lambda: watch.overlaps)

    with watching(stay) as watch:
        with pytest.raises(KernelError, match="overlaps"):
            made.net.run()
        assert len(watch.overlaps) == 1
        watch.overlaps.clear()
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_operators_without_hazards_run_at_once(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"]), mix("two", ["a"], ["c"])], type, 2)
    met = threading.Barrier(2, timeout=LONG_S)
    with watching(met.wait) as watch:
        made.net.run()
    assert watch.most == 2
    made.net.close()


def test_tasks_of_a_net_with_two_devices() -> None:
    ops = [
        mix("one", ["a"], ["b"]),
        mix("two", ["b"], ["c"], device=0),
        mix("three", ["c"], ["d"], device=0),
        mix("four", ["c"], ["e"], device=1),
        mix("five", ["d", "e"], ["f"]),
    ]
    made = subject(ops, "async_scheduling", 2)
    assert isinstance(made.net, ParallelNet)
    found = made.net._tasks  # pyright: ignore[reportPrivateUsage] -- what is tested
    assert [task.positions for task in found] == [(0,), (1,), (2,), (3,), (4,)]
    assert [task.parents for task in found] == [0, 1, 1, 1, 2]
    assert [[child.number for child in task.children] for task in found] == [[1], [2, 3], [4], [4], []]
    assert found[2].stream is found[1].stream, "the first heir goes on with the stream"
    assert found[3].stream is not None
    assert found[3].stream.place == CUDAPlace(1)
    assert found[3].followed == (found[1],)
    assert found[4].followed == ()
    made.net.close()


def test_what_is_no_tensor_changes_when_it_is_read() -> None:
    """Operators on one mutex wait for each other, though both only read it."""
    ws = Workspace()
    ws.run_operator(operator_def("CreateMutex", [], ["m"]))
    for name in ("i", "j"):
        ws.run_operator(operator_def("ConstantFill", [], [name], shape=[1], dtype=10, value=0))
    ops = [operator_def("AtomicIter", ["m", name], [name]) for name in ("i", "j")]
    net = ws.create_net(NetDef(name="n", type="dag", num_workers=2, op=ops))
    assert isinstance(net, ParallelNet)
    assert [task.positions for task in net._tasks] == [(0, 1)]  # pyright: ignore[reportPrivateUsage] -- what is tested
    net.run()
    assert (ws.fetch("i"), ws.fetch("j")) == (1, 1)
    net.close()


def test_the_function_that_finds_edges_is_the_one_of_graphs() -> None:
    assert tasks.dependencies is dependency.dependencies
    assert dependency.dependencies([Access((), ("a",)), Access(("a",), ())]).parents == ((), (0,))
