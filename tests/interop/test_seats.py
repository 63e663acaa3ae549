"""The line before the seats of a predictor: who came first is served first; forks; closing."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

from tazza.errors import UnavailableError
from tazza.interop.predictor import SEATS, Predictor
from tazza.proto import NetDef
from tazza.proto.message import parse_text

NET = parse_text(NetDef, 'op { type: "Relu" input: "x" output: "y" } external_input: "x"', "a test")
X = np.array([-1, 2], np.float32)
THREADS = 64


@pytest.fixture
def two_seats() -> Generator[Predictor]:
    """Return a predictor that two threads can run at a time."""
    with SEATS.override(2), Predictor(NET) as predictor:
        yield predictor


def test_callers_are_served_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stands in line is served in the order of coming, and before whoever comes as the seat is given back."""
    with SEATS.override(1), Predictor(NET) as predictor:
        predictor.run(x=X)
        line = predictor._seats  # pyright: ignore[reportPrivateUsage] -- which nobody else can see
        kept = [line.free.pop()]
        order: list[int] = []
        run = type(kept[0]).run

        def noted(seat: Any, given: Any) -> Any:
            order.append(threading.get_ident())
            return run(seat, given)

        monkeypatch.setattr(type(kept[0]), "run", noted)
        threads: list[threading.Thread] = []
        for number in range(THREADS):
            threads.append(threading.Thread(target=predictor.run, kwargs={"x": X}))
            threads[-1].start()
            wait_until(lambda number=number: len(line.line) > number)
        line.give_back(kept)
        predictor.run(x=X)
        for thread in threads:
            thread.join(60)
        assert order == [*(thread.ident for thread in threads), threading.get_ident()]


def test_all_callers_are_served(two_seats: Predictor) -> None:
    """However often threads are made to give way, every call of every thread gets a seat and gives it back."""
    begin, right = threading.Barrier(THREADS), Counter[int]()

    def call(number: int) -> None:
        begin.wait()
        for _ in range(20):
            right[number] += two_seats.run(x=X)["y"].tolist() == [0, 2]

    former = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads give way in the middle of everything
    try:
        threads = [threading.Thread(target=call, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    finally:
        sys.setswitchinterval(former)
    assert right == dict.fromkeys(range(THREADS), 20)
    line = two_seats._seats  # pyright: ignore[reportPrivateUsage] -- which nobody else can see
    made = line._all  # pyright: ignore[reportPrivateUsage] -- on a busy machine one may have been enough
    assert (len(line.free), len(line.line)) == (len(made), 0)


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for another thread, for as long as a busy machine may take."""
    for _ in range(60_000):
        if holds():
            return
        time.sleep(1e-3)
    raise AssertionError("it never came about")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_seats_whatever_was_in_use(two_seats: Predictor) -> None:
    """All seats are in use and others wait in line: the child has none of them, makes its own, and closes."""
    line = two_seats._seats  # pyright: ignore[reportPrivateUsage] -- which nobody else can see
    two_seats.run(x=X)
    kept = [line.free.pop() for _ in range(len(line.free))]
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it if it waits for ever
        try:
            right = two_seats.run(x=X)["y"].tolist() == [0, 2]
        except UnavailableError:  # what was bound for the threads of the parent
            right = True
        two_seats.close()
        os._exit(0 if right else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    line.give_back(kept)
    assert two_seats.run(x=X)["y"].tolist() == [0, 2]
