"""What ranks exchange while the net goes on: BeginAllreduce and BeginAllgatherRows, with an End for each.

A Begin lets the world's thread do what takes long; the End with its exchange waits and writes what came out. Between
them the net computes, and leaves alone what was brought. A Begin overwrites the world, so that all ranks begin in one
order whatever runs side by side. AllSame holds the texts of all ranks against each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from tazza.errors import NetError
from tazza.operator import Array, Effects, Operator, OpView, Role, arg, as_many, blob, each, host_kernel, schema
from tazza.ops.distributed.collective import ON_WORLD
from tazza.ops.distributed.common_world import NO_GRADIENT, WorldKernel
from tazza.ops.distributed.communicator import WORLD, CommonWorld, Errand
from tazza.ops.distributed.piece import Bundle, Sums
from tazza.runtime.patience import Patience
from tazza.tensor import Blob, DataType, Tensor
from tazza.tensor.blob import blob_type

EXCHANGE = "tazza::Exchange"
SENT = {one.label: one for one in (DataType.FLOAT, DataType.BFLOAT16, DataType.FLOAT16)}
"""Element types in which numbers may go around."""
INTEGERS = frozenset({DataType.INT32, DataType.INT64})
ON_EXCHANGE = blob("exchange", type_name=EXCHANGE, role=Role.STATE)
BEGUN = [blob("exchange", type_name=EXCHANGE), blob("comm_world_next", type_name=WORLD)]

T = TypeVar("T")


@blob_type(EXCHANGE)
class Exchange:
    """An exchange under way: the errand, and the world whose time-out counts."""

    def __init__(self, errand: Errand[Any], world: CommonWorld) -> None:
        """Wait for nobody yet."""
        self.errand, self.world = errand, world

    def wake(self) -> None:
        """Let who waits look again."""
        self.errand.wake()


class EndKernel(Generic[T]):
    """Base of kernels that wait for an exchange; another thread may ask them to give up."""

    def __init__(self, operator: Operator) -> None:
        """Wait for the other ranks."""
        self.patience = Patience(f"for the other ranks of a common world, in {operator.op.type}")
        self._exchange: Exchange | None = None

    def cancel(self) -> None:
        """Give up the wait of the present run, or of the one that is about to begin."""
        self.patience.give_up()
        if self._exchange is not None:
            self._exchange.wake()

    def result(self, exchange: Blob) -> T:
        """Wait and return what came out.

        Raises:
            ClosedError: a rank has left, or failed.
            RunCancelledError, DeadlineError: the wait ended.
        """
        with self.patience.span():
            own = self._exchange = exchange.get(Exchange)
            self.patience.begin(own.world.timeout_s)
            return own.errand.wait(self.patience)


BEGIN_ALLREDUCE = schema(
    "BeginAllreduce",
    """Begins to sum each X over all ranks, in one piece; EndAllreduce takes the sums.

    Nobody writes to X before that: small ones are copied, large ones read where they lie. Sums are formed in float32.
    With another type for `sent_as` what a rank brings is rounded to it, and the sum is.""",
    inputs=[ON_WORLD, blob("X", DataType.FLOAT, variadic=True, role=Role.DATA)],
    outputs=BEGUN,
    args=[arg("sent_as", str, DataType.FLOAT.label, choices=tuple(SENT), doc="the element type that goes around")],
    must_in_place={"comm_world_next": "comm_world"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="tazza; buckets as in Li et al. 2020, arXiv 2006.15704, section 3.2.3",
    example="""
    >>> exchange, _ = run("BeginAllreduce", run("CreateCommonWorld", size=1), [1.0, 2.0], outputs=2)
    >>> run("EndAllreduce", exchange, [1.0, 2.0], scale=0.5)
    array([0.5, 1. ], dtype=float32)
    """,
)


@host_kernel(BEGIN_ALLREDUCE)
class BeginAllreduce(WorldKernel):
    """Copies small tensors into a piece, which it keeps from run to run; large ones are read where they lie."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._bundle: Bundle | None = None
        self._what = ""
        self._errand: Errand[Sums] | None = None

    def run(self, op: OpView, comm_world: Blob, X: tuple[Blob, ...], exchange: Blob) -> None:
        own = self.world = comm_world.get(CommonWorld)
        bundle = self._bundle_of(op, [one.get(Tensor) for one in X])
        bundle.fill()
        what, patience = self._what, Patience(self.patience.what)

        def work() -> Sums:
            with patience.span():
                return bundle.sum(own, what, patience)

        self._errand = own.start(what, bundle.form.size * 4, work)
        exchange.set(Exchange(self._errand, own))

    def _bundle_of(self, op: OpView, tensors: Sequence[Tensor]) -> Bundle:
        """Return what brings these; not what is under way, since its wait was given up."""
        last = self._bundle
        busy = self._errand is not None and not self._errand.ended
        if last is not None and not busy and last.brings(tensors):
            return last
        self._bundle = made = Bundle(tensors, SENT[op.sent_as], last)
        if last is None or last.form is not made.form:
            self._what = f"{op.type} of {[list(spec.shape) for spec in made.form.specs]}"
        return made


END_ALLREDUCE = schema(
    "EndAllreduce",
    "Each Y = scale times the sum of X over all ranks, as BeginAllreduce was given them.",
    inputs=[ON_EXCHANGE, blob("X", DataType.FLOAT, variadic=True, role=Role.DATA)],
    outputs=[blob("Y", variadic=True, like="X")],
    args=[arg("scale", float, 1.0, doc="such as one by the number of ranks, for a mean")],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> exchange, _ = run("BeginAllreduce", run("CreateCommonWorld", size=1), [3.0], [[4.0]], outputs=2)
    >>> run("EndAllreduce", exchange, [3.0], [[4.0]], outputs=2)
    (array([3.], dtype=float32), array([[4.]], dtype=float32))
    """,
)


@host_kernel(END_ALLREDUCE)
class EndAllreduce(EndKernel[Sums]):
    """Takes what came out of the piece, scaled in the same pass."""

    def run(self, op: OpView, exchange: Blob, Y: tuple[Blob, ...]) -> None:
        sums = self.result(exchange)
        tensors = [one.tensor() for one in Y]
        sizes, found = [tensor.size for tensor in tensors], [part.spec.size for part in sums.parts]
        op.require(sizes == found, f"Y have {sizes} elements, {found} were summed")
        sums.write(tensors, op.scale)


BEGIN_ALLGATHER_ROWS = schema(
    "BeginAllgatherRows",
    "Begins to join the indices and rows of all ranks; EndAllgatherRows takes them.",
    inputs=[
        ON_WORLD,
        blob("indices", INTEGERS, "N", role=Role.INDEX),
        blob("rows", DataType.FLOAT, "N *D", role=Role.DATA),
    ],
    outputs=BEGUN,
    must_in_place={"comm_world_next": "comm_world"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> world, indices = run("CreateCommonWorld", size=1), np.array([1, 0])
    >>> exchange, _ = run("BeginAllgatherRows", world, indices, [[1.0], [2.0]], outputs=2)
    >>> run("EndAllgatherRows", exchange, indices, [[1.0], [2.0]], outputs=2)[0]
    array([1, 0])
    """,
)


@host_kernel(BEGIN_ALLGATHER_ROWS)
class BeginAllgatherRows(WorldKernel):
    """Copies indices and rows."""

    def run(self, op: OpView, comm_world: Blob, indices: Blob, rows: Blob, exchange: Blob) -> None:
        own = self.world = comm_world.get(CommonWorld)
        arrays = [one.get(Tensor).plain().copy() for one in (indices, rows)]
        what = f"{op.type} of {arrays[0].dtype.name} and {list(arrays[1].shape[1:])}"
        patience = Patience(self.patience.what)

        def work() -> list[Array]:
            with patience.span():
                return own.allgather(what, arrays, patience)

        errand = own.start(what, sum(array.nbytes for array in arrays), work)
        exchange.set(Exchange(errand, own))


END_ALLGATHER_ROWS = schema(
    "EndAllgatherRows",
    "all_indices = the indices of all ranks, by ranks; all_rows = scale times their rows.",
    inputs=[
        ON_EXCHANGE,
        blob("indices", INTEGERS, "N", role=Role.INDEX, doc="of this rank, for the type"),
        blob("rows", DataType.FLOAT, "N *D", role=Role.DATA, doc="of this rank, for the shape"),
    ],
    outputs=[blob("all_indices", "indices", "M", dynamic=True), blob("all_rows", "rows", "M *D", dynamic=True)],
    args=[arg("scale", float, 1.0, doc="such as one by the number of ranks")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> world, indices = run("CreateCommonWorld", size=1), np.array([1, 0])
    >>> exchange, _ = run("BeginAllgatherRows", world, indices, [[1.0], [2.0]], outputs=2)
    >>> run("EndAllgatherRows", exchange, indices, [[1.0], [2.0]], scale=0.5, outputs=2)[1]
    array([[0.5],
           [1. ]], dtype=float32)
    """,
)


@host_kernel(END_ALLGATHER_ROWS)
class EndAllgatherRows(EndKernel[list[Array]]):
    """Joins what all have brought."""

    def run(self, op: OpView, exchange: Blob, all_indices: Blob, all_rows: Blob) -> None:
        gathered = self.result(exchange)
        rows = np.concatenate(gathered[1::2])
        if op.scale != 1.0:
            np.multiply(rows, np.float32(op.scale), out=rows)
        all_indices.tensor().assign(np.concatenate(gathered[::2]))
        all_rows.tensor().assign(rows)


ALL_SAME = schema(
    "AllSame",
    "Goes on when all ranks have come with the same text.",
    inputs=[ON_WORLD],
    args=[arg("text", str, "", doc="such as the digest of a net"), arg("what", str, "text", doc="for the message")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> run("AllSame", run("CreateCommonWorld", size=1), text="a")
    ()
    """,
)


@host_kernel(ALL_SAME)
class AllSame(WorldKernel):
    """Gathers the texts."""

    def run(self, op: OpView, comm_world: Blob) -> None:
        with self.patience.span():
            own = self.world = comm_world.get(CommonWorld)
            text = np.frombuffer(op.text.encode(errors="surrogateescape"), np.uint8)
            texts = [bytes(one) for one in own.allgather("AllSame", [text], self.patience)]
        others = _unlike(texts)
        if others:
            raise op.error(
                NetError,
                f"the {op.what} of rank {_listed(others)} is not that of rank 0",
                hint="start all ranks with the same program, options and versions",
            )


def _unlike(texts: Sequence[bytes]) -> list[int]:
    """Return the ranks whose text is not that of rank 0."""
    return [rank for rank, text in enumerate(texts) if text != texts[0]]


def _listed(ranks: Sequence[int]) -> str:
    return ", ".join(map(str, ranks))
