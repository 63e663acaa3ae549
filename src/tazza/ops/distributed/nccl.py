"""Collective operators of the GPUs of one process: NCCLAllreduce and its like.

Each X and each Y lies on a GPU of its own, and the library NCCL moves the data. Where it is not there, or no GPU, nets
that name these operators can be read, shown and rewritten, and a run ends with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.errors import UnavailableError
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
    host_kernel,
    schema,
)
from tazza.operator.in_place import InPlace
from tazza.tensor import DataType, TensorSpec

MOVED = FLOAT | {DataType.FLOAT16}
REASON = "it needs the library NCCL, and to stand on a GPU"
HINT = "elsewhere let each rank be one of a common world: Allreduce, Broadcast, Reduce, Allgather, ReduceScatter"
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


def all_gather_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    del op
    return tuple(TensorSpec(None if one.dims is None else (len(X), *one.dims), one.dtype) for one in X)


def reduce_scatter_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    for one in X:
        if one.dims is not None:
            parts = one.dims[0] if one.dims else None
            op.require(len(one.dims) > 0, "X has no dimension that falls into parts", "give each GPU a row")
            relation = f"X has {parts} rows for {len(X)} GPUs"
            op.require(parts in (None, len(X)), relation, "each GPU gets one")
    return tuple(TensorSpec(None if one.dims is None else tuple(one.dims[1:]), one.dtype) for one in X)


INFER = {"NCCLAllGather": all_gather_infer, "NCCLReduceScatter": reduce_scatter_infer}


@family(
    {
        "NCCLAllreduce": Collective("Every Y = the sum of all X.", in_place={"Y": each("X")}),
        "NCCLBroadcast": Collective("Every Y = X number `root`.", must_in_place=True, args=[ROOT]),
        "NCCLReduce": Collective(
            "Y = the sum of all X, on GPU `root`.", several=False, in_place={"Y": anything()}, args=[ROOT]
        ),
        "NCCLAllGather": Collective(
            "Every Y = all X, one behind the other along a new first dimension.", keeps_shape=False
        ),
        "NCCLReduceScatter": Collective(
            "Y number k = row k of the sum of all X, which have as many rows as there are.", keeps_shape=False
        ),
    }
)
def collectives(type: str, row: Collective) -> OpSchema:
    """An operator on several GPUs, which says why it cannot run where there are none."""
    made = schema(
        type,
        f"""{row.doc}

        Each X lies on a GPU of its own, and each Y on that of its X; {REASON[3:]}.""",
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

    if type in INFER:
        made.infer(INFER[type])

    @host_kernel(made)
    def refuse(op: OpView) -> None:
        raise op.error(UnavailableError, REASON, HINT)

    return made
