"""Contexts, guards, events and device options."""

from __future__ import annotations

import threading

import pytest

from tazza.device import (
    Context,
    CPUContext,
    DeviceGuard,
    Event,
    EventState,
    current_context,
    current_place,
    device_option,
    device_scope,
    merge,
    place_of,
    scoped_device,
)
from tazza.errors import ArgumentError, TazzaError, UnavailableError
from tazza.proto import DeviceOption
from tazza.tensor import CPUPlace, CUDAPlace


def test_resources_are_made_once_and_closed_in_reverse() -> None:
    context, log = CPUContext(), list[str]()

    def make(name: str) -> str:
        log.append(f"make {name}")
        return name

    for _ in range(2):
        assert context.resource("blas", lambda: make("blas"), lambda name: log.append(f"close {name}")) == "blas"
        assert context.resource("dnn", lambda: make("dnn"), lambda name: log.append(f"close {name}")) == "dnn"
    context.close()
    assert log == ["make blas", "make dnn", "close dnn", "close blas"]


def test_scratch_grows_and_former_users_keep_theirs() -> None:
    context = CPUContext()
    small = context.scratch(100)
    assert context.scratch(50) is small
    large = context.scratch(10_000)
    assert large.nbytes >= 10_000
    assert large.address % 64 == 0
    small.buffer[:] = 1  # still owned by whoever was bound to it


def test_contexts_belong_to_a_thread_and_a_place() -> None:
    seen: list[Context] = []
    thread = threading.Thread(target=lambda: seen.append(current_context(CPUPlace())))
    thread.start()
    thread.join()
    assert current_context(CPUPlace()) is current_context(CPUPlace())
    assert seen[0] is not current_context(CPUPlace())
    assert seen[0].key == current_context(CPUPlace()).key


def test_a_device_that_is_not_there() -> None:
    with pytest.raises(UnavailableError, match="no device cuda:3 here"):
        current_context(CUDAPlace(3))
    with pytest.raises(UnavailableError, match="no device cuda:3"), DeviceGuard(CUDAPlace(3)):
        pass
    assert current_place() == CPUPlace()


def test_guards_nest_and_restore_after_errors() -> None:
    def fail(outer: Context) -> None:
        with DeviceGuard(CPUPlace()) as inner:
            assert inner is outer
            raise ValueError("inside")

    with DeviceGuard(CPUPlace()) as outer:
        with pytest.raises(ValueError, match="inside"):
            fail(outer)
        assert current_place() == CPUPlace()


def test_the_states_of_an_event() -> None:
    """Facts table: initialized, scheduled, success, failed."""
    event = Event()
    assert event.state is EventState.INITIALIZED
    assert not event.wait(timeout_s=0.001)
    event.schedule()
    with pytest.raises(TazzaError, match="event is scheduled"):
        event.schedule()
    event.finish(ValueError("broken"))
    assert event.state is EventState.FAILED
    with pytest.raises(ValueError, match="broken"):
        event.wait()
    event.reset()
    CPUContext().record(event)
    assert event.wait()


def test_waiting_blocks_until_another_thread_finishes() -> None:
    event = Event()
    event.schedule()
    thread = threading.Timer(0.01, event.finish)
    thread.start()
    CPUContext().wait_for(event)
    assert event.state is EventState.SUCCESS
    thread.join()


def test_options_name_places() -> None:
    assert place_of(DeviceOption()) == CPUPlace()
    assert place_of(device_option(CUDAPlace(2))) == CUDAPlace(2)
    assert place_of(DeviceOption(device_type=5, device_id=1)) == CPUPlace()  # IDEEP
    with pytest.raises(UnavailableError, match="device type 7"):
        place_of(DeviceOption(device_type=7))
    with pytest.raises(ArgumentError, match="random_seed = -1"):
        device_option(random_seed=-1)


def test_scopes_replace_each_other_but_for_the_node() -> None:
    """behaviours.md row 30."""
    assert scoped_device() is None
    with device_scope(device_option(CUDAPlace(1), node_name="N")):
        with device_scope(device_option()) as inner:
            assert inner is not None
            assert (inner.device_type, inner.device_id, inner.node_name) == (0, 0, "N")
            assert scoped_device() == inner
        outer = scoped_device()
        assert outer is not None
        assert outer.device_id == 1
    assert scoped_device() is None


def test_merging_keeps_the_fields_of_the_inner_option() -> None:
    merged = merge(device_option(random_seed=7, node_name="a"), DeviceOption(node_name="b"))
    assert (merged.random_seed, merged.node_name) == (7, "b")
