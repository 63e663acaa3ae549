"""Collective operators: Allreduce, Reduce, ReduceScatter, Allgather, Broadcast, Barrier.

All ranks of a world run them together, and get the same bits. Between threads sums are formed in the order of the
ranks, and of the blobs of a rank; between processes in that of the MPI library.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tazza.errors import ShapeError
from tazza.operator import Array, Effects, Operator, OpView, Role, Spec, arg, as_many, blob, each, host_kernel, schema
from tazza.ops.distributed.common_world import NO_GRADIENT, WorldKernel
from tazza.ops.distributed.communicator import WORLD, CommonWorld
from tazza.tensor import ROW_MAJOR, Blob, DataType, Tensor, TensorSpec

NUMERIC = frozenset(
    {DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64}
)
ON_WORLD = blob("comm_world", type_name=WORLD, role=Role.STATE)


class Collective(WorldKernel):
    """Base of the kernels here: looks at the blobs of a rank, and at the world that is the operator's first input."""

    def __init__(self, operator: Operator) -> None:
        """Meet in that world."""
        super().__init__(operator)
        self._blob: Blob = operator.inputs[0]

    def come(self, op: OpView) -> CommonWorld:
        """Return the world, in which this rank may now wait for others."""
        own = self.world = self._blob.get(CommonWorld)
        self.check(op, own)
        self.patience.begin(own.timeout_s)
        return own

    def check(self, op: OpView, own: CommonWorld) -> None:
        """Check that the arguments are for this world: all are for most types."""


class Rooted(Collective):
    """Base of those in which one rank is not as the others."""

    def check(self, op: OpView, own: CommonWorld) -> None:
        """Raise a `ShapeError` unless `root` is a rank of the world."""
        op.require(op.root < own.size, f"root = {op.root} is not below the {own.size} ranks of the world")


def brought(op: OpView, X: Sequence[Blob], what: str = "") -> tuple[list[Array], str]:
    """Return the arrays that a rank brings, and what the others are told of them.

    Raises:
        ShapeError: they differ.
    """
    tensors = [one.get(Tensor) for one in X]
    if len({(one.spec.dims, one.dtype) for one in tensors}) > 1:
        found = ", ".join(f"{one.name!r}: {tensor.spec}" for one, tensor in zip(X, tensors, strict=True))
        raise op.error(ShapeError, f"the blobs of a rank differ: {found}")
    shape = f" of {len(X)} x {tensors[0].dtype.label}{list(tensors[0].shape)}" if tensors else ""
    return [tensor.plain() for tensor in tensors], f"{op.type}{what}{shape}"


ALLREDUCE = schema(
    "Allreduce",
    "Every Y = the sum over all ranks of all their X, which have one shape and element type.",
    inputs=[ON_WORLD, blob("X", NUMERIC, variadic=True, role=Role.DATA)],
    outputs=[blob("Y", variadic=True, like="X")],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Allreduce", run("CreateCommonWorld", size=1), [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)


@host_kernel(ALLREDUCE)
class Allreduce(Collective):
    """Sums."""

    def run(self, op: OpView, X: tuple[Blob, ...], Y: tuple[Blob, ...]) -> None:
        with self.patience.span():
            own = self.come(op)
            arrays, what = brought(op, X)
            tensors = [target.tensor() for target in Y]
            out = tensors[0].array if is_plain(tensors[0]) else np.empty_like(arrays[0])
            own.allreduce(what, arrays, out, self.patience)
        for tensor in tensors:
            tensor.mark_written() if is_plain(tensor) and tensor.array is out else tensor.assign(out)


def is_plain(tensor: Tensor) -> bool:
    """Whether a tensor's own memory holds its elements one behind the other, on the host."""
    return tensor.spec.place.is_host and tensor.spec.layout == ROW_MAJOR


REDUCE = schema(
    "Reduce",
    "Y on rank `root` = the sum of X over all ranks; on the others it is 0.",
    inputs=[ON_WORLD, blob("X", NUMERIC, role=Role.DATA)],
    outputs=[blob("Y", like="X")],
    args=[arg("root", int, 0, minimum=0, doc="the rank that gets the sum")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Reduce", run("CreateCommonWorld", size=1), [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)


@host_kernel(REDUCE)
class Reduce(Rooted):
    """Sums, for one rank."""

    def run(self, op: OpView, X: Blob, Y: Blob) -> None:
        with self.patience.span():
            own = self.come(op)
            arrays, what = brought(op, [X], f" to rank {op.root}")
            total = np.empty_like(arrays[0])
            own.allreduce(what, arrays, total, self.patience)
        Y.tensor().assign(total if own.rank == op.root else np.zeros_like(total))


REDUCE_SCATTER = schema(
    "ReduceScatter",
    """Every Y begins with a part of the sum over all ranks of all their X, flat: parts follow each other by ranks.

    counts says how many elements each rank gets, as far as there are so many; the other elements of Y are those of X.
    All ranks give the same counts.""",
    inputs=[
        ON_WORLD,
        blob("X", NUMERIC, variadic=True, role=Role.DATA),
        blob("counts", DataType.INT32, host=True, role=Role.STATE, doc="an element for each rank, of any shape"),
    ],
    outputs=[blob("Y", variadic=True, like="X"), blob("counts_next", like="counts", host=True)],
    must_in_place={"Y": each("X"), "counts_next": "counts"},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> world = run("CreateCommonWorld", size=1)
    >>> run("ReduceScatter", world, [1.0, 2.0], np.array([2], np.int32), outputs=2)[0]
    array([1., 2.], dtype=float32)
    """,
)


@host_kernel(REDUCE_SCATTER)
class ReduceScatter(Collective):
    """Sums, of which each rank gets a part."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._counts: Blob = operator.blobs["counts"]

    def run(self, op: OpView, X: tuple[Blob, ...], counts: Blob, Y: tuple[Blob, ...]) -> None:
        parts: list[int] = counts.get(Tensor).plain().reshape(-1).tolist()
        with self.patience.span():
            own = self.come(op)
            arrays, what = brought(op, X, f" by {parts}")
            total = np.empty_like(arrays[0])
            own.allreduce(what, arrays, total, self.patience)
        before = sum(parts[: own.rank])
        part = total.reshape(-1)[before : before + parts[own.rank]]
        for target in Y:
            whole = target.get(Tensor).plain().copy()
            whole.reshape(-1)[: len(part)] = part
            target.tensor().assign(whole)

    def check(self, op: OpView, own: CommonWorld) -> None:
        parts = self._counts.get(Tensor).plain().reshape(-1).tolist()
        op.require(len(parts) == own.size, f"there are {len(parts)} counts for {own.size} ranks")
        op.require(min(parts) >= 0, f"a count is negative: {parts}")


ALLGATHER = schema(
    "Allgather",
    "Y on every rank = all X of all ranks as one list, by ranks; those of a rank have one shape and element type.",
    inputs=[ON_WORLD, blob("X", NUMERIC, variadic=True, role=Role.DATA)],
    outputs=[blob("Y", "X", "M")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Allgather", run("CreateCommonWorld", size=1), [[1.0], [2.0]])
    array([1., 2.], dtype=float32)
    """,
)


@ALLGATHER.infer
def allgather_infer(op: OpView, comm_world: Spec, X: tuple[TensorSpec, ...]) -> TensorSpec:
    del op, comm_world
    return TensorSpec((None,), X[0].dtype)


@host_kernel(ALLGATHER)
class Allgather(Collective):
    """Joins."""

    def run(self, op: OpView, X: tuple[Blob, ...], Y: Blob) -> None:
        with self.patience.span():
            own = self.come(op)
            arrays, what = brought(op, X)
            gathered = own.allgather(what, arrays, self.patience)
        Y.tensor().assign(np.concatenate([array.reshape(-1) for array in gathered]))


BROADCAST = schema(
    "Broadcast",
    "Every Y on every rank = the first X of rank `root`.",
    inputs=[ON_WORLD, blob("X", NUMERIC, variadic=True, role=Role.DATA)],
    outputs=[blob("Y", variadic=True, like="X")],
    args=[arg("root", int, 0, minimum=0, doc="the rank whose blob the others get")],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Broadcast", run("CreateCommonWorld", size=1), [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)


@host_kernel(BROADCAST)
class Broadcast(Rooted):
    """Hands out what the root brings."""

    def run(self, op: OpView, X: tuple[Blob, ...], Y: tuple[Blob, ...]) -> None:
        with self.patience.span():
            own = self.come(op)
            arrays, what = brought(op, X, f" from rank {op.root}")
            result = own.broadcast(what, op.root, arrays, self.patience)
        for target in Y:
            target.tensor().assign(result)


BARRIER = schema(
    "Barrier",
    "Goes on when all ranks have come.",
    inputs=[ON_WORLD],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Barrier", run("CreateCommonWorld", size=1))
    ()
    """,
)


@host_kernel(BARRIER)
class Barrier(Collective):
    """Brings nothing."""

    def run(self, op: OpView) -> None:
        with self.patience.span():
            self.come(op).barrier(self.patience)
