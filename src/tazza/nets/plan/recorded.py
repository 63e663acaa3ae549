"""Sections of a program that a device records: their work is queued as one graph, not launch by launch.

A section is a stretch of steps whose launches are `capturable`. What the host does anew in each run (numbers that it
draws) cuts, unless it is the host's part of a call in two (`operator.split_call`): numbers that it reads, extents that
it writes. These parts are made before the graph is queued. Sections are recorded in the second run of a binding: by
then kernels are loaded, and what is bound anew in each run is never recorded. What a device refuses to record runs
launch by launch, a message says why, and two later runs try again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.device.recorder import Recorder
from tazza.errors import TazzaError
from tazza.nets.plan.program import Step
from tazza.operator import Call, CallChain
from tazza.operator.native_calls import Part
from tazza.operator.split_call import split
from tazza.runtime.flags import flag
from tazza.runtime.log import logger

GRAPHS = flag("plan_graphs", True, "let planned nets queue their work on a device as recorded graphs", kernels=True)
LEAST = 2
"""Steps of a section that is worth a graph."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What runs in place of the parts of an instance.

    `graphs` are the positions of the steps of each graph; `whole` says whether no section was refused.
    """

    parts: Sequence[Part[int]]
    graphs: tuple[tuple[int, ...], ...]
    whole: bool


def sections_of(steps: Sequence[Step]) -> list[tuple[int, ...]]:
    """Return the positions of steps in stretches that can be recorded.

    >>> sections_of([])
    []
    """
    found: list[list[int]] = [[]]
    for position, step in enumerate(steps):
        if step.launch.capturable:
            found[-1].append(position)
        elif found[-1]:
            found.append([])
    return [tuple(section) for section in found if len(section) >= LEAST]


def record(
    steps: Sequence[Step], parts: Sequence[Part[int]], context: Context, bind: Callable[[int, Context], Call]
) -> Recorded | None:
    """Record what can be of the parts of an instance on a context; None where there is nothing to record.

    `bind(position, context)` binds a step to the memory of the instance, on another context.
    """
    sections = sections_of(steps) if GRAPHS.value else []
    recorder = context.recorder() if sections else None
    if recorder is None:
        return None
    made = [(section, call) for section in sections if (call := _recorded(recorder, section, bind)) is not None]
    graphs = {position: graph for graph in made for position in graph[0]}
    found: list[Part[int]] = []
    for part in parts:  # some steps have several, some none
        graph = graphs.get(part[0][0])
        if graph is None:
            found.append(part)
        elif not found or found[-1] is not graph:
            found.append(graph)
    return Recorded(found, tuple(section for section, _ in made), len(made) == len(sections))


def _recorded(recorder: Recorder, section: Sequence[int], bind: Callable[[int, Context], Call]) -> Call | None:
    try:
        hosts, calls = split([bind(position, recorder.context) for position in section])
        queue = recorder.record(CallChain(tuple(calls))).queue
        return queue if not hosts else CallChain((*hosts, queue))
    except TazzaError as error:
        logger.warning("%d steps of a plan run launch by launch, not as a graph: %s", len(section), error.message)
        return None
