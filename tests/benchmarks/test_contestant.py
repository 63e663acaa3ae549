"""Worker processes: they answer, stand still when told, and their failures are reported."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.contestant import Contestant, ContestantError
from benchmarks.job import Job
from benchmarks.race import ROOT

Start = Callable[..., Contestant]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Return what starts a worker with the fake runtime."""

    def make(**settings: Any) -> Contestant:
        job = Job(str(tmp_path), 1, settings=settings)
        command = [sys.executable, "-m", "benchmarks.worker", "tests.benchmarks.fake_session", job.text()]
        return Contestant(command, folder=ROOT, log=tmp_path / "logs" / "worker.log")

    return make


def state(contestant: Contestant) -> str:
    """Return the letter that the kernel has for the state of a process: T is stopped."""
    process: Any = vars(contestant)["_process"]
    return Path(f"/proc/{process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]


@pytest.mark.slow
def test_a_worker_starts_runs_and_tells(start: Start, tmp_path: Path) -> None:
    with start(value=2.5) as contestant:
        started = contestant.ask({"do": "start", "results": str(tmp_path / "r.npy"), "runs": 3}, 30)
        assert started["note"] == "fake 1.0"
        parts = [started[name] for name in ("process_s", "import_s", "load_s", "first_run_s")]
        assert 0 < sum(parts) <= started["first_result_s"]
        np.testing.assert_array_equal(np.load(tmp_path / "r.npy"), [[1, 2.5], [2, 2.5], [3, 2.5]])
        timed = contestant.ask({"do": "time", "seconds": 0.01, "warm": 0.0}, 30)
        assert timed["runs"] >= 1
        assert 0 < timed["least_s"] <= timed["tenth_s"] <= timed["median_s"] <= timed["nine_tenths_s"]
        memory = contestant.ask({"do": "memory"}, 30)
        assert memory["peak_bytes"] >= memory["import_bytes"] > 0 <= memory["above_import_bytes"]


@pytest.mark.slow
def test_a_stopped_worker_stands_and_goes_on_when_asked(start: Start, tmp_path: Path) -> None:
    with start() as contestant:
        contestant.ask({"do": "start", "results": str(tmp_path / "r.npy"), "runs": 1}, 30)
        contestant.pause()
        assert (contestant.running, state(contestant)) == (False, "T")
        assert contestant.ask({"do": "memory"}, 30)["peak_bytes"] > 0
        assert contestant.running
        assert state(contestant) != "T"


@pytest.mark.slow
def test_an_error_is_told_in_one_line_and_the_worker_lives(start: Start, tmp_path: Path) -> None:
    with start(fails=True) as contestant:
        with pytest.raises(ContestantError, match=r"^ValueError: no such layer$"):
            contestant.ask({"do": "start", "results": str(tmp_path / "r.npy"), "runs": 1}, 30)
        assert contestant.ask({"do": "memory"}, 30)["import_bytes"] > 0
        assert "no such layer" in contestant.log.read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_worker_that_dies_is_reported(start: Start, tmp_path: Path) -> None:
    with start(dies=True) as contestant:
        with pytest.raises(ContestantError, match=r"the process ended: status 3, libraries print"):
            contestant.ask({"do": "start", "results": str(tmp_path / "r.npy"), "runs": 1}, 30)
        contestant.pause()
        with pytest.raises(ContestantError, match="the process ended"):
            contestant.ask({"do": "memory"}, 30)


@pytest.mark.slow
def test_a_worker_that_hangs_is_killed(start: Start, tmp_path: Path) -> None:
    with start(hangs=True) as contestant, pytest.raises(ContestantError, match="no answer within"):
        contestant.ask({"do": "start", "results": str(tmp_path / "r.npy"), "runs": 1}, 0.3)
