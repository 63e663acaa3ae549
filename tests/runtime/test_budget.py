"""Threads that workers share: never more than there are, nobody passed over."""

from __future__ import annotations

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.runtime.budget import ThreadBudget
from tests.patience import LONG_S, wait_until


class Held:
    """How many threads are held at this moment."""

    def __init__(self) -> None:
        """None."""
        self.now = self.most = 0
        self._lock = threading.Lock()

    def add(self, count: int) -> None:
        """Note that so many more are held."""
        with self._lock:
            self.now += count
            self.most = max(self.most, self.now)


def started(budget: ThreadBudget, count: int, line: list[int] | None = None) -> threading.Thread:
    """Start a thread that takes `count` and then writes it into `line`."""

    def take() -> None:
        budget.take(count)
        if line is not None:
            line.append(count)

    thread = threading.Thread(target=take)
    thread.start()
    return thread


def wait_until_wanted(budget: ThreadBudget, how_many: int) -> None:
    """Return when so many threads wait in line."""
    line = budget._waiting  # pyright: ignore[reportPrivateUsage] -- only whether any waits is public
    wait_until(lambda: len(line) >= how_many)


@settings(max_examples=30)
@given(st.integers(1, 4), st.lists(st.lists(st.integers(0, 4), min_size=1, max_size=12), min_size=1, max_size=4))
def test_no_more_are_held_than_there_are(total: int, wishes: list[list[int]]) -> None:
    budget, held = ThreadBudget(total), Held()

    def work(counts: list[int]) -> None:
        for wish in counts:
            count = min(wish, total)
            budget.take(count)
            held.add(count)
            time.sleep(0)
            held.add(-count)
            budget.give(count)

    threads = [threading.Thread(target=work, args=(counts,)) for counts in wishes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
        assert not thread.is_alive(), "a wake-up was lost"
    assert held.most <= total
    assert budget.free == total
    assert not budget.wanted


def test_who_wants_many_is_not_passed_over() -> None:
    """Small ones that come later queue up behind it, though there would be room for them."""
    budget, line = ThreadBudget(3), list[int]()
    budget.take(1)
    big = started(budget, 3, line)
    wait_until_wanted(budget, 1)
    assert budget.free == 2
    small = started(budget, 1, line)
    wait_until_wanted(budget, 2)
    assert line == []
    budget.give(1)
    big.join(LONG_S)
    assert line == [3]
    budget.give(3)
    small.join(LONG_S)
    assert line == [3, 1]
    assert budget.free == 2


def test_who_wants_none_waits_for_nobody() -> None:
    """A host kernel may be what the others wait for."""
    budget = ThreadBudget(2)
    budget.take(1)
    waiting = started(budget, 2)
    wait_until_wanted(budget, 1)
    budget.take(0)
    budget.give(1)
    waiting.join(LONG_S)
    assert budget.free == 0


class Interrupted(BaseException):
    """Stands for Ctrl-C."""


class Gate:
    """A lock that interrupts who waits for it; `served` says whether it was opened before."""

    def __init__(self, budget: ThreadBudget, *, served: bool) -> None:
        """Be closed."""
        self.calls = 0
        self._budget = budget
        self._served = served
        self._closed = True

    def acquire(self) -> bool:
        """Be taken at first, and then waited for."""
        self.calls += 1
        if self.calls == 2:
            if self._served:
                self._budget.give(2)
            raise Interrupted
        return True

    def locked(self) -> bool:
        """Whether somebody waits."""
        return self._closed

    def release(self) -> None:
        """Let them go on."""
        self._closed = False


@pytest.mark.parametrize("served", [False, True])
def test_an_interrupted_wait_takes_nothing(served: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where it was served just before the interrupt."""
    budget = ThreadBudget(2)
    budget.take(2)
    gate = Gate(budget, served=served)
    monkeypatch.setattr("tazza.runtime.budget.threading.Lock", lambda: gate)
    with pytest.raises(Interrupted):
        budget.take(2)
    assert not budget.wanted
    if not served:
        budget.give(2)
    assert budget.free == 2


def test_a_lifted_budget_serves_all_and_a_reset_one_starts_anew() -> None:
    budget = ThreadBudget(2)
    budget.take(2)
    waiting = [started(budget, 2) for _ in range(3)]
    wait_until_wanted(budget, 3)
    budget.lift()
    for thread in waiting:
        thread.join(LONG_S)
    budget.take(2)
    budget.reset()
    assert budget.free == budget.total == 2
