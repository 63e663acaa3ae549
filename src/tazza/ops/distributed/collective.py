"""Collective operators: Allreduce, Reduce, ReduceScatter, Allgather, Broadcast, Barrier.

All ranks of a world run them together. Sums are formed in the order of the ranks, and of the blobs of a rank, so that
all ranks get the same bits, however their threads run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tazza.errors import ShapeError
from tazza.operator import Array, Effects, Operator, OpView, Role, Spec, arg, as_many, blob, each, host_kernel, schema
from tazza.ops.distributed.common_world import NO_GRADIENT, WORLD, CommonWorld, WorldKernel
from tazza.tensor import Blob, DataType, Tensor, TensorSpec

NUMERIC = frozenset(
    {DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.INT8, DataType.UINT8, DataType.INT32, DataType.INT64}
)
ON_WORLD = blob("comm_world", type_name=WORLD, role=Role.STATE)


class Collective(WorldKernel):
    """Base of the kernels here: brings the blobs of a rank to the others, and leaves there what comes out."""

    def __init__(self, operator: Operator) -> None:
        """Meet in the world that is the operator's first input."""
        super().__init__(operator)
        self._blob: Blob = operator.inputs[0]

    def together(self, op: OpView, X: Sequence[Blob], Y: Sequence[Blob], what: str) -> None:
        """Meet the other ranks with X and write what comes out to Y; see `meet`."""
        for target, result in zip(Y, self.meet(op, X, what), strict=True):
            target.tensor().assign(result)

    def meet(self, op: OpView, X: Sequence[Blob], what: str) -> Sequence[Array]:
        """Meet the other ranks with X and return what comes out, which nobody writes.

        Raises:
            ShapeError: the blobs of this rank differ.
            NetError, ClosedError, RunCancelledError, DeadlineError: see `World.meet`.
        """
        with self.patience.span():
            world = self._blob.get(CommonWorld)
            self.world = world.world
            self.check(op, world)
            tensors = [one.get(Tensor) for one in X]
            if len({(one.spec.dims, one.dtype) for one in tensors}) > 1:
                found = ", ".join(f"{one.name!r}: {tensor.spec}" for one, tensor in zip(X, tensors, strict=True))
                raise op.error(ShapeError, f"the blobs of a rank differ: {found}")
            arrays = [tensor.plain() for tensor in tensors]
            shape = f" of {len(X)} x {tensors[0].dtype.label}{list(tensors[0].shape)}" if tensors else ""
            return world.meet(f"{op.type}{what}{shape}", arrays, self.work, self.patience)

    def check(self, op: OpView, own: CommonWorld) -> None:
        """Check that the arguments are for this world: all are for most types."""

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        """Return what every rank gets, of what all bring by rank; nobody writes it."""
        raise NotImplementedError


class Rooted(Collective):
    """Base of those in which one rank is not as the others."""

    def check(self, op: OpView, own: CommonWorld) -> None:
        """Raise a `ShapeError` unless `root` is a rank of the world."""
        size = own.world.size
        op.require(op.root < size, f"root = {op.root} is not below the {size} ranks of the world")


def in_order(brought: dict[int, Sequence[Array]]) -> list[Array]:
    """Return all arrays, in the order of the ranks and of the blobs of a rank."""
    return [array for _, arrays in sorted(brought.items()) for array in arrays]


def total_of(brought: dict[int, Sequence[Array]]) -> Array:
    """Return the sum of all arrays."""
    first, *others = in_order(brought)
    total = first.copy()
    with np.errstate(all="ignore"):
        for array in others:
            np.add(total, array, out=total)
    return total


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
        self.together(op, X, Y, "")

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        return [total_of(brought)] * len(brought[0])


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

    def run(self, op: OpView, comm_world: Blob, X: Blob, Y: Blob) -> None:
        (total,) = self.meet(op, [X], f" to rank {op.root}")
        Y.tensor().assign(total if comm_world.get(CommonWorld).rank == op.root else np.zeros_like(total))

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        return [total_of(brought)]


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

    def run(self, op: OpView, comm_world: Blob, X: tuple[Blob, ...], counts: Blob, Y: tuple[Blob, ...]) -> None:
        parts: list[int] = counts.get(Tensor).plain().reshape(-1).tolist()
        total = self.meet(op, X, f" by {parts}")[0].reshape(-1)
        rank = comm_world.get(CommonWorld).rank
        before = sum(parts[:rank])
        part = total[before : before + parts[rank]]
        for target in Y:
            whole = target.get(Tensor).plain().copy()
            whole.reshape(-1)[: len(part)] = part
            target.tensor().assign(whole)

    def check(self, op: OpView, own: CommonWorld) -> None:
        parts = self._counts.get(Tensor).plain().reshape(-1).tolist()
        op.require(len(parts) == own.world.size, f"there are {len(parts)} counts for {own.world.size} ranks")
        op.require(min(parts) >= 0, f"a count is negative: {parts}")

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        return [total_of(brought)]


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
        self.together(op, X, [Y], "")

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        return [np.concatenate([array.reshape(-1) for array in in_order(brought)])]


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

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._root: int = operator.op.root

    def run(self, op: OpView, X: tuple[Blob, ...], Y: tuple[Blob, ...]) -> None:
        self.together(op, X, Y, f" from rank {op.root}")

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        return [brought[self._root][0].copy()] * len(brought[self._root])


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
        self.together(op, (), (), "")

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        return ()
