"""What an offer takes at the least where its kernel makes no estimate: by the operator's cost and the machine's model.

Estimates of kernels decide who runs (`operator.choice`); these do not. They are made when somebody asks `explain()`, so
that every offer has one beside it, of every kernel, without a line in any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tazza.operator.choice import Choice
from tazza.operator.cost import Cost
from tazza.operator.operator import Operator
from tazza.operator.schema import logical
from tazza.runtime.machine import CACHE_BYTES, machine
from tazza.runtime.threads import thread_count


def least_ns(cost: Cost) -> float:
    """Return the time that this machine needs for a cost: to compute, or to move the bytes, whichever takes longer.

    All threads compute at their full rate, and all bytes are moved as those of a copy, which reads half of them: from
    the last cache where they fit in.

    >>> from tazza.runtime.machine import MODEL
    >>> with MODEL.override("nominal"):
    ...     least_ns(Cost(flops=10, bytes_read=22_000_000, bytes_written=22_000_000))
    1000000.0
    """
    model, threads, moved = machine(), thread_count(), cost.bytes_read + cost.bytes_written
    rate = model.memory_bytes_per_ns if moved > CACHE_BYTES else model.cache_bytes_per_ns * threads
    return max(cost.flops / (model.flops_per_ns * threads), moved / (2 * rate))


def estimated(choices: Sequence[Choice], cost: Cost | None, *, on_host: bool) -> tuple[Choice, ...]:
    """Return what became of engines, with the least time beside each offer that has no estimate of its kernel.

    Of other devices than the host there is no model, and of operators without values no cost.
    """
    if cost is None or not on_host or not any(one.offered and one.estimate_ns is None for one in choices):
        return tuple(choices)
    floor_ns = least_ns(cost)
    return tuple(replace(one, least_ns=floor_ns) if one.offered and one.estimate_ns is None else one for one in choices)


def operator_cost(operator: Operator) -> Cost | None:
    """Return the cost of a run with the present blobs, or None when one of them is empty."""
    inputs = [logical(blob.spec) for blob in operator.inputs]
    outputs = [spec for blob in operator.outputs if (spec := logical(blob.spec)) is not None]
    if None in inputs or len(outputs) < len(operator.outputs):
        return None
    return operator.schema.infer_cost(operator.op, inputs, outputs)
