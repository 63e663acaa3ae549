"""Exhaustive search: every plan that fits is timed on the device, and the fastest taken.

What was found is kept on disk under the device, the library's version and the problem, so that the next process does
not search again: the engine, and its place in the library's list.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from tazza.device import Context, device_of, stream_pool
from tazza.device.context import new_context
from tazza.device.cuda import CUDAEvent, queue_of
from tazza.engines.cudnn.descriptor import Maker
from tazza.engines.cudnn.graph import Problem
from tazza.engines.cudnn.library import CUDNN, version
from tazza.engines.cudnn.plan import Candidate, Plan, Wishes, able_candidates, first_fitting
from tazza.errors import FileError, KernelError
from tazza.runtime.digest import digest_of
from tazza.runtime.kept_table import KeptTable
from tazza.runtime.log import logger
from tazza.tensor import Place, Tensor

ROUNDS = 5
"""Runs of a plan; the fastest counts."""
DRAWN = 1 << 16
"""Numbers that are drawn for a tensor, one behind the other until it is full."""
KEPT = 1 << 12
"""Results on disk."""
TABLE = KeptTable("cudnn_search.json", "results of searches among cuDNN's engines")


def fastest_plan(context: Context, maker: Maker, problem: Problem, wishes: Wishes) -> Plan | None:
    """Return the fastest plan with a workspace within the limit, or what `choose_plan` gives where none is timed."""
    found = able_candidates(maker, problem, wishes)
    key = digest_of(f"{device_of(context.place).properties} {version()} {problem} {wishes}".encode()).hex()
    place = _stored(key, found)
    if place is not None and found[place].plan is not None:
        return found[place].plan
    fitting = {
        place: plan
        for place, one in enumerate(found)
        if (plan := one.plan) is not None and plan.workspace_bytes <= wishes.limit
    }
    times = times_of(context.place, problem, fitting)
    if not times:
        return first_fitting(found, wishes.limit)
    best = min(times, key=lambda one: times[one])
    _keep(key, [best, found[best].number, times[best]])
    return found[best].plan


def times_of(place: Place, problem: Problem, plans: Mapping[int, Plan]) -> dict[int, float]:
    """Return the seconds that plans take on a device, on a stream of its own; those that fail are missing."""
    context = new_context(place, stream_pool(place).take())  # not that of the caller, which may be recorded
    try:
        tensors = _numbers(context, problem)
        found: dict[int, float] = {}
        for key, plan in plans.items():
            try:
                found[key] = _seconds(context, plan, tensors)
            except KernelError as error:
                logger.debug("engine %d of cuDNN cannot be timed: %s", plan.engine, error)
        return found
    finally:
        context.close()


def _seconds(context: Context, plan: Plan, tensors: Mapping[str, Tensor]) -> float:
    """Return how long the fastest of a few runs took, by the device's own clock; the first one loads code."""
    queue, handle = queue_of(context), CUDNN.handle_of(context)
    call = partial(CUDNN.call, queue.device)
    workspace = None if not plan.workspace_bytes else context.scratch(plan.workspace_bytes)
    addresses = {letter: one.address for letter, one in tensors.items()}
    pack = plan.pack(Maker(call, handle), addresses, None if workspace is None else workspace.address)
    marks = list[CUDAEvent]()
    for _ in range(1 + ROUNDS):
        call("cudnnBackendExecute", handle, plan.descriptor.handle, pack.handle)
        marks.append(queue.mark())
    marks[-1].wait()
    spans = [one.elapsed_s(before) for before, one in itertools.pairwise(marks)]
    return min(span for span in spans if span is not None)


def _numbers(context: Context, problem: Problem) -> dict[str, Tensor]:
    """Return tensors for all that a problem reads and writes; how long it takes depends on what is multiplied."""
    draw, made = np.random.default_rng(0), dict[str, Tensor]()
    for letter in problem.letters:
        form = problem.forms[letter]
        size = 1 + sum((extent - 1) * step for extent, step in zip(form.dims, form.steps, strict=True))
        block = draw.standard_normal(min(size, DRAWN), np.float32).astype(problem.dtype.numpy)
        made[letter] = Tensor.from_numpy(np.resize(block, size)).to_device(context.place)
    return made


def _stored(key: str, found: list[Candidate]) -> int | None:
    """Return the place of what a former search found, where the library still lists the same engine there."""
    match TABLE.read().get(key):
        case [int(place), int(engine), float() | int()] if 0 <= place < len(found) and found[place].number == engine:
            return place
        case _:
            return None


def _keep(key: str, result: list[Any]) -> None:
    everything = {**TABLE.read(), key: result}
    try:
        TABLE.write(dict(list(everything.items())[-KEPT:]))
    except FileError as error:
        logger.warning("results of the search are not kept: %s", error.message)
