"""Records from several queues, by chance: WeightedSampleDequeueBlobs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from tazza.device import Generator
from tazza.errors import ArgumentError, ShapeError
from tazza.operator import Array, Effects, Operator, OpView, Role, arg, blob, host_kernel, schema
from tazza.ops.control.blobs_queue import NO_GRADIENT, QUEUE, STATUS, TAKEN, BlobsQueue, show
from tazza.runtime.patience import Patience
from tazza.tensor import Blob

WEIGHTED_SAMPLE_DEQUEUE_BLOBS = schema(
    "WeightedSampleDequeueBlobs",
    """Y = the next record of one of the queues, as soon as it has one; status = whether it never will have one.

    Which queue it is is drawn anew in each run, with probabilities that are as `weights`.""",
    inputs=[blob("queues", type_name=QUEUE, variadic=True, role=Role.STATE)],
    outputs=[TAKEN, STATUS],
    args=[
        arg("weights", list[float], [], doc="one for each queue, none negative, with a sum above 0; none: equal ones"),
        arg("table_idx_blob", int, -1, minimum=-1, doc="the Y that is the number of the queue instead; -1 is none"),
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> first, second = run("CreateBlobsQueue"), run("CreateBlobsQueue")
    >>> _ = run("EnqueueBlobs", second, [1, 2])
    >>> run("WeightedSampleDequeueBlobs", first, second, weights=[0.0, 1.0], outputs=2)[0]
    array([1, 2], dtype=int32)
    """,
)


@WEIGHTED_SAMPLE_DEQUEUE_BLOBS.validate
def weighted_sample_dequeue_blobs_validate(op: OpView) -> None:
    weights, queues, count = op.weights, len(op.input_letters), len(op.output_letters) - 1
    for holds, relation in (
        (len(weights) in (0, queues), f"{len(weights)} weights for {queues} queues"),
        (
            not weights or (min(weights) >= 0 and sum(weights) > 0),
            f"weights = {weights}, none is negative, not all are 0",
        ),
        (
            math.isfinite(sum(weights)),
            f"weights = {weights}, each is finite",
        ),
        (op.table_idx_blob < count, f"table_idx_blob = {op.table_idx_blob}, there are {count} Y"),
    ):
        if not holds:
            raise op.error(ArgumentError, relation)


def shares(weights: Sequence[float]) -> Array:
    """Return up to where in [0, 1] numbers mean each queue, as float32.

    >>> shares([1.0, 3.0]).tolist(), shares([3e38, 3e38]).tolist()
    ([0.25, 1.0], [0.5, 1.0])
    """
    total = sum(weights)
    if total > float(np.finfo(np.float32).max):  # by a power of two, which changes no share
        weights = [weight * 2.0**-32 for weight in weights]
        total *= 2.0**-32
    return np.array(list(accumulate(weights)), np.float32) / np.float32(total)


@host_kernel(WEIGHTED_SAMPLE_DEQUEUE_BLOBS)
class WeightedSampleDequeueBlobs:
    """Waits for a record; another thread may ask it to give up."""

    def __init__(self, operator: Operator) -> None:
        self._queues = operator.inputs
        self._patience = Patience(f"for one of the queues {', '.join(repr(one.name) for one in self._queues)}")

    def cancel(self) -> None:
        """Give up the wait of the present run, or of the one that is about to begin."""
        self._patience.give_up()
        for one in self._queues:
            if isinstance(one.value, BlobsQueue):
                one.value.wake()

    def run(self, op: OpView, random: Generator, queues: tuple[Blob, ...], Y: tuple[Blob, ...], status: Blob) -> None:
        given: list[float] = op.weights
        bounds = shares(given if given else [1.0] * len(queues))
        number = min(int(np.searchsorted(bounds, random.uniform(1))[0]), len(queues) - 1)
        with self._patience.span():
            queue = queues[number].get(BlobsQueue)
            if len(Y) != queue.width:
                raise op.error(ShapeError, f"{len(Y)} blobs for the queue {queues[number].name!r} of {queue.width}")
            show(status, not queue.read(Y, self._patience))
        place: int = op.table_idx_blob
        if place >= 0:
            target = Y[place]
            target.reset()
            target.tensor().assign(np.array([number], np.int32))
