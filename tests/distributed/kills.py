"""Ranks of trainings that are killed at random, again and again; what is left of each training goes on.

python -m tests.distributed.kills --kills 100

A training goes on with two or four ranks, or by itself, as it is drawn, until it comes to its end: then it has to have
the losses of one that nobody disturbed, and another begins. A kill may come at any moment from the start of the ranks
on. Where it comes while they learn, the others have to say who is gone; before that, the process above the rank does.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from tazza.cli.train_folder import CHECKPOINT, SETTINGS
from tazza.models.training import stored_names
from tests.distributed.jobs import begin, losses_of, process_of, train
from tests.distributed.mpi_there import MOST_S

END_S = 10.0
"""How long those that are left may take to end."""
RANKS = (2, 4)
LATEST_S = 2.0
"""Seconds in which a kill comes, behind the start of the ranks or their first checkpoint."""
WHILE_LEARNING = 0.7
"""Share of kills that wait for a checkpoint."""
LOOK_S = 0.05
OPTIONS = ("--checkpoint-every", "3", "--set", "pause_s=0.1")
ENDED = "written to "
"""What is said when all is there that a training leaves."""
NEAR = 1e-4
"""Relative difference of losses: ranks add gradients in another order than one process."""
app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@dataclass
class Kills:
    """What has come of kills so far; a checkpoint of `out` is there as soon as a rank wrote one."""

    folder: Path
    limit_s: float = END_S
    seed: int = 1
    killed: int = 0
    told: int = 0
    """Kills after which a rank that was left has said who is gone: those while ranks learned."""
    longest_s: float = 0.0
    trainings: int = 0
    starts: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._undisturbed = train(1, self.folder / "undisturbed")

    @property
    def out(self) -> Path:
        """The folder of the training that goes on."""
        return self.folder / f"training-{self.trainings}"

    def go(self, kills: int) -> None:
        """Kill so many ranks, then let the last training come to its end.

        Raises:
            AssertionError: something is not as it has to be.
        """
        while self.killed < kills:
            self._start(kill=True)
        ended = self.trainings
        while self.trainings == ended:
            self._start(kill=False)

    def _start(self, *, kill: bool) -> None:
        """Begin, or go on, on a number of ranks that is drawn; kill one of them, if it has not ended before."""
        ranks, number = self._random.choice(RANKS), len(self.starts)
        self.starts.append(ranks)
        resumed = ("--resume",) if (self.out / SETTINGS).exists() else ()
        before_s = time.time()
        job = begin(ranks, self.out, *OPTIONS, *resumed, number=number)
        victim = self._kill(job, ranks, number, before_s) if kill else None
        killed_s = time.monotonic()
        told = _words_of(job, f"{ranks} ranks, rank {victim} killed, {time.time() - before_s:.1f} s after their start")
        if job.returncode == 0:
            self._check_losses()
            return
        assert victim is not None, told
        took_s = time.monotonic() - killed_s
        assert took_s < self.limit_s, f"{took_s:.1f} s until all had ended:\n{told}"
        if ENDED in told:  # the others had nothing left that they needed it for
            self._check_losses()
        else:
            self._check_words(victim, told, learned=self._written_s() > before_s)
        self.killed, self.longest_s = self.killed + 1, max(self.longest_s, took_s)
        if self._written_s():
            assert stored_names(self.out / CHECKPOINT), "the checkpoint holds blobs"

    def _kill(self, job: subprocess.Popen[str], ranks: int, number: int, before_s: float) -> int:
        """Kill a rank some time behind the start of all, or behind their first checkpoint, and return which."""
        learning = self._random.random() < WHILE_LEARNING
        processes: Sequence[int | None] = [None]
        while job.poll() is None and (None in processes or (learning and self._written_s() < before_s)):
            processes = [process_of(rank, number) for rank in range(ranks)]
            time.sleep(LOOK_S)
        time.sleep(self._random.uniform(0, LATEST_S))
        victim = self._random.randrange(ranks)
        process = process_of(victim, number)
        if process is not None:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return victim

    def _written_s(self) -> float:
        """Return when the checkpoint was written; 0 where there is none."""
        path = self.out / CHECKPOINT
        return path.stat().st_mtime if path.exists() else 0.0

    def _check_words(self, victim: int, told: str, *, learned: bool) -> None:
        assert f"rank {victim} was killed by SIGKILL" in told, told
        if learned:
            assert f"rank {victim} is gone" in told, told
            self.told += 1

    def _check_losses(self) -> None:
        losses = losses_of(self.out)
        assert len(losses) == len(self._undisturbed), f"{len(losses)} steps of {len(self._undisturbed)} in the history"
        worst = max(abs(one / other - 1) for one, other in zip(losses, self._undisturbed, strict=True))
        assert worst < NEAR, f"losses differ by {worst:.2e}"
        self.trainings += 1

    def __str__(self) -> str:
        return (
            f"{self.killed} ranks were killed in {len(self.starts)} starts of {self.trainings} trainings; after"
            f" {self.told} of them, all that came while ranks learned and left others waiting,"
            f" those said who is gone; the longest end took {self.longest_s:.1f} s; every checkpoint was whole,"
            " and each training had the losses of one that nobody disturbed"
        )


def _words_of(job: subprocess.Popen[str], what: str) -> str:
    """Return what a job has said, once it has ended.

    Raises:
        AssertionError: it does not end.
    """
    try:
        return job.communicate(timeout=MOST_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        raise AssertionError(f"{what}: it does not end:\n{job.communicate()[0]}") from None


@app.command()
def main(
    kills: Annotated[int, typer.Option(help="ranks that are killed", min=1)] = 100,
    limit_s: Annotated[float, typer.Option(help="seconds that those that are left may take to end")] = END_S,
    seed: Annotated[int, typer.Option(help="of what is drawn")] = 1,
) -> None:
    """Kill ranks, and see that nothing hangs, nothing is broken and no loss is another."""
    with TemporaryDirectory(prefix="kills-") as name:
        found = Kills(Path(name), limit_s, seed)
        while found.killed < kills:
            found.go(min(found.killed + 10, kills))
            print(found, flush=True)


if __name__ == "__main__":
    app()
