"""Worlds of ranks that compute together: CreateCommonWorld, CloneCommonWorld, DestroyCommonWorld.

A world has `size` ranks, each of which has a blob that says which one it is. Who carries it, threads of one process or
the processes that `mpiexec` started, is said by the operator's engine (`communicator`).
"""

from __future__ import annotations

from tazza.operator import Effects, Operator, OpView, Role, arg, blob, forbidden, host_kernel, schema
from tazza.ops.distributed.communicator import COMMUNICATORS, WORLD, CommonWorld, Entrance
from tazza.ops.distributed.store import STORE, StoreHandler
from tazza.ops.distributed.thread_world import ThreadRank
from tazza.runtime.patience import Patience
from tazza.tensor import Blob

NO_GRADIENT = forbidden("it moves data between ranks; the builder of a net on several ranks says what its gradient is")


CREATE_COMMON_WORLD = schema(
    "CreateCommonWorld",
    """comm_world = rank `rank` of a world of `size` ranks, when all have come.

    With the engine MPI ranks are the processes that `mpiexec` started, which says how many there are and which this is.
    Else they are threads of this process; in one world are those whose operators have the same store and the same name,
    or without a name the same output. In the folder of a store they say in which process they are.""",
    inputs=[blob("kv_handler", type_name=STORE, optional=True, role=Role.STATE)],
    outputs=[blob("comm_world", type_name=WORLD)],
    args=[
        arg("size", int, 1, minimum=1, doc="ranks of the world"),
        arg("rank", int, 0, minimum=0, doc="which of them this is"),
        arg("timeout_ms", int, 30000, minimum=0, doc="milliseconds that a rank waits for the others; 0 is no limit"),
        arg("sync", bool, False, doc="has no effect: every rank waits for all"),
        arg("interface", str, "", doc="has no effect: no network is used"),
        arg("transport", str, "", doc="has no effect: no network is used"),
        arg("status_blob", str, "", doc="has no effect: a rank that fails raises an error"),
    ],
    effects=Effects.IO,  # it waits for whoever comes to the world from elsewhere in the process
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> world = run("CreateCommonWorld", size=1)
    >>> world.rank, world.size
    (0, 1)
    """,
)


@CREATE_COMMON_WORLD.validate
def create_common_world_validate(op: OpView) -> None:
    op.require(op.rank < op.size, f"rank = {op.rank} is not below size = {op.size}")


class WorldKernel:
    """Base of kernels that wait for other ranks; another thread may ask them to give up."""

    def __init__(self, operator: Operator) -> None:
        """Wait for the other ranks."""
        self.patience = Patience(f"for the other ranks of a common world, in {operator.op.type}")
        self.world: CommonWorld | None = None

    def cancel(self) -> None:
        """Give up the wait of the present run, or of the one that is about to begin."""
        self.patience.give_up()
        if self.world is not None:
            self.world.wake()

    def see(self, world: CommonWorld) -> None:
        """Wake this one where the wait is given up."""
        self.world = world


@host_kernel(CREATE_COMMON_WORLD)
class CreateCommonWorld(WorldKernel):
    """Waits until all ranks have come."""

    def run(self, op: OpView, kv_handler: Blob | None, comm_world: Blob) -> None:
        timeout_s = op.timeout_ms / 1000
        with self.patience.span(timeout_s):
            store = None if kv_handler is None else kv_handler.get(StoreHandler)
            name = op.definition.name if op.definition.name else comm_world.name
            found = COMMUNICATORS.get(op.definition.engine)
            kind = ThreadRank if found is None else found
            comm_world.set(kind.enter(Entrance(name, op.size, op.rank, timeout_s, store), self.patience, self.see))


CLONE_COMMON_WORLD = schema(
    "CloneCommonWorld",
    "comm_world = the same rank of a new world of the same ranks, which meet there apart from the old one.",
    inputs=[blob("existing_comm_world", type_name=WORLD, role=Role.STATE)],
    outputs=[blob("comm_world", type_name=WORLD)],
    effects=Effects.IO,  # it waits for whoever comes to the world from elsewhere in the process
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> world = run("CreateCommonWorld", size=1)
    >>> run("CloneCommonWorld", world) is world
    False
    """,
)


@host_kernel(CLONE_COMMON_WORLD)
class CloneCommonWorld(WorldKernel):
    """Waits until all ranks have come."""

    def run(self, existing_comm_world: Blob, comm_world: Blob) -> None:
        with self.patience.span():
            old = existing_comm_world.get(CommonWorld)
            self.patience.begin(old.timeout_s)
            comm_world.set(old.clone(self.patience, self.see))


DESTROY_COMMON_WORLD = schema(
    "DestroyCommonWorld",
    "The rank leaves; those that still wait for it get an error.",
    inputs=[blob("common_world", type_name=WORLD, role=Role.STATE)],
    outputs=[blob("left", type_name=WORLD)],
    must_in_place={"left": "common_world"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("DestroyCommonWorld", run("CreateCommonWorld", size=1)).broken
    'rank 0 has left'
    """,
)


@host_kernel(DESTROY_COMMON_WORLD)
def destroy_common_world(left: Blob) -> None:
    left.get(CommonWorld).close()
