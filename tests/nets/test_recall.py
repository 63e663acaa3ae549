"""Nets that run as plans for programs that fetch any blob: what is there equals `simple`, at any time, in any order."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from caffe2.python import _extension_workspace as extension
from tazza.errors import NetError, NotFoundError, TazzaError
from tazza.models import Model
from tazza.nets.base import AS_PLANS, OVERRIDES
from tazza.nets.plan.net import PlanNet
from tazza.nets.plan.recall import RecallNet
from tazza.observers.benchmark import benchmark
from tazza.operator import operator_def, read_first, touched_by
from tazza.proto import NetDef
from tazza.tensor import Blob, Tensor
from tazza.tensor.serialization import serialize
from tazza.workspace import Workspace
from tests.nets.test_net_types import RECORDED_CASES, SMALL, STORED, Array, Case, close, tensors, zoo_case

RUNS = 4
KINKED = {"squeezenet", "mobilenet_v2"}
"""With so few values, gradients within them differ by several percent where a value crosses a kink by rounding."""
CASES = {
    **{f"recorded, {name}": case for name, case in RECORDED_CASES.items()},
    **{f"stored, {name}": case for name, case in STORED.items()},
    **{f"zoo, {name}": zoo_case(name, training=False) for name in SMALL},
    **{f"zoo, {name}, trained": zoo_case(name, training=True) for name in SMALL if name not in KINKED},
}


def started(case: Case, *, planned: bool) -> Workspace:
    ws = Workspace()
    case.feed(ws)
    net = NetDef()
    net.CopyFrom(case.net)
    net.name = "n"
    with AS_PLANS.override(planned):
        ws.create_net(net)
    return ws


def there(ws: Workspace) -> dict[str, Array]:
    """Return the tensors that are there, without asking for any."""
    held = {name: blob.value for name, blob in ws.blobs.items()}
    return {name: value.plain() for name, value in held.items() if isinstance(value, Tensor) and value.allocated}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in CASES])
def test_what_is_there_is_that_of_simple(name: str) -> None:
    """A few blobs are asked for after each run; who asked once is never told again that a blob is gone."""
    case, source = CASES[name], random.Random(name)
    simple, planned = started(case, planned=False), started(case, planned=True)
    assert isinstance(planned.net("n"), RecallNet)
    writes = sorted(touched_by(case.net).writes)
    asked: set[str] = set()
    for run in range(RUNS):
        for ws in (simple, planned):
            ws.run_net("n")
        expected = tensors(simple)
        left = there(planned)
        close({blob: expected[blob] for blob in left}, left, case.tolerance)
        assert run or left.keys() >= expected.keys(), "the first run keeps all"
        for blob in source.sample(writes, min(2, len(writes))):
            try:
                close({blob: expected[blob]}, {blob: planned.fetch(blob)}, case.tolerance)
            except NotFoundError:
                assert blob not in asked
                assert run
            asked.add(blob)


def model() -> tuple[Workspace, NetDef]:
    built = Model("m")
    hidden = built.relu(built.fc("data", "sums", 3, 4), "hidden")
    built.softmax(built.fc(hidden, "scores", 4, 5), "softmax")
    ws = Workspace()
    ws.feed("data", np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    ws.run_net_once(built.init_net.export())
    return ws, built.net.export()


def made(ws: Workspace, net: NetDef, name: str) -> RecallNet:
    net.name = name
    with AS_PLANS.override(True):
        found = ws.create_net(net)
    assert isinstance(found, RecallNet)
    return found


def steps(net: RecallNet) -> list[str]:
    return [row.operator for row in net.explain().rows]


def test_what_nobody_asked_for_is_fused_and_comes_back_once_it_is() -> None:
    ws, definition = model()
    net = made(ws, definition, "n")
    net.run()
    assert steps(net) == ["FC", "Relu", "FC", "Softmax"]
    softmax = ws.fetch("softmax")
    net.run()
    assert "Relu" not in steps(net)
    assert ws.blobs["sums"].is_empty
    np.testing.assert_array_equal(np.maximum(ws.fetch("sums"), 0), ws.fetch("hidden"))
    net.run()
    np.testing.assert_allclose(ws.fetch("softmax"), softmax, rtol=1e-6)
    assert not ws.blobs["sums"].is_empty


def test_numbers_of_other_inputs_are_not_given() -> None:
    ws, definition = model()
    net = made(ws, definition, "n")
    for _ in range(2):
        net.run()
    ws.feed("data", np.zeros((2, 3), np.float32))
    with pytest.raises(NotFoundError, match="nobody had asked for 'sums' before: run it again"):
        ws.fetch("sums")
    net.run()
    assert ws.fetch("sums").shape == (2, 4)


@pytest.mark.parametrize("first", [True, False])
def test_what_other_nets_read_is_kept(first: bool) -> None:
    """Whether the reader was made before or after."""
    ws, definition = model()
    reader = NetDef(name="reader", op=[operator_def("Negative", ["sums"], ["minus"])])
    assert read_first(reader.op) == ("sums",)
    if first:
        ws.create_blob("sums")
        ws.create_net(reader)
    net = made(ws, definition, "n")
    for _ in range(3):
        net.run()
    if not first:
        ws.create_net(reader)
    ws.run_net("reader")
    np.testing.assert_array_equal(ws.fetch("minus"), -ws.fetch("sums"))
    ws.run_operator(operator_def("Exp", ["sums"], ["exp"]))
    np.testing.assert_allclose(ws.fetch("exp"), np.exp(ws.fetch("sums")), rtol=1e-6)


def test_of_two_nets_the_one_that_ran_last_is_asked() -> None:
    ws, definition = model()
    other = NetDef()
    other.CopyFrom(definition)
    for op in (other, *other.op):
        names = op.external_input if isinstance(op, NetDef) else op.input
        names[:] = ["data2" if name == "data" else name for name in names]
    ws.feed("data2", -ws.fetch("data"))
    one, two = made(ws, definition, "one"), made(ws, other, "two")
    for net in (one, two, one, two, one):
        net.run()
    found = ws.fetch("sums")
    ws.run_net_once(definition)
    np.testing.assert_allclose(ws.fetch("sums"), found, rtol=1e-6)


def test_what_a_net_keeps_by_itself_stays_kept() -> None:
    ws, definition = model()
    definition.arg.add(name="keep").strings.append(b"sums")
    net = made(ws, definition, "n")
    for _ in range(3):
        net.run()
    assert not ws.blobs["sums"].is_empty


DOORS: dict[str, Callable[[Workspace], object]] = {
    "fetch": lambda ws: ws.fetch("sums"),
    "the extension's blob": lambda ws: extension.Workspace.showing(ws).blobs["sums"].fetch(),
    "a message of the extension's blob": lambda ws: extension.Workspace.showing(ws).blobs["sums"].serialize("sums"),
    "the extension's workspace": lambda ws: extension.Workspace.showing(ws).fetch_blob("sums"),
    "an operator": lambda ws: ws.run_operator(operator_def("Copy", ["sums"], ["copied"])),
    "a net": lambda ws: ws.run_net_once(NetDef(name="once", op=[operator_def("Copy", ["sums"], ["copied"])])),
    "a net that is kept": lambda ws: (
        ws.create_net(NetDef(name="kept", op=[operator_def("Copy", ["sums"], ["copied"])]), overwrite=True),
        ws.run_net("kept"),
    ),
    "a plan": lambda ws: ws.run_net_once(
        NetDef(
            name="p",
            type="plan",
            op=[operator_def("Exp", ["sums"], ["a"]), operator_def("Exp", ["a"], ["b"])],
            external_input=["sums"],
            external_output=["b"],
        )
    ),
    "a file": lambda ws: save(ws.blob("sums")),
}


def save(blob: Blob) -> bytes:
    return serialize(blob, "sums")


def two_layers() -> tuple[Workspace, RecallNet]:
    """Return a net that ran twice, the second time without `sums` and `more`, and whose input is another one now."""
    built = Model("m")
    hidden = built.relu(built.fc("data", "sums", 3, 4), "hidden")
    built.relu(built.fc(hidden, "more", 4, 5), "last")
    ws = Workspace()
    ws.feed("data", np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    ws.run_net_once(built.init_net.export())
    net = made(ws, built.net.export(), "n")
    for _ in range(2):
        net.run()
    assert ws.blobs["sums"].is_empty
    assert ws.blobs["more"].is_empty
    ws.feed("data", np.zeros((2, 3), np.float32))
    return ws, net


@pytest.mark.parametrize("again", DOORS)
@pytest.mark.parametrize("first", [*DOORS, "fetch another"])
def test_through_every_door_a_blob_is_there_or_an_error_says_to_run_again(first: str, again: str) -> None:
    """Through whichever door somebody came before, and however often; once the net ran again it is there."""
    ws, net = two_layers()
    doors: dict[str, Callable[[Workspace], object]] = {**DOORS, "fetch another": lambda ws: ws.fetch("more")}
    for door in (first, again, again):
        with pytest.raises(TazzaError) as raised:
            doors[door](ws)
        assert "run it again" in str(raised.value)
    net.run()
    DOORS[again](ws)
    assert ws.fetch("sums").shape == (2, 4)


def test_a_blob_that_somebody_feeds_is_what_was_fed() -> None:
    ws, _ = two_layers()
    ws.feed("sums", np.ones(3, np.float32))
    np.testing.assert_array_equal(ws.fetch("sums"), np.ones(3, np.float32))


def test_a_run_that_fails_leaves_no_numbers_that_nobody_asked_for() -> None:
    ws, net = two_layers()
    ws.feed("data", np.zeros((2, 7), np.float32))
    with pytest.raises(TazzaError):
        net.run()
    with pytest.raises(NotFoundError, match="run it again"):
        ws.fetch("sums")


def test_a_benchmark_times_the_operators_of_the_definition() -> None:
    ws, net = two_layers()
    assert len(benchmark(net, warm_up=1, runs=2, each=True)) == 1 + 4
    assert ws.fetch("sums").shape == (2, 4)


def test_a_type_that_nobody_knows_is_refused_under_the_flag_too() -> None:
    with AS_PLANS.override(True), pytest.raises(NetError, match="unknown type 'dagg'"):
        Workspace().create_net(NetDef(name="n", type="dagg"))


def test_a_plan_stays_what_it_is_under_the_flag() -> None:
    """Who writes `plan` knows which blobs are kept; its overriding type counts, not the one that it names."""
    with AS_PLANS.override(True):
        assert type(Workspace().create_net(NetDef(name="n", type="plan"))) is PlanNet
        assert type(Workspace().create_net(NetDef(name="n", type="dag"))) is RecallNet
        with OVERRIDES.override("dag,plan"):
            assert type(Workspace().create_net(NetDef(name="n", type="dag"))) is PlanNet
