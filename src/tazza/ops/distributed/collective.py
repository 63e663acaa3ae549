"""Collective operators: Allreduce, Broadcast, Barrier. All ranks of a world run them together.

Sums are formed in the order of the ranks, and of the blobs of a rank, so that all ranks get the same bits, however
their threads run.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tazza.errors import ShapeError
from tazza.operator import Array, Effects, Operator, OpView, Role, arg, as_many, blob, each, host_kernel, schema
from tazza.ops.distributed.common_world import NO_GRADIENT, WORLD, CommonWorld, WorldKernel
from tazza.tensor import Blob, DataType, Tensor

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
        """Meet the other ranks with X and write what comes out to Y.

        Raises:
            ShapeError: the blobs of this rank differ.
            NetError, ClosedError, RunCancelledError, DeadlineError: see `World.meet`.
        """
        world = self._blob.get(CommonWorld)
        self.world = world.world
        tensors = [one.get(Tensor) for one in X]
        if len({(one.spec.dims, one.dtype) for one in tensors}) > 1:
            found = ", ".join(f"{one.name!r}: {tensor.spec}" for one, tensor in zip(X, tensors, strict=True))
            raise op.error(ShapeError, f"the blobs of a rank differ: {found}")
        arrays = [tensor.plain() for tensor in tensors]
        shape = f" of {len(X)} x {tensors[0].dtype.label}{list(tensors[0].shape)}" if tensors else ""
        try:
            results = world.meet(f"{op.type}{what}{shape}", arrays, self.work, self.patience)
        finally:
            self.patience.end()
        for target, result in zip(Y, results, strict=True):
            target.tensor().assign(result)

    def work(self, brought: dict[int, Sequence[Array]]) -> Sequence[Array]:
        """Return what every rank gets, of what all bring by rank; nobody writes it."""
        raise NotImplementedError


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
        every = [array for _, arrays in sorted(brought.items()) for array in arrays]
        total = every[0].copy()
        with np.errstate(all="ignore"):
            for array in every[1:]:
                np.add(total, array, out=total)
        return [total] * len(brought[0])


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
class Broadcast(Collective):
    """Hands out what the root brings."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._root: int = operator.op.root

    def run(self, op: OpView, comm_world: Blob, X: tuple[Blob, ...], Y: tuple[Blob, ...]) -> None:
        size = comm_world.get(CommonWorld).world.size
        op.require(op.root < size, f"root = {op.root} is not below the {size} ranks of the world")
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
