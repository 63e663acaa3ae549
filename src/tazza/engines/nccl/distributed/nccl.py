"""NCCLAllreduce, NCCLBroadcast, NCCLReduce, NCCLAllGather and NCCLReduceScatter.

Each GPU works on its own stream of the calling thread. These wait for what the operator's stream has got so far, and
that waits for them: so whoever is ordered behind the operator is behind all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from tazza.data_class import dataclass
from tazza.device import Context, current_context
from tazza.device.cuda import queue_of
from tazza.device.event import recorded
from tazza.engines.nccl import KIND, NAME
from tazza.engines.nccl._declarations import NUMBERS
from tazza.engines.nccl.library import NCCL, group
from tazza.errors import ArgumentError, PlaceError
from tazza.operator import OpView, host_kernel
from tazza.operator.operator import Operator
from tazza.ops.distributed.nccl import collectives
from tazza.tensor import Blob, DataType, Place, Tensor

TYPES = {DataType.FLOAT: NUMBERS["ncclFloat32"], DataType.FLOAT16: NUMBERS["ncclFloat16"]}
_SUM = NUMBERS["ncclSum"]


@dataclass(frozen=True, slots=True)
class Rank:
    """A GPU's part: what it reads and where it writes, or None, its context and its communicator."""

    X: Tensor
    Y: Tensor | None
    context: Context
    communicator: int

    def queue(self, op: OpView) -> None:
        """Queue the part; what is not written is what it reads, and of what is scattered each GPU counts its own."""
        function, told = QUEUED[op.type]
        target = self.X if self.Y is None else self.Y
        count = min(self.X.size, target.size)
        given = self.X.address, target.address, count, TYPES[self.X.dtype]
        NCCL.call_anywhere(function, *given, *told(op), self.communicator, queue_of(self.context).handle)


QUEUED: Mapping[str, tuple[str, Callable[[OpView], tuple[int, ...]]]] = {
    "NCCLAllreduce": ("ncclAllReduce", lambda op: (_SUM,)),
    "NCCLBroadcast": ("ncclBroadcast", lambda op: (op.root,)),
    "NCCLReduce": ("ncclReduce", lambda op: (_SUM, op.root)),
    "NCCLAllGather": ("ncclAllGather", lambda op: ()),
    "NCCLReduceScatter": ("ncclReduceScatter", lambda op: (_SUM,)),
}
"""Operator -> the library's function, and what it is told between the type of elements and the communicator."""


def run_collective(X: tuple[Blob, ...], Y: tuple[Blob, ...] | Blob, op: OpView, operator: Operator) -> None:
    """Queue a collective on the GPUs of X, after what the operator's stream has got."""
    sources = [blob.tensor() for blob in X]
    _check(op, sources)
    targets: list[Tensor | None] = [None] * len(sources)
    outputs = Y if isinstance(Y, tuple) else (Y,)
    for blob, shape in zip(outputs, op.schema.infer_specs(op, [one.spec for one in sources]).specs, strict=True):
        at = outputs.index(blob) if isinstance(Y, tuple) else op.root
        targets[at] = _target(blob, sources[at], tuple(cast("Tensor", shape).shape))
    if sources[0].size == 0:
        return
    home = current_context(operator.place)
    contexts = [current_context(one.place) for one in sources]
    before = recorded(home)
    for context in contexts:
        if context is not home:
            context.wait_for(before)
    with group([queue_of(context).device for context in contexts]) as handles:
        for rank in map(Rank, sources, targets, contexts, handles):
            rank.queue(op)
    for context in contexts:
        if context is not home:
            home.wait_for(recorded(context))


def _target(blob: Blob, source: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return the tensor of an output on the GPU of `source`: the one that is there, or else a new one."""
    found = blob.value
    fits = isinstance(found, Tensor) and (found.place, found.dtype) == (source.place, source.dtype)
    if not fits or tuple(cast("Tensor", found).shape) != shape:
        found = Tensor(shape, source.dtype, source.place, holder=blob.name)
        blob.set(found)
    made = cast("Tensor", found)
    made.reserve()
    return made


def _check(op: OpView, sources: Sequence[Tensor]) -> None:
    """Check that there is a GPU for each input, and that all of them have one shape and type.

    Raises:
        PlaceError: an input on the host, or two on one GPU.
        ArgumentError: a root that is no input, shapes that differ, or that do not fall into parts.
    """
    places: list[Place] = [one.place for one in sources]
    for name, place in zip(op.definition.input, places, strict=True):
        if place.kind != KIND:
            raise PlaceError(f"{op.type} reads {name!r}, which lies at {place}", hint="each input lies on a GPU")
        if places.count(place) > 1:
            raise PlaceError(f"{op.type} has two inputs on {place}", hint="each GPU has one")
    first = sources[0]
    for name, one in zip(op.definition.input, sources, strict=True):
        if (one.shape, one.dtype) != (first.shape, first.dtype):
            raise ArgumentError(f"{op.type}: {name!r} is {one.spec}, the first input {first.spec}")
    root = op.arguments.get("root", 0)
    if root >= len(sources):
        raise ArgumentError(f"{op.type}: root = {root}, there are {len(sources)} inputs")


def _register() -> None:
    run_collective.__module__ = __name__
    for schema in collectives.schemas:
        host_kernel(schema, engine=NAME, device=KIND)(run_collective)


_register()
