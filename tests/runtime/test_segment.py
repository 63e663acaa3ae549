"""Segments: the compiled loop and the one in Python do the same."""

from __future__ import annotations

import ctypes
import platform
from dataclasses import dataclass
from typing import cast

import numpy as np
import pytest

from tazza.runtime import segment as under_test
from tazza.runtime.native_code import unavailable
from tazza.runtime.openmp import openmp_threads, openmp_unavailable
from tazza.runtime.segment import Row, Segment

FUNCTION = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)

pytestmark = pytest.mark.skipif(openmp_unavailable() is not None, reason=str(openmp_unavailable()))


@dataclass(frozen=True)
class Call:
    """A row."""

    address: int
    arguments: tuple[int, int, int, int]
    threads: int = 0


class Recorder:
    """A C function that notes what it was called with, and under how many threads; `a` is what it returns."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []

        def note(a: int, b: int, c: int, d: int) -> int:
            self.calls.append((a, b, c, d, openmp_threads()))
            return a

        self._function = FUNCTION(note)
        self.address = cast("int", ctypes.cast(self._function, ctypes.c_void_p).value)

    def row(self, a: int = 0, b: int = 0, c: int = 0, d: int = 0, threads: int = 0) -> Call:
        return Call(self.address, (a, b, c, d), threads)


@pytest.fixture(params=["compiled", "python"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(under_test, "unavailable", lambda: "a test")
    elif unavailable() is not None:
        pytest.skip(str(unavailable()))
    return str(request.param)


@pytest.mark.usefixtures("loop")
def test_rows_run_in_order_under_their_threads() -> None:
    before, recorder = openmp_threads(), Recorder()
    rows = [recorder.row(0, 1, 2, -3, 1), recorder.row(0, 4), recorder.row(1 << 40, 5, threads=3), recorder.row(0, 6)]
    assert Segment(rows).run() == (0, 0)
    assert recorder.calls == [(0, 1, 2, -3, 1), (0, 4, 0, 0, 1), (1 << 40, 5, 0, 0, 3), (0, 6, 0, 0, 3)]
    assert openmp_threads() == before


@pytest.mark.usefixtures("loop")
def test_the_first_status_ends_it() -> None:
    before, recorder = openmp_threads(), Recorder()
    segment = Segment([recorder.row(threads=before + 1), recorder.row((1 << 40) + 7), recorder.row(9)])
    assert segment.run() == (2, 7)
    assert len(recorder.calls) == 2
    assert openmp_threads() == before
    assert Segment([recorder.row(-1)]).run() == (1, 0xFFFFFFFF)


@pytest.mark.usefixtures("loop")
def test_nothing_to_do() -> None:
    assert Segment([]).run() == (0, 0)


@pytest.mark.usefixtures("loop")
def test_times_of_rows() -> None:
    recorder = Recorder()
    result, seconds = Segment([recorder.row(), recorder.row(5), recorder.row()]).run_timed()
    assert result == (2, 5)
    assert seconds.shape == (3,)
    assert np.all(seconds[:2] > 0)
    assert seconds[2] == 0


def test_rows_are_kept_alive() -> None:
    rows: list[Row] = [Recorder().row()]
    assert Segment(rows).rows == tuple(rows)


def test_denormals_count_as_zero_while_a_segment_runs() -> None:
    """In the calling thread; test_team.py tests that its workers compute as it does."""
    if unavailable() is not None or platform.machine() not in ("x86_64", "AMD64"):
        pytest.skip("denormals are kept here")
    from tazza.operator import run_op

    tiny = np.full(200_000, 1e-39, np.float32)
    found = run_op("WeightedSum", tiny, np.ones(1, np.float32), engine="native")
    assert np.all(found == 0)
    assert np.all(tiny * np.float32(1) == tiny)  # the calling thread is as before
