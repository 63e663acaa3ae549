"""What threads change without losing a change: CreateAtomicBool and its like, AtomicFetchAdd, AtomicFetchAdd64.

A truth value is a blob of its own. A number is a tensor, whose changes take turns by a mutex.
"""

from __future__ import annotations

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.operator import (
    Array,
    Effects,
    NoGradient,
    OpSchema,
    OpView,
    Role,
    blob,
    family,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.ops.control.mutex import MUTEX, Mutex
from tazza.tensor import Blob, DataType, Tensor
from tazza.tensor.blob import blob_type

ATOMIC_BOOL = "std::unique_ptr<std::atomic<bool>>"
NO_GRADIENT = forbidden("it counts, or says whether something happened")


@blob_type("std::unique_ptr<std::atomic<bool> >", serialized=ATOMIC_BOOL)
class AtomicBool:
    """A truth value that begins as false and that threads set; reading and setting it are one step each."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        """Be false."""
        self.value = False


def first(op: OpView, letter: str, tensor: Tensor) -> Array:
    """Return the first element of a tensor, as an array of rank 0.

    Raises:
        ShapeError: there is none.
    """
    flat = tensor.plain().reshape(-1)
    if not flat.size:
        raise op.error(ShapeError, f"the {letter} {op.input_name(letter)!r} has 0 elements, its first one counts")
    return flat[0].copy()


ON_BOOL = blob("atomic_bool", type_name=ATOMIC_BOOL, role=Role.STATE)

CREATE_ATOMIC_BOOL = schema(
    "CreateAtomicBool",
    """atomic_bool = a new one that is false.

    A blob that has something in it already is given the new one instead.""",
    outputs=[blob("atomic_bool", type_name=ATOMIC_BOOL)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("CreateAtomicBool").value
    False
    """,
)


@host_kernel(CREATE_ATOMIC_BOOL)
def create_atomic_bool(atomic_bool: Blob) -> None:
    atomic_bool.set(AtomicBool())


CONDITIONAL_SET_ATOMIC_BOOL = schema(
    "ConditionalSetAtomicBool",
    "atomic_bool = true if the condition is; else it stays as it is.",
    inputs=[ON_BOOL, blob("condition", DataType.BOOL, host=True, role=Role.DATA, doc="its first element counts")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> flag = run("CreateAtomicBool")
    >>> run("ConditionalSetAtomicBool", flag, np.array([True])), flag.value
    ((), True)
    """,
)


@host_kernel(CONDITIONAL_SET_ATOMIC_BOOL)
def conditional_set_atomic_bool(op: OpView, atomic_bool: Blob, condition: Blob) -> None:
    if first(op, "condition", condition.get(Tensor)):
        atomic_bool.get(AtomicBool).value = True


CHECK_ATOMIC_BOOL = schema(
    "CheckAtomicBool",
    "value = whether atomic_bool is true.",
    inputs=[ON_BOOL],
    outputs=[blob("value", DataType.BOOL, "1", host=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("CheckAtomicBool", run("CreateAtomicBool"))
    array([False])
    """,
)


@host_kernel(CHECK_ATOMIC_BOOL)
def check_atomic_bool(atomic_bool: Blob, value: Blob) -> None:
    value.tensor().assign(np.array([atomic_bool.get(AtomicBool).value]))


@dataclass(frozen=True, slots=True)
class FetchAdd:
    """The type of the number, and how an example shows it."""

    dtype: DataType
    example: str
    no_gradient: NoGradient


@family(
    {
        "AtomicFetchAdd": FetchAdd(
            DataType.INT32,
            """>>> run("AtomicFetchAdd", run("CreateMutex"), [3], [4], outputs=2)
        (array(7, dtype=int32), array(3, dtype=int32))""",
            NO_GRADIENT,
        ),
        "AtomicFetchAdd64": FetchAdd(
            DataType.INT64,
            """>>> run("AtomicFetchAdd64", run("CreateMutex"), np.array(3), np.array(4), outputs=2)
        (array(7), array(3))""",
            not_written("Caffe2 has none either"),
        ),
    }
)
def fetch_adds(type: str, row: FetchAdd) -> OpSchema:
    """An operator that adds to an integer and tells what it was."""
    dtype = row.dtype
    made = schema(
        type,
        """Y = X + increment and fetched = X, while holding a mutex.

        Of X and increment the first element counts. A sum that leaves the range of the type is wrapped around.""",
        inputs=[
            blob("mutex", type_name=MUTEX, role=Role.STATE),
            blob("X", dtype, host=True, role=Role.STATE),
            blob("increment", dtype, host=True, role=Role.DATA),
        ],
        outputs=[blob("Y", dtype, "", host=True), blob("fetched", dtype, "", host=True)],
        in_place={"Y": "X"},
        effects=Effects.STATE,
        no_gradient=row.no_gradient,
        source="Caffe2",
        example=f"""
        {row.example}
        """,
    )

    @host_kernel(made)
    def fetch_add(op: OpView, mutex: Blob, X: Blob, increment: Blob, Y: Blob, fetched: Blob) -> None:
        with mutex.get(Mutex):
            before, added = first(op, "X", X.get(Tensor)), first(op, "increment", increment.get(Tensor))
            with np.errstate(over="ignore"):
                Y.tensor().assign(np.asarray(before + added))
            fetched.tensor().assign(np.asarray(before))

    return made
