"""What all ranks compute and exchange, in one trace.

    trace_ranks(trainer.net, trainer.world, steps, "steps.json")

Every rank is a process of the trace, with the threads that ran its operators and one, `communication`, for what its
world did meanwhile. Clocks of machines differ: times count from the end of a barrier, which ranks leave as much apart
as a message takes.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np

from tazza.models.evaluation import Evaluation
from tazza.models.listener import TrainingListener
from tazza.models.training import Trainer, TrainingStep
from tazza.nets import NetBase
from tazza.observers.recorder import Recorder
from tazza.observers.timeline import SpanKind, Timeline
from tazza.observers.trace import joined_documents, trace_document, write_document
from tazza.ops.distributed.communicator import NOTES, CommonWorld
from tazza.runtime.patience import Patience

LANE = "communication"
STEPS_BEFORE, STEPS_TRACED = 3, 3
"""Steps of a training in which kernels are made and memory is found; and those behind them, which are traced."""


class RankTrace:
    """A trace that has begun on all ranks, together."""

    def __init__(self, net: NetBase, world: CommonWorld) -> None:
        """Wait for the other ranks, and record the operators of a net from now on.

        Raises:
            ClosedError: a rank is gone.
        """
        self._world, self._patience = world, Patience("for the traces of other ranks")
        world.barrier(self._patience)
        self._origin_s = time.perf_counter()
        self._held = ExitStack()
        self._recorder = self._held.enter_context(Recorder(net))

    def stop(self) -> None:
        """Record no more; stopping twice is allowed."""
        self._held.close()

    def write(self, path: str | os.PathLike[str]) -> Timeline:
        """Stop, and return what this rank did; rank 0 writes the trace of all. All ranks call it.

        Raises:
            ClosedError: a rank is gone.
            FileError: the file cannot be written.
        """
        self.stop()
        world = self._world
        timeline = self._recorder.profile().timeline(idle=False)
        for note in list(NOTES):
            if note.world() is world and note.start_s >= self._origin_s:
                timeline.add(LANE, note.what, note.start_s, note.end_s, kind=SpanKind.COPY, nbytes=note.nbytes)
        process, number = f"rank {world.rank}", world.rank + 1
        document = trace_document(timeline, process=process, number=number, origin_s=self._origin_s)
        text = np.frombuffer(json.dumps(document).encode(), np.uint8)
        documents: list[Any] = [json.loads(bytes(one)) for one in world.allgather("trace", [text], self._patience)]
        if world.rank == 0:
            write_document(path, joined_documents(documents))
        return timeline


def trace_ranks(net: NetBase, world: CommonWorld, work: Callable[[], object], path: str | os.PathLike[str]) -> Timeline:
    """Do some work with a net and return what this rank did; rank 0 writes the trace of all. All ranks call it.

    Args:
        net: whose operators are recorded.
        world: the rank, whose exchanges are shown.
        work: such as some steps.
        path: of the file.

    Raises:
        ClosedError: a rank is gone.
        FileError: the file cannot be written.
    """
    trace = RankTrace(net, world)
    try:
        work()
    finally:
        trace.stop()
    return trace.write(path)


class StepsTraced(TrainingListener):
    """Traces some steps of a training, behind the first ones; all ranks have one and are told the same."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Write to this file, on rank 0."""
        self._path, self._steps = path, 0
        self._trace: RankTrace | None = None

    def stepped(self, trainer: Trainer, step: TrainingStep) -> None:
        """Begin behind the first steps, and end some later.

        Raises:
            ClosedError, FileError: see `RankTrace`.
        """
        del step
        self._steps += 1
        if self._steps == STEPS_BEFORE and trainer.world is not None:
            self._trace = RankTrace(trainer.net, trainer.world)
        elif self._steps == STEPS_BEFORE + STEPS_TRACED:
            self._write()

    def finished(self, trainer: Trainer, evaluation: Evaluation | None) -> None:
        """Write what there is of a training that has ended earlier; nothing where it ended before the trace began."""
        del trainer, evaluation
        self._write()

    def _write(self) -> None:
        trace, self._trace = self._trace, None
        if trace is not None:
            trace.write(self._path)

    def close(self) -> None:
        """Record no more."""
        if self._trace is not None:
            self._trace.stop()
