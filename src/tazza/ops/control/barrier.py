"""A point in a net that several blobs pass together: AsyncNetBarrier."""

from __future__ import annotations

from tazza.operator import Cost, Effects, OpView, Role, Spec, arg, as_many, blob, each, forbidden, host_kernel, schema

ASYNC_NET_BARRIER = schema(
    "AsyncNetBarrier",
    "Lets all of X pass once all are there, whatever they hold; nothing is done to them.",
    inputs=[blob("X", type_name="*", variadic=True, role=Role.DATA)],
    outputs=[blob("Y", type_name="*", variadic=True)],
    args=[arg("cross_device", bool, False, doc="whether X lies on several devices; it has no effect")],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.STATE,
    no_gradient=forbidden("Caffe2 refuses it"),
    inputs_can_cross_devices=True,
    source="Caffe2",
    example="""
    >>> run("AsyncNetBarrier", [1, 2])
    array([1, 2], dtype=int32)
    """,
)


@ASYNC_NET_BARRIER.infer
def async_net_barrier_infer(op: OpView, X: tuple[Spec, ...]) -> tuple[Spec, ...]:
    del op
    return X


@ASYNC_NET_BARRIER.cost
def async_net_barrier_cost(op: OpView, X: tuple[Spec, ...], Y: tuple[Spec, ...]) -> Cost:
    del op, X, Y
    return Cost()


@host_kernel(ASYNC_NET_BARRIER)
def async_net_barrier() -> None:
    """Do nothing: operators that write X have ended, those that read Y have not begun."""
