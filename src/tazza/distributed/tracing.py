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
from typing import Any

import numpy as np

from tazza.nets import NetBase
from tazza.observers.recorder import Recorder
from tazza.observers.timeline import SpanKind, Timeline
from tazza.observers.trace import joined_documents, trace_document, write_document
from tazza.ops.distributed.communicator import NOTES, CommonWorld
from tazza.runtime.patience import Patience

LANE = "communication"


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
    patience = Patience("for the traces of other ranks")
    world.barrier(patience)
    origin_s = time.perf_counter()
    with Recorder(net) as recorder:
        work()
    timeline = recorder.profile().timeline(idle=False)
    for note in list(NOTES):
        if note.world() is world and note.start_s >= origin_s:
            timeline.add(LANE, note.what, note.start_s, note.end_s, kind=SpanKind.COPY, nbytes=note.nbytes)
    document = trace_document(timeline, process=f"rank {world.rank}", number=world.rank + 1, origin_s=origin_s)
    text = np.frombuffer(json.dumps(document).encode(), np.uint8)
    documents: list[Any] = [json.loads(bytes(one)) for one in world.allgather("trace", [text], patience)]
    if world.rank == 0:
        write_document(path, joined_documents(documents))
    return timeline
