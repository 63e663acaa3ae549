"""How long the steps of a training take, kept as a file beside it."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer, TrainingStep
from tazza.runtime.files import write_bytes_atomically

TIMES = "times.json"
TIMED_MAX = 10_000
"""Steps whose times are kept: the last ones."""


class StepTimes(TrainingListener):
    """Writes `times.json` into a folder when a training has ended: the median time from one step's end to the next's.

    What tests take in between does not count; nor does the first step after each, with which kernels may be made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._path = Path(folder) / TIMES
        self._seconds: deque[float] = deque(maxlen=TIMED_MAX)
        self._ended_s: float | None = None

    @property
    def seconds_per_step(self) -> float | None:
        """The median; None before there are two steps in a row."""
        return statistics.median(self._seconds) if self._seconds else None

    def stepped(self, trainer: Trainer, step: TrainingStep) -> None:
        """Take the time since the step before."""
        del trainer, step
        now_s = time.perf_counter()
        if self._ended_s is not None:
            self._seconds.append(now_s - self._ended_s)
        self._ended_s = now_s

    def tested(self, trainer: Trainer, figures: Mapping[str, float]) -> None:
        """Leave out the time of a test."""
        del trainer, figures
        self._ended_s = None

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Write the file; a training that had no two steps leaves the one before.

        Raises:
            FileError: it cannot be written.
        """
        del trainer, evaluation
        if self._seconds:
            what = {"seconds_per_step": self.seconds_per_step, "steps_timed": len(self._seconds)}
            write_bytes_atomically(self._path, (json.dumps(what, indent=1) + "\n").encode())
