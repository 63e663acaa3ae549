"""Collective operators of the GPUs of one process: NCCLAllreduce and its like.

Each X and each Y lies on a GPU of its own. The library NCCL moves the data, which tazza does not call: nets that name
these operators can be read, shown and rewritten, and a run ends with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tazza.operator import (
    FLOAT,
    ArgSpec,
    Effects,
    OpSchema,
    OpView,
    Role,
    anything,
    arg,
    as_many,
    blob,
    each,
    family,
    forbidden,
    schema,
)
from tazza.operator.in_place import InPlace
from tazza.ops.control.foreign import unavailable
from tazza.tensor import DataType, TensorSpec

MOVED = FLOAT | {DataType.FLOAT16}
REASON = "it needs the library NCCL, which tazza does not call"
HINT = "let each GPU be a rank of a common world: Allreduce, Broadcast, Reduce, Allgather, ReduceScatter"
ROOT = arg("root", int, 0, minimum=0, doc="which of the GPUs, by the position of its blob")


@dataclass(frozen=True, slots=True)
class Collective:
    """What comes out, and where."""

    doc: str
    several: bool = True
    keeps_shape: bool = True
    in_place: InPlace = None
    must_in_place: bool = False
    args: Sequence[ArgSpec] = ()


def collective_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    del op
    return tuple(TensorSpec(None, one.dtype) for one in X)


@family(
    {
        "NCCLAllreduce": Collective("Every Y = the sum of all X.", in_place={"Y": each("X")}),
        "NCCLBroadcast": Collective("Every Y = X number `root`.", must_in_place=True, args=[ROOT]),
        "NCCLReduce": Collective(
            "Y = the sum of all X, on GPU `root`.", several=False, in_place={"Y": anything()}, args=[ROOT]
        ),
        "NCCLAllGather": Collective("Every Y = all X, one behind the other.", keeps_shape=False),
        "NCCLReduceScatter": Collective(
            "Y number k = part k of the sum of all X, in as many equal parts.", keeps_shape=False
        ),
    }
)
def collectives(type: str, row: Collective) -> OpSchema:
    """An operator that says why it cannot run."""
    made = schema(
        type,
        f"""{row.doc}

        It cannot run here: {REASON}.""",
        inputs=[blob("X", MOVED, variadic=True, role=Role.DATA)],
        outputs=[blob("Y", like="X", variadic=row.several) if row.keeps_shape else blob("Y", "X", variadic=True)],
        args=row.args,
        in_place=row.in_place,
        must_in_place={"Y": each("X")} if row.must_in_place else None,
        relations=[as_many("Y", "X")] if row.several else [],
        effects=Effects.STATE,
        inputs_can_cross_devices=True,
        no_gradient=forbidden("it moves data between GPUs; the builder of a net on several GPUs says what it is"),
        source="Caffe2",
    )

    if not row.keeps_shape:
        made.infer(collective_infer)

    return unavailable(made, REASON, HINT)
