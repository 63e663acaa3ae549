"""States of a DNN library that threads share."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.device import DNNLibrary, Event, Stream, close_dnn_states, dnn_state, streaming
from tazza.device.dnn_state import DNN_LIBRARIES, DNN_STATES
from tazza.errors import ArgumentError, NotFoundError, TazzaError
from tazza.tensor import CPUPlace, Place, default_allocator
from tests.device.host_stream import HostStream

LONG_S = 60.0


@pytest.fixture
def handles() -> Generator[list[str]]:
    """A library of the CPU, and what became of its handles."""
    log: list[str] = []

    def create(place: Place, stream: Stream) -> str:
        log.append(f"made on {place}")
        return stream.name

    DNN_LIBRARIES.register("cpu", DNNLibrary(create, lambda handle: log.append(f"ended {handle}")))
    try:
        yield log
    finally:
        close_dnn_states(CPUPlace())
        DNN_LIBRARIES.unregister("cpu")


def test_a_handle_is_made_on_first_use_and_ended_by_closing(handles: list[str]) -> None:
    with dnn_state(CPUPlace(), 1) as state:
        assert handles == []
        assert state.handle == state.handle == "cpu normal 34"
    with dnn_state(CPUPlace(), 1) as again:
        assert again is state
    assert handles == ["made on cpu"]
    close_dnn_states(CPUPlace())
    assert handles == ["made on cpu", "ended cpu normal 34"]
    with dnn_state(CPUPlace(), 1) as state:
        assert state.handle
    assert handles[2:] == ["made on cpu"]


def test_a_workspace_grows_is_used_again_and_is_given_back(handles: list[str]) -> None:
    close_dnn_states(CPUPlace())
    before = default_allocator().statistics.in_use_bytes
    with dnn_state(CPUPlace()) as state:
        small = state.workspace(1000)
        assert state.workspace(10) is small
        del small
        large = state.workspace(100_000)
        assert state.workspace_bytes == 100_000
    with dnn_state(CPUPlace()) as state:
        assert state.workspace(5000) is large
    del large
    assert default_allocator().statistics.in_use_bytes == before + 100_000
    close_dnn_states(CPUPlace())
    assert default_allocator().statistics.in_use_bytes == before


def test_a_workspace_lives_as_long_as_work_may_use_it(handles: list[str]) -> None:
    user, gate = HostStream(CPUPlace(), 0), Event()
    user.wait_for(gate)
    before = default_allocator().statistics.in_use_bytes
    with dnn_state(CPUPlace(), 2, user) as state:
        state.workspace(3000)
        state.workspace(5000)
        meanwhile = default_allocator().statistics.in_use_bytes
    gate.finish()
    user.synchronize()
    assert meanwhile == before + 8000
    assert default_allocator().statistics.in_use_bytes == before + 5000


def test_the_streams_are_joined_before_and_after(handles: list[str]) -> None:
    user, gate, seen = HostStream(CPUPlace(), 0), Event(), list[str]()
    user.wait_for(gate)
    user.submit(lambda: seen.append("before"))
    with streaming(user), dnn_state(CPUPlace()) as state:
        state.stream.submit(lambda: seen.append("inside"))
    user.submit(lambda: seen.append("after"))
    assert seen == [], "nobody waited"
    gate.finish()
    user.synchronize()
    assert seen == ["before", "inside", "after"]


def test_without_a_stream_all_is_done_at_the_end(handles: list[str]) -> None:
    seen: list[int] = []
    with dnn_state(CPUPlace()) as state:
        state.stream.submit(lambda: seen.append(1))
    assert seen == [1]


def fail() -> None:
    """Fail as work does."""
    raise ValueError("convolution failed")


def use(seen: list[int], user: Stream | None = None, *, fails: bool = False, raises: bool = False) -> None:
    """Queue work that may fail in a block that may raise."""
    with dnn_state(CPUPlace(), 0, user) as state:
        state.stream.submit(fail if fails else lambda: seen.append(1))
        if raises:
            raise KeyError("in the block")


def test_failures_leave_the_state_to_the_next_user(handles: list[str]) -> None:
    seen: list[int] = []
    with pytest.raises(KeyError, match="in the block"):
        use(seen, raises=True)
    assert seen == [1], "what was queued before is done"
    with pytest.raises(KeyError, match="in the block"):
        use(seen, fails=True, raises=True)
    with pytest.raises(ValueError, match="convolution failed"):
        use(seen, fails=True)
    user, other = HostStream(CPUPlace(), 1), HostStream(CPUPlace(), 2)
    use(seen, user, fails=True)
    use(seen, other)
    with pytest.raises(ValueError, match="convolution failed"):
        user.synchronize()
    other.synchronize()
    use(seen)
    assert seen == [1, 1, 1]


def test_a_user_whose_stream_has_failed_hurts_nobody_else(handles: list[str]) -> None:
    user, seen = HostStream(CPUPlace(), 1), list[int]()
    user.submit(fail)
    use(seen, user)
    use(seen)
    assert seen == [1], "the first one's was skipped"
    with pytest.raises(ValueError, match="convolution failed"):
        user.synchronize()


def test_a_handle_that_cannot_be_made_leaves_the_state_free() -> None:
    for _ in range(2):
        with pytest.raises(NotFoundError, match="kind of place with a DNN library"), dnn_state(CPUPlace()) as state:
            _ = state.handle


def test_a_thread_that_would_wait_for_itself(handles: list[str]) -> None:
    with dnn_state(CPUPlace(), 0), dnn_state(CPUPlace(), 1):
        with pytest.raises(TazzaError, match="this thread uses DNNState"), dnn_state(CPUPlace(), 0):
            pass
        with pytest.raises(TazzaError, match="this thread uses DNNState"):
            close_dnn_states(CPUPlace())
    with dnn_state(CPUPlace(), 0):
        pass


def test_states_are_few() -> None:
    with DNN_STATES.override(2):
        for index in (-1, 2):
            with (
                pytest.raises(ArgumentError, match=f"DNN state {index} of cpu: the flag dnn_states allows 0 to 1"),
                dnn_state(CPUPlace(), index),
            ):
                pass


@settings(max_examples=10)
@given(st.lists(st.tuples(st.integers(0, 1), st.booleans()), min_size=2, max_size=8))
def test_users_of_one_state_never_overlap(users: list[tuple[int, bool]]) -> None:
    """Each thread works on a state many times, on a stream of its own; some of the work fails."""
    busy, overlaps, done, lock = [0, 0], list[int](), [0, 0], threading.Lock()
    holders: list[set[int]] = [set(), set()]

    def work(index: int) -> None:
        with lock:
            busy[index] += 1
            if busy[index] > 1:
                overlaps.append(index)
        with lock:
            busy[index] -= 1
            done[index] += 1

    def run(index: int, fails: bool, user: Stream) -> None:
        for _ in range(5):
            with dnn_state(CPUPlace(), index, user) as state:
                holders[index].add(threading.get_ident())
                if len(holders[index]) > 1:
                    overlaps.append(index)
                state.stream.submit(lambda: work(index))
                time.sleep(0)  # let others run into it
                holders[index].discard(threading.get_ident())
                if fails:
                    state.stream.submit(fail)
            if fails:
                with pytest.raises(ValueError, match="convolution"):
                    user.synchronize()
        user.synchronize()

    streams = [HostStream(CPUPlace(), number) for number in range(len(users))]
    threads = [
        threading.Thread(target=run, args=(index, fails, stream))
        for (index, fails), stream in zip(users, streams, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert overlaps == []
    assert done == [5 * sum(index == which for index, _ in users) for which in (0, 1)]
