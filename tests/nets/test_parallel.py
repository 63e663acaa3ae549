"""Parallel net types against `simple`, to the last bit, and what they refuse."""

from __future__ import annotations

import time
from concurrent.futures import wait

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import DeadlineError, KernelError, NetError, RunCancelledError, TazzaError
from tazza.nets.run import Run
from tazza.proto import Argument, NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.nets.dags import PARALLEL, WORKERS, assert_same, operators, reference, subject
from tests.nets.simulated import mix, watching

pytestmark = pytest.mark.usefixtures("device")

types = st.sampled_from(PARALLEL)
workers = st.sampled_from(WORKERS)


@pytest.mark.slow
@settings(max_examples=60)
@given(operators(), types, workers)
def test_any_net_gives_the_bits_of_simple(ops: list[OperatorDef], type: str, count: int) -> None:
    expected, found = reference(ops), subject(ops, type, count)
    with watching(lambda: time.sleep(0)):
        for number in range(7):  # tasks are merged before the fifth
            if number in (0, 2):
                expected.feed(number)
                found.feed(number)
            expected.net.run()
            found.net.run()
            assert_same(found.values(), expected.values())
    found.net.close()


@pytest.mark.slow
@settings(max_examples=40)
@given(operators(draws=False), types, workers, st.data())
def test_a_net_that_failed_runs_again(ops: list[OperatorDef], type: str, count: int, data: st.DataObject) -> None:
    expected, found = reference(ops), subject(ops, type, count)
    failing = data.draw(st.sampled_from([op.name for op in ops]))
    with watching() as watch:
        for number in range(3):
            watch.plans[failing] = _fail
            with pytest.raises(TazzaError, match="planned") as caught:
                found.net.run()
            assert watch.running == 0, "all others were drained"
            assert failing in str(caught.value) or "found on stream" in str(caught.value)
            before = found.values()
            watch.plans.clear()
            assert_same(found.values(), before)
            expected.feed(number)
            found.feed(number)
            expected.net.run()
            found.net.run()
            assert_same(found.values(), expected.values())
    found.net.close()


def _fail() -> None:
    raise KernelError("planned")


@pytest.mark.slow
@settings(max_examples=40)
@given(
    operators(draws=False),
    st.sampled_from(["async_scheduling", "async_polling", "parallel"]),
    workers,
    st.booleans(),
    st.data(),
)
def test_a_run_ended_by_its_holder_can_be_run_again(
    ops: list[OperatorDef], type: str, count: int, late: bool, data: st.DataObject
) -> None:
    expected, found = reference(ops), subject(ops, type, count)
    at = data.draw(st.sampled_from([op.name for op in ops]))
    run: Run | None = None
    with watching() as watch:

        def end() -> None:
            if late:
                time.sleep(2e-3)
            while run is None:
                time.sleep(0)
            run.cancel()

        watch.plans[at] = end
        run = found.net.run_async(timeout_s=1e-3 if late else None)
        wait([run])
        assert run.error is None or isinstance(run.error, (DeadlineError, RunCancelledError))
        assert run.done()
        assert watch.running == 0
        watch.plans.clear()
        expected.feed(1)
        found.feed(1)
        expected.net.run()
        found.net.run_async().wait()
        assert_same(found.values(), expected.values())
    found.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_a_deadline_that_has_passed_starts_nothing(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 2)
    with watching() as watch:
        with pytest.raises(DeadlineError, match="did not end within 0 s"):
            made.net.run(timeout_s=0)
        assert watch.order == []
        made.net.run(timeout_s=float("inf"))
        assert watch.order == ["one"]
    made.net.close()


def test_numbers_of_workers_are_checked() -> None:
    with pytest.raises(NetError, match="num_workers = 0"):
        Workspace().create_net(NetDef(name="n", type="parallel"))
    with pytest.raises(NetError, match="num_workers = -1"):
        Workspace().create_net(NetDef(name="n", type="dag", num_workers=-1))
    with pytest.raises(NetError, match="threads_per_operator = 0"):
        Workspace().create_net(NetDef(name="n", type="dag", arg=[Argument(name="threads_per_operator", i=0)]))


@pytest.mark.parametrize("type", PARALLEL)
def test_nets_without_operators_run(type: str) -> None:
    net = Workspace().create_net(NetDef(name="n", type=type, num_workers=2))
    net.run()
    net.run_async().wait()
    net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_a_closed_net_refuses_to_run(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"])], type, 2)
    made.net.run()
    made.net.close()
    made.net.close()
    with pytest.raises(NetError, match="is closed"):
        made.net.run()
    with pytest.raises(NetError, match="is closed"):
        made.net.run_async()
