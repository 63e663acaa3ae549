"""Trainings on ranks as processes: begun, watched from outside, and their losses."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

from tests.distributed.mpi_there import MOST_S, ROOT

PROGRAM = str(ROOT / "tests" / "distributed" / "halves.py")
JOB = "NUMBER_OF_THE_JOB"


def begin(ranks: int, out: Path, *words: str, number: int = 0) -> subprocess.Popen[str]:
    """Begin a training, on several ranks or, for 1, by itself."""
    launched = ["launch", "--ranks", str(ranks)] if ranks > 1 else []
    return start(*launched, "train", PROGRAM, "--out", str(out), *words, number=number)


def start(*words: str, number: int = 0) -> subprocess.Popen[str]:
    """Start a command as job `number`."""
    command = [sys.executable, "-m", "tazza", *words]
    environment = {**os.environ, JOB: str(number), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def train(ranks: int, out: Path, *words: str) -> list[float]:
    """Train and return the losses of all steps.

    Raises:
        AssertionError: the training failed.
    """
    told, _ = (job := begin(ranks, out, *words)).communicate(timeout=MOST_S)
    assert job.returncode == 0, told
    return losses_of(out)


def losses_of(out: Path) -> list[float]:
    """Return the losses of all steps of a training that has ended."""
    with (out / "history.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def process_of(rank: int, job: int) -> int | None:
    """Return the process of a rank below `tazza launch`, by what that set for it; None while there is none."""
    wanted = {f"TAZZA_RANK={rank}".encode(), f"{JOB}={job}".encode()}
    for entry in Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if wanted <= set(variables) and b"tazza.cli.rank" in command:
            return int(entry.name)
    return None
