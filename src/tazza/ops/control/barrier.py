"""Points in a net that several blobs pass together: AsyncNetBarrier, DataCouple."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.operator import (
    ArgSpec,
    Cost,
    Effects,
    OpSchema,
    OpView,
    Role,
    Spec,
    arg,
    as_many,
    blob,
    each,
    family,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.operator.arity import Relation
from tazza.operator.gradient import NoGradient


@dataclass(frozen=True, slots=True)
class Barrier:
    """What passes, and where."""

    doc: str
    no_gradient: NoGradient
    crosses_devices: bool = False
    relations: Sequence[Relation] = ()
    args: Sequence[ArgSpec] = ()


@family(
    {
        "AsyncNetBarrier": Barrier(
            "Lets all of X pass once all are there, whatever they hold; nothing is done to them.",
            forbidden("Caffe2 refuses it"),
            crosses_devices=True,
            relations=(as_many("Y", "X"),),
            args=(arg("cross_device", bool, False, doc="whether X lies on several devices; it has no effect"),),
        ),
        "DataCouple": Barrier(
            "Y = X, or the first ones of X: who reads one of them runs when all of them are there.",
            not_written("Caffe2 has none"),
        ),
    }
)
def barriers(type: str, row: Barrier) -> OpSchema:
    """An operator behind which blobs are as they were."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", type_name="*", variadic=True, role=Role.DATA)],
        outputs=[blob("Y", type_name="*", variadic=True)],
        args=row.args,
        must_in_place={"Y": each("X")},
        relations=row.relations,
        effects=Effects.STATE,
        no_gradient=row.no_gradient,
        inputs_can_cross_devices=row.crosses_devices,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [1, 2])
        array([1, 2], dtype=int32)
        """,
    )

    @made.infer
    def infer(op: OpView, X: tuple[Spec, ...]) -> tuple[Spec, ...]:
        return X[: len(op.output_letters)]

    @made.cost
    def cost(op: OpView, X: tuple[Spec, ...], Y: tuple[Spec, ...]) -> Cost:
        del op, X, Y
        return Cost()

    @host_kernel(made)
    def stay() -> None:
        """Do nothing: operators that write X have ended, those that read Y have not begun."""

    return made
