"""Tensors that one rank sends to another: SendTensor, ReceiveTensor.

Who sends does not wait. Messages of one rank to another with one tag are received in the order in which they were sent.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError, NumericError, ShapeError
from tazza.operator import Effects, Operator, OpView, Role, arg, blob, host_kernel, one_value, schema
from tazza.ops.distributed.collective import NUMERIC, ON_WORLD
from tazza.ops.distributed.common_world import NO_GRADIENT, WorldKernel
from tazza.ops.distributed.communicator import CommonWorld, Message
from tazza.tensor import Blob, DataType, Tensor

ANY = -1
RAW = arg("raw_buffer", bool, False, doc="whether types that MPI does not know are sent as bytes; it has no effect")
NUMBER = frozenset({DataType.INT32})


def rank_in(op: OpView, name: str, rank: int, size: int) -> int:
    """Return a rank that the world has.

    Raises:
        ArgumentError: it has no such one.
    """
    if not 0 <= rank < size:
        raise op.error(ArgumentError, f"{name} = {rank} is not one of the {size} ranks, which count from 0")
    return rank


def said(op: OpView, letter: str, given: Blob | None) -> int:
    """Return a number that an input says, or without it the argument of that name."""
    number = int(getattr(op, letter) if given is None else one_value(op, letter, given))
    if abs(number) >= 2**31:
        raise op.error(NumericError, f"{letter} is {number}, it must stay in 32 bits")
    return number


SEND_TENSOR = schema(
    "SendTensor",
    "Sends X to rank `dst`.",
    inputs=[
        ON_WORLD,
        blob("X", NUMERIC, role=Role.DATA),
        blob("dst", NUMBER, optional=True, host=True, role=Role.INDEX, doc="of one element, instead of the argument"),
        blob("tag", NUMBER, optional=True, host=True, role=Role.INDEX, doc="of one element, instead of the argument"),
    ],
    args=[
        arg("dst", int, ANY, doc="the rank that gets it"),
        arg("tag", int, 0, minimum=0, doc="what tells messages apart"),
        RAW,
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("SendTensor", run("CreateCommonWorld", size=1), [1.0, 2.0], dst=0)
    ()
    """,
)


@host_kernel(SEND_TENSOR)
def send_tensor(op: OpView, comm_world: Blob, X: Blob, dst: Blob | None, tag: Blob | None) -> None:
    own = comm_world.get(CommonWorld)
    target = rank_in(op, "dst", said(op, "dst", dst), own.size)
    own.send(Message(own.rank, target, said(op, "tag", tag), X.get(Tensor).plain()))


RECEIVE_TENSOR = schema(
    "ReceiveTensor",
    """Y_received = what rank `src` sent to this one, as soon as it is there.

    It comes in place of Y, which has its shape and type. src_received and tag_received say from where, and with which
    tag.""",
    inputs=[
        ON_WORLD,
        blob("Y", NUMERIC, role=Role.STATE),
        blob("src", NUMBER, optional=True, host=True, role=Role.INDEX, doc="of one element, instead of the argument"),
        blob("tag", NUMBER, optional=True, host=True, role=Role.INDEX, doc="of one element, instead of the argument"),
    ],
    outputs=[
        blob("Y_received", like="Y"),
        blob("src_received", DataType.INT32, "", host=True),
        blob("tag_received", DataType.INT32, "", host=True),
    ],
    args=[
        arg("src", int, ANY, minimum=ANY, doc="the rank that sent it; -1 for any"),
        arg("tag", int, ANY, minimum=ANY, doc="the tag that it has; -1 for any"),
        RAW,
    ],
    must_in_place={"Y_received": "Y"},
    in_place={"src_received": "src", "tag_received": "tag"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> world = run("CreateCommonWorld", size=1)
    >>> _ = run("SendTensor", world, [1.0, 2.0], dst=0, tag=7)
    >>> run("ReceiveTensor", world, [0.0, 0.0], outputs=3)
    (array([1., 2.], dtype=float32), array(0, dtype=int32), array(7, dtype=int32))
    """,
)


@host_kernel(RECEIVE_TENSOR)
class ReceiveTensor(WorldKernel):
    """Waits for a message."""

    def __init__(self, operator: Operator) -> None:
        super().__init__(operator)
        self._blobs = operator.blobs

    def run(self, op: OpView, comm_world: Blob, src: Blob | None, tag: Blob | None, Y_received: Blob) -> None:
        with self.patience.span():
            own = comm_world.get(CommonWorld)
            self.world = own
            source, wanted = said(op, "src", src), said(op, "tag", tag)
            if source != ANY:
                rank_in(op, "src", source, own.size)
            self.patience.begin(own.timeout_s)
            message = own.receive(source, wanted, self.patience)
        held, got = Y_received.get(Tensor), message.content
        if (tuple(held.shape), held.plain().dtype) != (got.shape, got.dtype):
            relation = f"rank {message.source} sent {got.dtype.name}{list(got.shape)} for {Y_received.name!r}, which is"
            raise op.error(ShapeError, f"{relation} {held.spec}")
        held.assign(got)
        for letter, number in (("src_received", message.source), ("tag_received", message.tag)):
            self._blobs[letter].tensor().assign(np.array(number, np.int32))
