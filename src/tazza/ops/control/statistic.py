"""Numbers that a process counts, by name: StatRegistryCreate and its like; AveragePut, IncrementPut, StdDevPut.

There is one registry of the process, which everybody means who names no other one. A statistic is a whole number of 64
bits; it begins at 0 when somebody first names it, and only grows by what is added.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import NumericError, ShapeError
from tazza.operator import (
    NUMBERS,
    Effects,
    Operator,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    host_kernel,
    not_written,
    schema,
)
from tazza.runtime.holding import Held
from tazza.tensor import Blob, DataType, Tensor, TensorSpec
from tazza.tensor.blob import blob_type

REGISTRY = "std::unique_ptr<caffe2::StatRegistry>"
FIRST, LAST = -(2**63), 2**63 - 1
NO_GRADIENT = not_written("Caffe2 has none either")


@blob_type(REGISTRY)
class StatRegistry(Held):
    """Whole numbers by name, which threads add to.

    >>> registry = StatRegistry()
    >>> registry.add({"cups": 2}); registry.add({"cups": 3})
    >>> registry.export(reset=True), registry.export(reset=False)
    ({'cups': 5}, {'cups': 0})
    """

    __slots__ = ("_sums",)

    def __init__(self) -> None:
        """Know no name."""
        super().__init__()
        self._sums: dict[str, int] = {}

    def add(self, amounts: Mapping[str, int]) -> None:
        """Add to statistics, all or none of them; one that is not there begins at 0.

        Raises:
            NumericError: one would leave the 64 bits.
        """
        with self:
            sums = {name: self._sums.get(name, 0) + amount for name, amount in amounts.items()}
            for name, total in sums.items():
                if not FIRST <= total <= LAST:
                    raise NumericError(f"the statistic {name!r} would be {total}, it must stay in 64 bits")
            self._sums.update(sums)

    def export(self, *, reset: bool) -> dict[str, int]:
        """Return all statistics, and with `reset` set them to 0."""
        with self:
            found = dict(self._sums)
            if reset:
                self._sums = dict.fromkeys(found, 0)
        return found


OF_PROCESS = StatRegistry()
"""The registry of the process."""


def registry_of(handle: Blob | None) -> StatRegistry:
    """Return the registry that a blob holds, without one that of the process."""
    return OF_PROCESS if handle is None else handle.get(StatRegistry)


HANDLE = blob("handle", type_name=REGISTRY, optional=True, role=Role.STATE, doc="without it that of the process")

STAT_REGISTRY_CREATE = schema(
    "StatRegistryCreate",
    """handle = a new registry that knows no name.

    A blob that has something in it already is given the new registry instead.""",
    outputs=[blob("handle", type_name=REGISTRY)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("StatRegistryCreate").export(reset=False)
    {}
    """,
)


@host_kernel(STAT_REGISTRY_CREATE)
def stat_registry_create(handle: Blob) -> None:
    handle.set(StatRegistry())


STAT_REGISTRY_UPDATE = schema(
    "StatRegistryUpdate",
    "Adds values[k] to the statistic keys[k], for each k; both have any shape.",
    inputs=[
        blob("keys", DataType.STRING, host=True, role=Role.DATA),
        blob("values", DataType.INT64, host=True, role=Role.DATA),
        HANDLE,
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> registry = run("StatRegistryCreate")
    >>> _ = run("StatRegistryUpdate", np.array([b"cups"], object), np.array([2]), registry)
    >>> registry.export(reset=False)
    {'cups': 2}
    """,
)


@host_kernel(STAT_REGISTRY_UPDATE)
def stat_registry_update(op: OpView, keys: Blob, values: Blob, handle: Blob | None) -> None:
    names, amounts = (one.get(Tensor).plain().reshape(-1) for one in (keys, values))
    op.require(len(names) == len(amounts), f"there are {len(names)} keys for {len(amounts)} values")
    sums: dict[str, int] = {}
    for name, amount in zip((name.decode(errors="surrogateescape") for name in names), amounts, strict=True):
        sums[name] = sums.get(name, 0) + int(amount)
    registry_of(handle).add(sums)


STAT_REGISTRY_EXPORT = schema(
    "StatRegistryExport",
    "keys, values and timestamps = the statistics by name; when they were read, in ns since 1970.",
    inputs=[HANDLE],
    outputs=[
        blob("keys", DataType.STRING, "N", host=True),
        blob("values", DataType.INT64, "N", host=True),
        blob("timestamps", DataType.INT64, "N", host=True),
    ],
    args=[arg("reset", bool, True, doc="set them to 0")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("StatRegistryExport", run("StatRegistryCreate"), outputs=3)[1]
    array([], dtype=int64)
    """,
)


@STAT_REGISTRY_EXPORT.infer
def stat_registry_export_infer(op: OpView, handle: object) -> tuple[TensorSpec, ...]:
    del op, handle
    return TensorSpec((None,), DataType.STRING), *(TensorSpec((None,), DataType.INT64),) * 2


def wall_ns() -> int:
    """Return the nanoseconds since 1970."""
    return time.time_ns()


@host_kernel(STAT_REGISTRY_EXPORT)
def stat_registry_export(op: OpView, handle: Blob | None, keys: Blob, values: Blob, timestamps: Blob) -> None:
    found = registry_of(handle).export(reset=op.reset)
    names = [name.encode(errors="surrogateescape") for name in found]
    keys.tensor().assign(np.array(names, object))
    values.tensor().assign(np.array(list(found.values()), np.int64))
    timestamps.tensor().assign(np.full(len(found), wall_ns(), np.int64))


# -- values that nets put there ----------------------------------------------------------------------------------------


def magnified(op: OpView, value: Blob) -> int:
    """Return the first element times `magnitude_expand`, towards 0, in the precision of its type.

    Raises:
        ShapeError: there is none, and no `default_value`.
        NumericError: it is NaN or leaves the 64 bits, and there is no `bound`.
    """
    flat = value.get(Tensor).plain().reshape(-1)
    if not flat.size:
        if op.default_value is None:
            hint = "give a `default_value`, which counts for it"
            raise op.error(ShapeError, f"{value.name!r} has 0 elements, its first one counts", hint)
        flat = np.array([_default(op, flat.dtype)], flat.dtype)
    expand: int = op.magnitude_expand
    with np.errstate(all="ignore"):
        product = int(flat[0]) * expand if flat.dtype.kind in "iu" else float(flat[0] * _precise(flat.dtype)(expand))
    if op.bound:
        return 0 if math.isnan(product) else int(min(max(product, FIRST), LAST))
    if math.isnan(product) or not FIRST <= product <= LAST:
        relation = f"{flat[0]} times magnitude_expand = {op.magnitude_expand} is not within 64 bits"
        raise op.error(NumericError, relation, "bound=1 takes the nearest number that is, and 0 for NaN")
    return int(product)


def _default(op: OpView, dtype: np.dtype[np.generic]) -> float:
    """Return `default_value` as an element, towards 0 where these are whole numbers.

    Raises:
        NumericError: there is no such whole number, and no `bound`.
    """
    value: float = op.default_value
    if dtype.kind not in "iu":
        return value
    least, most = np.iinfo(dtype.name).min, np.iinfo(dtype.name).max
    if least - 1 < value < most + 1:
        return int(value)
    if not op.bound:
        relation = f"default_value = {value} is no {dtype}"
        raise op.error(NumericError, relation, "bound=1 takes the nearest number that is, and 0 for NaN")
    return 0 if math.isnan(value) else least if value < 0 else most


def _precise(dtype: np.dtype[np.generic]) -> type[np.floating[Any]]:
    return np.float64 if dtype == np.float64 else np.float32


@dataclass(frozen=True, slots=True)
class Put:
    """Which statistics a kind of value has, and what each grows by: of a value, and the first one of the operator."""

    doc: str
    parts: Mapping[str, Callable[[int, int], int]]
    example: str


COUNT: Mapping[str, Callable[[int, int], int]] = {
    "/sum": lambda value, first: value,
    "/count": lambda value, first: 1,
}


def entries(name: str, parts: Iterable[str]) -> list[str]:
    """Return the names of the statistics of a value."""
    return [f"{name}/stat_value{part}" for part in parts]


@family(
    {
        "IncrementPut": Put(
            "The statistic `<stat_name>/stat_value` grows by the value.",
            {"": lambda value, first: value},
            "3",
        ),
        "AveragePut": Put(
            "Of the statistics `<stat_name>/stat_value/...` `sum` grows by the value, and `count` by 1.",
            COUNT,
            "3, 1",
        ),
        "StdDevPut": Put(
            """Of the statistics `<stat_name>/stat_value/...` `sum` grows by the value, `count` by 1.

        The offset is the value less the first one of this operator: `sumoffset` grows by it, `sumsqoffset` by its
        square.""",
            {
                **COUNT,
                "/sumoffset": lambda value, first: value - first,
                "/sumsqoffset": lambda value, first: (value - first) ** 2,
            },
            "3, 1, 0, 0",
        ),
    }
)
def puts(type: str, row: Put) -> OpSchema:
    """An operator that puts a value into the registry of the process."""
    made = schema(
        type,
        f"""{row.doc}

        The value is the first element of X times `magnitude_expand`, rounded towards 0.""",
        inputs=[blob("X", NUMBERS, host=True, doc="of any shape")],
        args=[
            arg("stat_name", str, "", doc="what the statistics are called; empty for the name of X"),
            arg("magnitude_expand", int, 1, minimum=1, doc="so many parts of 1 are counted"),
            arg("bound", bool, False, doc="take the nearest number of 64 bits, and 0 for NaN, instead of an error"),
            arg("default_value", float, None, doc="what counts for an X without elements, which is refused without it"),
        ],
        effects=Effects.STATE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [3.5], stat_name="example of {type}")
        ()
        """,
    )

    @host_kernel(made)
    class Putter:
        """Knows the first value that it has put."""

        def __init__(self, operator: Operator) -> None:
            name = operator.op.stat_name if operator.op.stat_name else operator.op.input_name("X")
            self._entries = entries(name, row.parts)
            self._first: int | None = None
            OF_PROCESS.add(dict.fromkeys(self._entries, 0))

        def run(self, op: OpView, X: Blob) -> None:
            value = magnified(op, X)
            self._first = value if self._first is None else self._first
            grown = (grow(value, self._first) for grow in row.parts.values())
            OF_PROCESS.add(dict(zip(self._entries, grown, strict=True)))

    return made
