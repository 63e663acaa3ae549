"""Counters of iterations: Iter, AtomicIter. t is the number of the iteration, an int64 tensor of one element.

The counter goes up before anyone reads it in a run, so that the first run sees 1.
"""

from __future__ import annotations

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.operator import Effects, OpView, Role, blob, ends, host_kernel, schema
from tazza.ops.control.mutex import MUTEX, Mutex
from tazza.ops.control.statistic import OF_PROCESS
from tazza.tensor import Blob, DataType, Tensor, TensorSpec

LAST = 2**63 - 1
NO_GRADIENT = ends("a counter depends on nothing")


def advance(op: OpView, counter: Tensor) -> None:
    """Add 1 to a counter.

    Raises:
        DTypeError: it is not int64.
        ShapeError: it has not one element.
        NumericError: it is negative, or at the end of its range.
    """
    if counter.dtype is not DataType.INT64:
        raise op.error(DTypeError, f"the counter is {counter.dtype}, it must be int64")
    if counter.size != 1:  # no `op.require`: its text would be made in each step of a training
        raise op.error(ShapeError, f"the counter has {counter.size} elements, it must have 1")
    array = counter.array
    now: int = array.item()
    if not 0 <= now < LAST:
        raise op.error(NumericError, f"the counter stands at {now}, it must be from 0 to {LAST - 1}")
    array.fill(now + 1)


ITER = schema(
    "Iter",
    """t_next = t + 1, in place.

    Without an input the counter is the output itself, which is made with the value 0 if it holds no tensor.""",
    inputs=[blob("t", frozenset({DataType.INT64}), optional=True, host=True, role=Role.STATE, doc="of one element")],
    outputs=[blob("t_next", DataType.INT64, host=True, doc="(1,) when it is made here")],
    must_in_place={"t_next": "t"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Iter")
    array([1])
    """,
)


@ITER.infer
def iter_infer(op: OpView, t: TensorSpec | None) -> TensorSpec:
    del op
    return TensorSpec((1,), DataType.INT64) if t is None else t


@host_kernel(ITER)
def iter_kernel(op: OpView, t_next: Blob) -> None:
    if not op.has_input("t") and not (isinstance(t_next.value, Tensor) and t_next.value.allocated):
        t_next.reset()
        counter = t_next.tensor()
        counter.resize((1,), DataType.INT64)
        counter.array[...] = 0
    advance(op, t_next.get(Tensor))


ATOMIC_ITER = schema(
    "AtomicIter",
    """t_next = t + 1, in place, while holding a mutex: several nets may count together.

    The statistic `atomic_iter/stats/<name of t>/num_iter` of the process counts runs.""",
    inputs=[
        blob("mutex", type_name=MUTEX, role=Role.STATE),
        blob("t", frozenset({DataType.INT64}), host=True, role=Role.STATE, doc="of one element"),
    ],
    outputs=[blob("t_next", like="t", host=True)],
    must_in_place={"t_next": "t"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
)


@host_kernel(ATOMIC_ITER)
def atomic_iter(op: OpView, mutex: Blob, t_next: Blob) -> None:
    with mutex.get(Mutex):
        advance(op, t_next.get(Tensor))
    OF_PROCESS.add({f"atomic_iter/stats/{op.definition.input[1]}/num_iter": 1})
