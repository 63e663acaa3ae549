"""Laws over all operators that hold nets: whoever walks `Operator.nets` meets every operator that ran, and ends it."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest

from tazza.errors import DeadlineError, KernelError, NetError, RunCancelledError
from tazza.operator import (
    ANY,
    KERNELS,
    SCHEMAS,
    Effects,
    Observer,
    Operator,
    ends,
    host_kernel,
    kernel_key,
    operator_def,
    schema,
)
from tazza.operator.nested import all_operators, change_nested
from tazza.operator.owner import RunnableNet
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.nested_case import Nested
from tests.operator.test_kinds import cases_in, family_of
from tests.recorded_nets import Recorded, read_recorded

GOLDEN = Path(__file__).parents[1] / "data" / "golden"
OWNERS = sorted(name for name in SCHEMAS if any(spec.takes(NetDef) for spec in SCHEMAS[name].args.values()))
SOON_S = 60.0
"""What ends, ends long before; what hangs never does."""

RAN: list[Operator] = []
"""The operators `TestStay` that ran, in order."""
HELD = threading.Event()
"""Set while they wait until they are told to give up."""


@pytest.fixture(scope="module", autouse=True)
def operators() -> Generator[None]:
    """Have a host operator that is told of, and that waits where the test says."""
    made = schema("TestStay", "Waits.", effects=Effects.STATE, no_gradient=ends("a test"))

    class Stay:
        """A kernel that waits."""

        def __init__(self, operator: Operator) -> None:
            """Wait for nothing."""
            self._operator = operator
            self._told = threading.Event()

        def run(self) -> None:
            """Wait, where the test says."""
            RAN.append(self._operator)
            if HELD.is_set():
                assert self._told.wait(SOON_S), "nobody asked it to give up"
                raise KernelError("gave up")

        def cancel(self) -> None:
            """Give up."""
            self._told.set()

    host_kernel(made)(Stay)
    yield
    SCHEMAS.unregister("TestStay")
    KERNELS.unregister(kernel_key("TestStay", "reference", ANY))


@pytest.fixture(autouse=True)
def anew() -> Generator[None]:
    """Begin with nothing that ran and nobody who waits."""
    RAN.clear()
    yield
    HELD.clear()


@cache
def recordings() -> list[Recorded]:
    """Return the recorded nets, small ones first."""
    paths = [path for folder in ("nets", "recurrent") for path in (GOLDEN / folder).glob("*.npz")]
    return [read_recorded(path) for path in sorted(paths, key=lambda path: (path.stat().st_size, path.name))]


def staying(owner: str) -> tuple[Workspace, NetDef]:
    """Return a net in which all nets that operators of a type hold begin with `TestStay`."""
    case = next((one for one in recordings() if owner in {op.type for op, _ in all_operators(one.net)}), None)
    home, net = Workspace(), NetDef()
    if case is None:  # Caffe2 had none
        module = importlib.import_module(family_of(SCHEMAS[owner]))
        made = next(one for one in cases_in(module) if isinstance(one, Nested) and owner in one.types())
        fed = made.fed
        net.op.extend(made.ops)
    else:
        fed, net = case.fed, NetDef.FromString(case.net.SerializeToString())
    for name, value in fed.items():
        home.feed(name, value)
    _put_in(net, owner)
    return home, net


def _put_in(net: NetDef, owner: str) -> None:
    for op in net.op:
        change_nested(op, lambda inner: _put_in(inner, owner))
        if op.type == owner:
            change_nested(op, lambda inner: inner.op.insert(0, operator_def("TestStay", [], [])))


def walked(net: RunnableNet) -> Iterator[tuple[RunnableNet, Operator]]:
    """Yield all operators that `Operator.nets` leads to, with the nets that they stand in."""
    for operator in net.operators:
        yield net, operator
        for inner in operator.nets:
            yield from walked(inner)


class Counts(Observer[Operator]):
    """Counts the runs of all operators that it sees."""

    def __init__(self) -> None:
        self.runs = 0

    def stop(self) -> None:
        """Count."""
        self.runs += 1


@pytest.mark.parametrize("owner", OWNERS)
def test_operators_within_are_found_observed_and_closed(owner: str) -> None:
    home, definition = staying(owner)
    net = home.create_net(definition)
    net.run()
    assert RAN
    met = {id(operator) for _, operator in walked(net)}
    assert all(id(operator) in met for operator in RAN)
    within = {id(inner): inner for inner, _ in walked(net) if inner is not net}
    counts = Counts()
    for _, operator in walked(net):
        if operator.op.type == "TestStay":
            operator.attach(counts)  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
    RAN.clear()
    net.run()
    assert counts.runs == len(RAN) > 0
    home.delete_net(net.name)
    for inner in within.values():
        with pytest.raises(NetError, match="closed"):
            inner.run()
    assert not any(operator.nets for operator in net.operators)


@pytest.mark.parametrize("kind", ["simple", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("plan", "dag"))])
@pytest.mark.parametrize("owner", OWNERS)
def test_a_deadline_ends_who_waits_within(owner: str, kind: str) -> None:
    HELD.set()
    timeout_s = 0.05
    while not RAN and timeout_s < SOON_S:  # on a busy machine it may pass before anything begins
        home, definition = staying(owner)
        definition.type, definition.num_workers = kind, 2
        net = home.create_net(definition)
        with pytest.raises(DeadlineError):
            net.run(timeout_s=timeout_s)
        home.delete_net(net.name)
        timeout_s *= 2
    assert RAN


@pytest.mark.parametrize("owner", OWNERS)
def test_closing_ends_who_waits_within(owner: str) -> None:
    home, definition = staying(owner)
    net = home.create_net(definition)
    HELD.set()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            net.run()
        except (RunCancelledError, KernelError) as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    while not RAN and thread.is_alive():
        thread.join(0.001)
    net.close()
    thread.join(SOON_S)
    assert len(failed) == 1
