"""The net type `simple_refcount`: what is emptied, as genuine Caffe2 has it, and what is kept where Caffe2 does not."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tazza.errors import BlobTypeError, ShapeError
from tazza.graph.text import parse_net
from tazza.nets.simple_refcount import last_readers
from tazza.operator import Observer, Operator, operator_def
from tazza.proto import NetDef
from tazza.tensor import CPUPlace, Tensor, current_allocator
from tazza.workspace import Workspace

X = np.array([-1, 2], np.float32)

CASES: dict[str, tuple[Sequence[str], str, str]] = {
    "a chain": (["in: x", "out: c", "a = Relu(x)", "b = Relu(a)", "c = Relu(b)"], "a b", "x c"),
    "nothing is declared": (["a = Relu(x)", "b = Relu(a)"], "a", "x b"),
    "the last reader overwrites it": (["a = Relu(x)", "a = Relu(a)"], "a", "x"),
    "a declared one": (["out: a", "a = Relu(x)", "a = Relu(a)"], "", "x a"),
    "nobody reads it": (["in: x", "a = Relu(x)", "b = Relu(x)"], "", "x a b"),
    "written again behind its last reader": (["a = Relu(x)", "b = Relu(a)", "a = Relu(x)"], "", "x a b"),
    "read twice": (["a = Relu(x)", "b = Sum(a, a)", "c = Relu(a)"], "a", "x b c"),
    "overwritten input": (["in: x", "x = Relu(x)"], "", "x"),
    "read before it is written": (["b = Relu(x)", "x = Relu(b)"], "b", "x"),
}
"""Net in text form, blobs that are empty after it, blobs that hold a value; all as the genuine Caffe2 leaves them."""


def run(net: NetDef, times: int = 1) -> Workspace:
    """Run a net on `X`."""
    ws = Workspace()
    ws.feed("x", X)
    net.name, net.type = "n", "simple_refcount"
    ws.create_net(net)
    ws.run_net("n", times)
    return ws


def full(ws: Workspace) -> list[str]:
    """Return the blobs that hold something, sorted."""
    return [name for name in ws.blob_names() if not ws.blob(name).is_empty]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("times", [1, 3])
def test_what_is_emptied(case: str, times: int) -> None:
    lines, empty, kept = CASES[case]
    net = parse_net(*lines)
    ws = run(net, times)
    expected = sorted(kept.split())
    assert full(ws) == expected
    assert sorted(ws.blob_names()) == sorted([*expected, *empty.split()]), "blobs stay, empty"
    plain = Workspace()
    plain.feed("x", X)
    plain.create_net(NetDef(name="n", op=net.op))
    plain.run_net("n", times)
    for name in expected:
        np.testing.assert_array_equal(ws.fetch(name), plain.fetch(name), err_msg=name)


def test_an_emptied_blob_is_fetched_as_an_empty_one() -> None:
    ws = run(parse_net("in: x", "out: b", "a = Relu(x)", "b = Relu(a)"))
    assert ws.fetch("a") == b"a, a C++ native class of type nullptr (uninitialized)."


def test_who_asks_for_an_emptied_blob_is_told_who_emptied_it() -> None:
    ws = run(parse_net("in: x", "out: b", "a = Relu(x)", "b = Relu(a)"))
    with pytest.raises(BlobTypeError, match="'a' holds nullptr") as info:
        ws.blob("a").get(Tensor)
    assert info.value.hint == "made by net 'n' and freed after its last reader; list it in external_output"


def test_a_parameter_that_the_net_updates_is_kept() -> None:
    """Caffe2 empties it, declared as external input or not, and the second run fails."""
    ws = Workspace()
    ws.feed("w", X)
    ws.feed("one", np.ones(1, np.float32))
    ops = [
        operator_def("Relu", ["w"], ["a"]),
        operator_def("WeightedSum", ["w", "one", "a", "one"], ["w"]),
    ]
    ws.create_net(NetDef(name="n", type="simple_refcount", op=ops))
    ws.run_net("n", 3)
    np.testing.assert_array_equal(ws.fetch("w"), [-1, 16])
    assert full(ws) == ["one", "w"]


def test_counters_without_input_are_kept() -> None:
    """Caffe2 empties them, so that they start anew in every run."""
    ws = Workspace()
    ops = [operator_def("Iter", [], ["t"]), operator_def("Cast", ["t"], ["y"], to=1)]
    ws.create_net(NetDef(name="n", type="simple_refcount", op=ops))
    ws.run_net("n", 3)
    assert ws.fetch("y").tolist() == [3]
    assert last_readers(NetDef(op=[operator_def("GaussianFill", [], ["t"]), ops[1]])) == {"t": 1}


def test_a_failing_run_leaves_what_it_has_not_come_to() -> None:
    """As in Caffe2; and it runs again."""
    ws = Workspace()
    ws.feed("x", X)
    ops = [
        operator_def("Relu", ["x"], ["a"]),
        operator_def("Relu", ["a"], ["b"]),
        operator_def("Add", ["b", "w"], ["c"]),
        operator_def("Relu", ["c"], ["d"]),
    ]
    ws.feed("w", np.ones(3, np.float32))
    ws.create_net(NetDef(name="n", type="simple_refcount", op=ops, external_output=["d"]))
    for _ in range(2):
        with pytest.raises(ShapeError, match="stopped after 2 of 4 operators"):
            ws.run_net("n")
        assert ws.blob("a").is_empty
        assert ws.fetch("b").tolist() == [0, 2]
    ws.feed("w", np.ones(2, np.float32))
    ws.run_net("n")
    assert ws.fetch("d").tolist() == [1, 3]
    assert full(ws) == ["d", "w", "x"]


class Watcher(Observer[object]):
    """Notes the bytes in use, and holds the tensors weakly, when an operator has run."""

    def __init__(self, in_use: list[int], seen: list[weakref.ref[Any]]) -> None:
        self.in_use = in_use
        self.seen = seen

    def stop(self) -> None:
        self.in_use.append(current_allocator(CPUPlace()).statistics.in_use_bytes)
        assert isinstance(self.subject, Operator)
        value = self.subject.outputs[0].value
        assert isinstance(value, Tensor), "observers come before a blob is emptied"
        self.seen.append(weakref.ref(value))


LENGTH = 9
MEMORY = {"simple": (LENGTH, [LENGTH - 1, 0]), "simple_refcount": (1, [1, 1])}
"""Of a chain of operators: outputs that are alive after a run, and blobs by which memory grows in the first two."""


@pytest.mark.parametrize("kind", MEMORY)
def test_memory_is_given_back_in_the_course_of_a_run(kind: str) -> None:
    """In a chain two blobs hold memory at a time, and no operator keeps what it ran on."""
    size = 1 << 16
    alive, growth = MEMORY[kind]
    ops = [operator_def("Tanh", [f"b{i}"], [f"b{i + 1}"]) for i in range(LENGTH)]
    ws = Workspace()
    ws.feed("b0", np.ones(size, np.float32))
    net = ws.create_net(NetDef(name="n", type=kind, op=ops, external_output=[f"b{LENGTH}"]))
    for expected in growth:
        in_use: list[int] = []
        seen: list[weakref.ref[Any]] = []
        watchers = [operator.attach(Watcher(in_use, seen)) for operator in net.operators]
        net.run()
        for operator, watcher in zip(net.operators, watchers, strict=True):
            operator.detach(watcher)
        assert sum(one() is not None for one in seen) == alive
        assert round((max(in_use) - in_use[0]) / (4 * size)) == expected  # what others give back meanwhile is small


def test_a_sum_over_runs_is_kept() -> None:
    """An operator with inputs may go on from what its output holds."""
    home = Workspace()
    home.feed("x", np.ones(2, np.float32))
    ops = [operator_def("Accumulate", ["x"], ["y"]), operator_def("Relu", ["y"], ["z"])]
    home.create_net(NetDef(name="n", type="simple_refcount", op=ops, external_output=["z"]))
    home.run_net("n", 3)
    np.testing.assert_array_equal(home.fetch("z"), [3, 3])
