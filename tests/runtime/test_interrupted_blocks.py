"""Ctrl-C at every place of a block that changes something for a while: afterwards it is as it was."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tazza.device import current_place, current_stream, streaming
from tazza.runtime.flags import kernel_changes
from tazza.runtime.threads import NUM_THREADS, at_most_threads, thread_count, threads_allowed
from tazza.tensor import CPUPlace
from tests.device.host_stream import HostStream
from tests.nets.interrupting import FAST, everywhere

BLOCKS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "at_most_threads": lambda: at_most_threads(1),
    "streaming": lambda: streaming(HostStream(CPUPlace(), 0)),
    "override": lambda: NUM_THREADS.override(7),
}


def state() -> tuple[object, ...]:
    """Return what blocks change."""
    return thread_count(), threads_allowed(), current_stream(CPUPlace()), current_place(), NUM_THREADS.source


@pytest.mark.slow
@pytest.mark.parametrize("outer", BLOCKS)
@pytest.mark.parametrize("inner", BLOCKS)
def test_interrupts_of_blocks(outer: str, inner: str, soak: int) -> None:
    before = state()
    within: list[tuple[object, ...]] = []

    def work() -> None:
        with BLOCKS[outer]():
            first = state()
            with BLOCKS[inner]():
                state()
            within[:] = [first, state()]

    def check() -> None:
        assert state() == before
        if within:
            assert within[0] == within[1]
        within.clear()

    everywhere(work, check, FAST, soak)
    work()
    assert state() == before


def test_what_was_bound_within_an_override_is_not_used_behind_it(soak: int) -> None:
    seen: list[tuple[int, int]] = []

    def work() -> None:
        with NUM_THREADS.override(7):
            seen.append((kernel_changes(), NUM_THREADS.value))

    def check() -> None:
        assert (kernel_changes(), NUM_THREADS.value) not in [(changes, 0) for changes, _ in seen]
        assert all(changes != kernel_changes() for changes, _ in seen)
        seen.clear()

    everywhere(work, check, FAST, soak)
