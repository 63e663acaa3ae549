"""A runtime that only counts, for tests of the processes around it. Settings: `fails`, `dies`, `hangs`, `value`."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.job import Job


def start(job: Job) -> FakeSession:
    """Return the session."""
    return FakeSession(job)


class FakeSession:
    """Adds one to its result in each run."""

    def __init__(self, job: Job) -> None:
        """Remember the settings."""
        self.settings = job.settings
        self.count = 0

    def note(self) -> str:
        """Return what it is."""
        return "fake 1.0"

    def load(self) -> None:
        """Do what the settings say, or nothing."""
        print("libraries print what they like", flush=True)
        if self.settings.get("fails"):
            raise ValueError("no such layer\nand more lines")
        if self.settings.get("dies"):
            os._exit(3)
        if self.settings.get("hangs"):
            time.sleep(60)

    def run(self) -> None:
        """Count."""
        self.count += 1

    def result(self) -> NDArray[Any]:
        """Return how often it ran, and the setting."""
        return np.array([self.count, float(self.settings.get("value", 0.0))], np.float32)
