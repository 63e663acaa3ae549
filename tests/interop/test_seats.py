"""The line before the seats of a predictor: who came first is served first; forks; closing."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import Counter
from collections.abc import Generator

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


def test_callers_are_served_in_turn(two_seats: Predictor) -> None:
    """While all threads call again and again, none runs twice as often as another; they wait in a line."""
    runs, begun = Counter[int](), Counter[int]()
    begin, over = threading.Barrier(THREADS), threading.Event()

    def call(number: int) -> None:
        begin.wait()
        while not over.is_set():
            two_seats.run(x=X)
            runs[number] += 1
            if not begun and len(runs) == THREADS:
                begun.update(runs)  # all of them stand in line or run by now
            if begun and runs[number] - begun[number] >= 50:
                over.set()

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
    assert len(runs) == THREADS
    since = [runs[number] - begun[number] for number in range(THREADS)]
    assert max(since) < 2 * min(since)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_seats_whatever_was_in_use(two_seats: Predictor) -> None:
    """All seats are in use and others wait in line: the child has none of them, makes its own, and closes."""
    line = two_seats._seats  # pyright: ignore[reportPrivateUsage] -- which nobody else can see
    two_seats.run(x=X)
    kept = [line.free.pop() for _ in range(len(line.free))]
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends it if it waits for ever
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
