"""Recording the steps of nets that run no operators one could observe: what a plan made of them.

Such a net tells of each run when it is over (`NetBase.watch`): which parts ran, from when on, and what each of their
steps took. Within a part the times of steps are laid end to end, since only how long they take is known.

State: runs are noted one after the other, by whatever threads the net and its clones run in.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.errors import TazzaError
from tazza.graph.inference import infer_net
from tazza.nets import NetBase
from tazza.nets.explanation import Row, TimedPart
from tazza.observers.profile import Occurrence, ProfiledStep
from tazza.operator import Cost, touches
from tazza.operator.estimate import operator_cost
from tazza.runtime.waiting import Wait
from tazza.tensor import Tensor, TensorSpec

Specs = tuple[tuple[str, TensorSpec], ...]
"""Of the tensors that a net reads."""


@dataclass(frozen=True, slots=True)
class _Run:
    """What one run of a net did, with what its operators cost, by the names that rows give them."""

    lane: str
    start_s: float
    end_s: float
    parts: tuple[TimedPart, ...]
    costs: dict[str, Cost | None]


class StepLog:
    """Notes the runs of a net that tells of its steps, up to `records_max` steps."""

    def __init__(self, records_max: int) -> None:
        """Start with no run."""
        self.dropped = 0
        """Steps that there was no room for."""
        self._most = records_max
        self._noted = 0
        self._runs: list[_Run] = []
        self._costs: dict[Specs, dict[str, Cost | None]] = {}
        self._lock = threading.Lock()

    def reset(self) -> None:
        """Forget all runs so far."""
        with self._lock:
            self._runs.clear()
            self._noted = self.dropped = 0

    def ran(self, net: NetBase, start_s: float, end_s: float, parts: Sequence[TimedPart]) -> None:
        """Note a run; called by the net."""
        costs = self._costs_of(net)
        count = sum(len(part.rows) for part in parts)
        with self._lock:
            kept = tuple(parts) if self._noted + count <= self._most else ()
            self._noted += count if kept else 0
            self.dropped += 0 if kept else count
            self._runs.append(_Run(threading.current_thread().name, start_s, end_s, kept, costs))

    def spans(self) -> tuple[Wait, ...]:
        """Return start and end of each run."""
        return tuple((run.start_s, run.end_s) for run in tuple(self._runs))

    def occurrences(self) -> tuple[Occurrence, ...]:
        """Return what each run of each step took."""
        found: list[Occurrence] = []
        for number, run in enumerate(tuple(self._runs)):
            position = 0
            for part in run.parts:
                reached_s = part.start_s
                for row in part.rows:
                    step = ProfiledStep(position, row.operator, row.outputs, row.engine, row.fused_from)
                    end_s = reached_s + (0.0 if row.time_s is None else row.time_s)
                    found.append(Occurrence(number, step, run.lane, reached_s, end_s, cost=_cost(row, run.costs)))
                    reached_s, position = end_s, position + 1
        return tuple(found)

    def _costs_of(self, net: NetBase) -> dict[str, Cost | None]:
        """Return the cost of each operator of the definition with the shapes that the net read just now."""
        names = dict.fromkeys(name for op in net.definition.op for name in touches(op).reads)
        blobs = ((name, net.workspace.get_blob(name)) for name in names)
        specs = tuple(
            (name, TensorSpec(blob.value.spec.dims, blob.value.spec.dtype, quantization=blob.value.quantization))
            for name, blob in blobs
            if blob is not None and isinstance(blob.value, Tensor)
        )
        try:
            if specs not in self._costs:
                rows = infer_net(net.definition, dict(specs))
                self._costs[specs] = {_name(row.definition.type, row.definition.output): row.cost for row in rows}
            loose = {_name(one.definition.type, one.definition.output): operator_cost(one) for one in net.operators}
        except TazzaError:  # a run that failed may leave shapes that do not fit each other
            return {}
        known = {name: cost for name, cost in loose.items() if cost is not None}
        return {**self._costs[specs], **known} if known else self._costs[specs]


def _name(type: str, outputs: Sequence[str]) -> str:
    """Return the name that explanations give an operator."""
    return f"{type} {outputs[0]!r}" if outputs else type


def _cost(row: Row, costs: dict[str, Cost | None]) -> Cost | None:
    """Return what a step costs: where it stands for several operators, their operations, and no bytes."""
    found = [costs.get(name) for name in row.fused_from]
    known = [cost for cost in found if cost is not None]
    if len(known) < len(found) or not found:
        return None
    return known[0] if len(known) == 1 else Cost(flops=sum(cost.flops for cost in known))
