"""Blobs that are emptied in the middle of a net: Free."""

from __future__ import annotations

from tazza.operator import Cost, Effects, OpView, Role, Spec, as_many, blob, each, forbidden, host_kernel, schema
from tazza.tensor import Blob

FREE = schema(
    "Free",
    "Each Y holds nothing any more: what X held is gone, with its memory, unless others share it.",
    inputs=[blob("X", type_name="*", variadic=True, role=Role.STATE)],
    outputs=[blob("Y", type_name="*", variadic=True)],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=forbidden("nothing is left"),
    source="Caffe2",
)


@FREE.cost
def free_cost(op: OpView, X: tuple[Spec, ...], Y: tuple[Spec, ...]) -> Cost:
    del op, X, Y
    return Cost()


@host_kernel(FREE)
def free(Y: tuple[Blob, ...]) -> None:
    for one in Y:
        one.reset("a Free emptied it")
