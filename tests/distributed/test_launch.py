"""`tazza launch`: who is killed, who is left, and what goes on later."""

from __future__ import annotations

import csv
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.distributed.mpi_there import MOST_S, ROOT, needs_mpi

pytestmark = [needs_mpi, pytest.mark.slow]
PROGRAM = str(ROOT / "tests" / "distributed" / "halves.py")
JOB = "NUMBER_OF_THE_JOB"
END_S = 10.0
"""How long the survivors of a rank may take to end, on a machine that does nothing else."""
SLOWER = 3
"""How much longer on one that is busy."""


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
    """Train and return the losses of all steps."""
    told, _ = (job := begin(ranks, out, *words)).communicate(timeout=MOST_S)
    assert job.returncode == 0, told
    with (out / "history.csv").open() as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def process_of(rank: int, job: int) -> int:
    """Return the process of a rank below `tazza launch`, which is found by what that set for it."""
    for entry in Path("/proc").iterdir():
        try:
            variables = (entry / "environ").read_bytes().split(b"\0")
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if {f"TAZZA_RANK={rank}".encode(), f"{JOB}={job}".encode()} <= set(variables) and b"tazza.cli.rank" in command:
            return int(entry.name)
    raise AssertionError(f"there is no rank {rank}")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return train(1, tmp_path_factory.mktemp("alone") / "out")


def test_pictures_and_texts_are_learned_on_ranks_too_and_an_early_end_is_told(tmp_path: Path) -> None:
    """The second training ends after the first test that is no better, on all ranks."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text("to be or not to be, that is the question. " * 40)
    small = ("--iterations", "4", "--steps", "5", "--hidden", "6", "--batch-size", "4", "--characters", "5")
    for number, words in enumerate(
        (
            ("net", "mlp", "--learning-rate", "1e-9", "--patience", "1", "--flip"),
            ("char-lstm", "--data", str(text), *small),
        )
    ):
        job = start("launch", "--ranks", "2", "train", *words, "--out", str(out / str(number)))
        told, _ = job.communicate(timeout=MOST_S)
        assert job.returncode == 0, told
        assert ("ended early" in told) == (not number)


def test_a_training_goes_on_with_other_numbers_of_ranks(undisturbed: list[float], tmp_path: Path) -> None:
    out = tmp_path / "out"
    train(1, out, "--iterations", "10")
    for ranks, steps in ((2, "20"), (4, "30")):
        train(ranks, out, "--iterations", steps, "--resume")
    assert train(1, out, "--iterations", "40", "--resume") == pytest.approx(undisturbed, rel=1e-4)


@pytest.mark.parametrize("seed", [1, 2])
def test_who_is_killed_is_named_and_the_rest_goes_on_later(seed: int, undisturbed: list[float], tmp_path: Path) -> None:
    drawn = random.Random(seed)
    victim, out = drawn.randrange(2), tmp_path / "out"
    job = begin(2, out, "--checkpoint-every", "3", "--set", "pause_s=0.1", number=seed)
    deadline = time.monotonic() + MOST_S
    while not (out / "checkpoint.minidb").exists():
        assert time.monotonic() < deadline
        assert job.poll() is None
        time.sleep(0.05)
    time.sleep(drawn.uniform(0, 1))
    os.kill(process_of(victim, seed), signal.SIGKILL)
    killed = time.monotonic()
    told, _ = job.communicate(timeout=MOST_S)
    assert time.monotonic() - killed < END_S * SLOWER, told
    assert job.returncode
    assert f"rank {victim} was killed by SIGKILL" in told
    assert f"rank {victim} is gone" in told
    assert train(2, out, "--set", "pause_s=0", "--resume") == pytest.approx(undisturbed, rel=1e-4)
