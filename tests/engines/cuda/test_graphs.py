"""Plans on a CUDA device queue recorded graphs: what is recorded, when anew, and that numbers and errors stay."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
import pytest

import tazza.codegen
import tazza.operator
import tazza.ops
from tazza.device import device_option
from tazza.engines import cublas, cuda, cudnn, gemm, native, nccl, onednn
from tazza.errors import NumericError, UnsupportedError
from tazza.nets import NetBase
from tazza.nets.plan.recorded import GRAPHS
from tazza.operator import SCHEMAS, Launch, operator_def
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import CPUPlace, CUDAPlace, Place
from tazza.workspace import Workspace
from tests.check import Case
from tests.device.cuda_cases import all_cases
from tests.engines.cuda.updates import TYPES, problem

DEVICE = CUDAPlace(0)
CHAIN = ("Softmax", "Negative", "Softmax", "Negative")
"""A plan makes no one kernel of these."""


def chain(types: Sequence[str] = CHAIN) -> NetDef:
    """Return a plan of operators of one input, one behind the other: X -> 0 -> 1 ... -> Y."""
    net = NetDef(name="chain", type="plan", device_option=device_option(DEVICE))
    names = ["X", *map(str, range(len(types) - 1)), "Y"]
    net.op.extend(operator_def(type, [names[k]], [names[k + 1]]) for k, type in enumerate(types))
    net.external_output.extend(names[1:])  # nothing is fused away
    return net


def through(rows: Any) -> Any:
    """Return what `CHAIN` computes of rows."""
    for _ in range(2):
        powers = np.exp(rows)
        rows = -powers / powers.sum(1, keepdims=True)
    return rows


def graphs(net: NetBase) -> list[int | None]:
    """Return which graph each step is in."""
    return [row.graph for row in net.explain().rows]


def made(ops: Sequence[OperatorDef], outputs: Sequence[str], place: Place) -> NetDef:
    """Return a plan there, what it computes by single operators on the host."""
    net = NetDef(name="made", type="simple" if place.is_host else "plan", device_option=device_option(place))
    net.op.extend(ops)
    net.external_output.extend(outputs)
    return net


def test_the_second_run_records_and_later_ones_follow_what_is_fed() -> None:
    workspace, X = Workspace(), np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
    workspace.feed("X", X, DEVICE)
    net = workspace.create_net(chain())
    for number in range(4):
        workspace.feed("X", number * X, DEVICE)
        net.run()
        np.testing.assert_allclose(workspace.fetch("Y"), through(number * X), rtol=1e-5)
        assert graphs(net) == [1 if number else None] * 4
    assert "graph 1" in str(net.explain())


def test_another_shape_and_other_memory_are_recorded_anew() -> None:
    workspace = Workspace()
    workspace.feed("X", np.ones((2, 3), np.float32), DEVICE)
    net = workspace.create_net(chain())
    for shape in (3, 3, 3, 5, 5, 5, 3, 3, 3):
        values = np.arange(2 * shape, dtype=np.float32).reshape(2, shape)
        workspace.feed("X", values, DEVICE)
        net.run()
        np.testing.assert_allclose(workspace.fetch("Y"), through(values), rtol=1e-5)
    for number in range(4):
        workspace.blob("X").reset()
        values = np.full((2, 3), number, np.float32) * np.arange(3, dtype=np.float32)
        workspace.feed("X", values, DEVICE)
        net.run()
        np.testing.assert_allclose(workspace.fetch("Y"), through(values), rtol=1e-5)


def test_a_flag_switches_graphs_off() -> None:
    workspace = Workspace()
    workspace.feed("X", np.ones((2, 3), np.float32), DEVICE)
    net = workspace.create_net(chain())
    with GRAPHS.override(False):
        for _ in range(3):
            net.run()
        assert graphs(net) == [None] * 4
    net.run()
    net.run()
    assert graphs(net) == [1] * 4


def test_what_the_host_draws_cuts_and_is_drawn_anew() -> None:
    ops = [
        operator_def("Softmax", ["X"], ["a"]),
        operator_def("Negative", ["a"], ["b"]),
        operator_def("Dropout", ["b"], ["c", "mask"], ratio=0.5, is_test=0),
        operator_def("ConstantFill", [], ["half"], shape=[4, 16], value=0.5),
        operator_def("Mul", ["c", "half"], ["d"]),
        operator_def("Softmax", ["d"], ["e"]),
    ]
    ops[2].device_option.random_seed = 7
    found: list[Any] = []
    for place in (DEVICE, CPUPlace()):
        workspace = Workspace()
        workspace.feed("X", np.linspace(1, 2, 64, dtype=np.float32).reshape(4, 16), place)
        net = workspace.create_net(made(ops, ["a", "b", "c", "half", "d", "e", "mask"], place))
        for _ in range(4):
            net.run()
            found.append(workspace.fetch("d"))
        if place == DEVICE:
            rows = {row.operator: row.graph for row in net.explain().rows}
            assert rows == {"Softmax": 2, "Negative": 1, "Dropout": None, "ConstantFill": 2, "Mul": 2}
    np.testing.assert_allclose(found[:4], found[4:], rtol=1e-5)
    assert not np.array_equal(found[2], found[3])


def test_a_wrong_label_is_told_by_a_graph_too_and_the_net_goes_on() -> None:
    ops = [operator_def("Negative", ["X"], ["Z"]), operator_def("SoftmaxWithLoss", ["Z", "label"], ["P", "loss"])]
    workspace = Workspace()
    workspace.feed("X", np.zeros((2, 3), np.float32), DEVICE)
    workspace.feed("label", np.array([0, 2], np.int32), DEVICE)
    net = workspace.create_net(made(ops, ["Z", "P", "loss"], DEVICE))
    net.run()
    net.run()
    assert set(graphs(net)) == {1}
    for _ in range(2):
        workspace.feed("label", np.array([0, 3], np.int32), DEVICE)
        with pytest.raises(NumericError, match="a label that is no class"):
            net.run()
        workspace.feed("label", np.array([0, 2], np.int32), DEVICE)
        net.run()
        assert workspace.fetch("loss") == pytest.approx(np.log(3))


def launches() -> Iterator[type]:
    """Yield all classes of launches: whose `bind` is given operands and nothing else."""
    for package in (cublas, cuda, cudnn, gemm, native, nccl, onednn, tazza.codegen, tazza.operator, tazza.ops):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for made in vars(importlib.import_module(module.name)).values():
                if isinstance(made, type) and made.__module__ == module.name and hasattr(made, "bind"):
                    given = list(inspect.signature(cast("Any", made).bind).parameters)
                    names = {*dir(made), *getattr(made, "__dataclass_fields__", ())}
                    if given == ["self", "operands"] and made is not Launch and "scratch_bytes" in names:
                        yield made


def test_each_launch_says_whether_it_may_be_recorded() -> None:
    found = {made.__name__: made for made in launches()}
    assert {"GridLaunch", "ProductLaunch", "DropoutLaunch", "CudnnLaunch", "LaunchChain", "BlockLaunch"} <= {*found}
    for made in found.values():
        names = {*dir(made), *getattr(made, "__dataclass_fields__", ())}
        assert "capturable" in names, made


def graphed(ops: Sequence[OperatorDef], given: Mapping[str, Any], looked_at: Sequence[str], runs: int = 5) -> NetBase:
    """Run a net on the device and on the host, in turn, and compare blobs; return the one of the device.

    `given` are fed once; those of host letters stay on the host.
    """
    there, here = Workspace(), Workspace()
    host = {
        name
        for op in ops
        for name, letter in zip(op.input, SCHEMAS[op.type].view(op).input_letters, strict=True)
        if SCHEMAS[op.type].inputs_by_letter[letter].host
    }
    for name, value in given.items():
        there.feed(name, value, CPUPlace() if name in host else DEVICE)
        here.feed(name, value)
    outputs = [name for op in ops for name in op.output]
    net, judge = (at.create_net(made(ops, outputs, place)) for at, place in ((there, DEVICE), (here, CPUPlace())))
    for _ in range(runs):
        net.run()
        judge.run()
        for name in looked_at:
            np.testing.assert_allclose(there.fetch(name), here.fetch(name), rtol=1e-5, atol=1e-6)
    return net


def test_extents_that_the_host_tells_do_not_cut() -> None:
    ops = [
        operator_def("Softmax", ["X"], ["a"]),
        operator_def("Negative", ["X"], ["b"]),
        operator_def("Concat", ["a", "b"], ["c", "info"], axis=1),
        operator_def("Softmax", ["c"], ["d"]),
        operator_def("Split", ["d", "info"], ["e", "f"], axis=1),
        operator_def("Reshape", ["e"], ["g", "old"], shape=[-1]),
        operator_def("Negative", ["g"], ["h"]),
        operator_def("Reshape", ["h", "old"], ["i", "older"]),
        operator_def("Softmax", ["i"], ["j"]),
    ]
    given = {"X": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}
    net = graphed(ops, given, ["c", "d", "info", "old", "older", "j"])
    assert graphs(net) == [1] * len(ops)


def test_what_the_host_told_is_told_again_in_each_run() -> None:
    ops = [operator_def("Negative", ["X"], ["a"]), operator_def("Concat", ["a", "X"], ["Y", "info"], axis=0)]
    workspace = Workspace()
    workspace.feed("X", np.ones((2, 3), np.float32), DEVICE)
    net = workspace.create_net(made(ops, ["a", "Y", "info"], DEVICE))
    for _ in range(4):
        net.run()
        assert workspace.fetch("info").tolist() == [2, 2]
        workspace.feed("info", np.zeros(2, np.int32))
    assert graphs(net) == [1, 1]


def test_counters_of_the_host_are_read_anew_and_do_not_cut() -> None:
    random = np.random.default_rng(3)
    rows = random.standard_normal((4, 3)).astype(np.float32)
    given = {
        **{name: np.zeros_like(rows) if name[0] == "m" else rows for name in ("w", "m1", "m2", "s", "m3", "m4", "X")},
        "lr": np.full(1, 0.1, np.float32),
        "iter": np.zeros(1, np.int64),
        "indices": np.array([2, 0], np.int64),
        "g": rows[:2],
    }
    ops = [
        operator_def("Softmax", ["X"], ["a"]),
        operator_def("Iter", ["iter"], ["iter"]),
        operator_def("Adam", ["w", "m1", "m2", "a", "lr", "iter"], ["w", "m1", "m2"]),
        operator_def("SparseAdam", ["s", "m3", "m4", "indices", "g", "lr", "iter"], ["s", "m3", "m4"]),
        operator_def("Negative", ["w"], ["b"]),
    ]
    net = graphed(ops, given, ["w", "m1", "m2", "s", "m3", "m4", "b"])
    assert {row.operator: row.graph for row in net.explain().rows} == {
        "Iter": None,
        **dict.fromkeys(("Softmax", "Adam", "SparseAdam", "Negative"), 1),
    }


@pytest.mark.parametrize("graphs_too", [True, False])
def test_graphs_give_the_bits_of_launches_one_by_one(graphs_too: bool) -> None:
    workspace = Workspace()
    workspace.feed("X", np.linspace(-2, 2, 60, dtype=np.float32).reshape(3, 20), DEVICE)
    workspace.feed("W", np.linspace(-1, 1, 80, dtype=np.float32).reshape(4, 20), DEVICE)
    workspace.feed("b", np.ones(4, np.float32), DEVICE)
    ops = [operator_def("FC", ["X", "W", "b"], ["Z"]), operator_def("Softmax", ["Z"], ["P"])]
    net = workspace.create_net(made(ops, ["Z", "P"], DEVICE))
    with GRAPHS.override(graphs_too):
        found: list[Any] = []
        for _ in range(3):
            net.run()
            found.append(workspace.fetch("P"))
        assert graphs(net) == [1 if graphs_too else None] * 2
    with GRAPHS.override(not graphs_too):
        for _ in range(3):
            net.run()
            found.append(workspace.fetch("P"))
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


@pytest.mark.parametrize("type", [type for type in TYPES if "iter" in SCHEMAS[type].inputs_by_letter])
def test_no_counter_of_an_update_of_rows_cuts(type: str) -> None:
    op, inputs = problem(type)
    ops = [operator_def("Iter", ["iter"], ["iter"]), operator_def("Negative", ["x"], ["y"]), op]
    given = dict(zip(op.input, inputs, strict=True)) | {"x": np.ones(3, np.float32)}
    net = graphed(ops, given, list(op.output))
    assert [row.graph for row in net.explain().rows] == [None, 1, 1]


def of_host(case: Case) -> bool:
    """Whether an operator reads or tells something on the host, beside what it does on the device."""
    schema, op = SCHEMAS[case.type], SCHEMAS[case.type].view(case.definition(""))
    told = [schema.outputs_by_letter[letter].host for letter in op.output_letters]
    read = [schema.inputs_by_letter[letter].host for letter in op.input_letters]
    return not schema.inputs_can_cross_devices and any((*told, *read)) and not all(read)


@pytest.mark.slow
def test_what_lies_on_the_host_gives_the_numbers_of_the_cpu_in_plans() -> None:
    compared = 0
    for case in filter(of_host, all_cases("cuda")):
        op = case.definition("")
        try:
            graphed([op], dict(zip(op.input, case.arrays(), strict=True)), list(op.output), runs=3)
        except UnsupportedError:  # with these arguments there is no kernel
            continue
        compared += 1
    assert compared > 3
