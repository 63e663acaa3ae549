"""What a net does, for people: a row for each step."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import field
from itertools import chain
from typing import Any, Protocol, cast

from tazza.data_class import dataclass
from tazza.operator import Choice, Cost, Operator, Spec
from tazza.operator.estimate import estimated, operator_cost
from tazza.proto import OperatorDef
from tazza.tensor import Blob, Tensor

HEAD = ("operator", "writes", "engine", "implementation", "layout", "KiB", "us", "fused from")
"""Titles of the columns."""
SLOW_SHARE = 0.1
"""A step that takes more than this share of the time is marked."""
NOT_RUN = "not run yet"
"""What stands for the engine of a step that has not run."""
INDENT = "  "
"""What each level of nets within stands behind."""


@dataclass(frozen=True, slots=True)
class Held:
    """A blob that a step reads or writes, and the spec with the layout in which it does; None where it is no tensor."""

    name: str
    spec: Spec | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    """Bytes of an arena, from `offset` on, that a value has from row `first` to row `last`, both included.

    `arena` numbers the arenas of a net. A placement without a name is what a kernel scribbles on while it runs.
    """

    name: str
    offset: int
    nbytes: int
    first: int
    last: int
    arena: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One step. `bytes_written` is the size of its outputs, `time_s` None when it was not timed.

    `choices` are the engines that were asked, in turn: why they were passed over, and of those that offered to run it
    how long they take, by their own estimate, else at the least. `slices` is how many times it runs, where it takes a
    part of the images at a time; `bytes_written` are those of one time.

    `graph` numbers the recorded graphs of a device that a net's steps run in, from 1 on; None where it is in none.

    `within` are the steps of nets that the operator runs (branches, bodies of loops, step nets), those that it has made
    by now; of several equal nets, such as one for each step of a sequence, those of the first.

    `definition` has the arguments of what runs; names of blobs are in `reads` and `writes`.
    """

    operator: str
    outputs: str
    fused_from: tuple[str, ...]
    engine: str = NOT_RUN
    implementation: str = ""
    layout: str = ""
    bytes_written: int = 0
    time_s: float | None = None
    choices: tuple[Choice, ...] = ()
    slices: int = 1
    graph: int | None = None
    within: tuple[Row, ...] = ()
    definition: OperatorDef | None = field(default=None, compare=False)
    reads: tuple[Held, ...] = field(default=(), compare=False)
    writes: tuple[Held, ...] = field(default=(), compare=False)
    cost: Cost | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class TimedPart:
    """Steps that ran one behind the other from `start_s` on, by the clock `time.perf_counter`; all were timed."""

    start_s: float
    rows: tuple[Row, ...]


class StepWatcher(Protocol):
    """Is told of runs by nets whose steps are no operators that could be observed."""

    def ran(self, net: Any, start_s: float, end_s: float, parts: Sequence[TimedPart]) -> None:
        """Take what a run of `net` did, in the thread that ran it; of a run that failed, as far as it came."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Rows in the order in which they run; as text a table, with what an operator runs indented under its own row.

    `beforehand` counts operators on constants alone.

    Those ran once, when the net was made, and a run does nothing for them.
    """

    rows: tuple[Row, ...]
    arena_bytes: int = 0
    unshared_bytes: int = 0
    beforehand: int = 0
    placements: tuple[Placement, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        lines = [HEAD, *_lines(self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(HEAD))]
        table = "\n".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
        if not self.arena_bytes:
            return table
        return f"{table}\narena {self.arena_bytes} bytes, {self.unshared_bytes} without sharing"

    def _repr_html_(self) -> str:
        """Return it for a notebook: a table of the steps, the slowest in bold where they were timed."""
        from tazza.runtime.html import heading, table

        lines = list(_lines(self.rows))
        times = [row.time_s for row in _all_rows(self.rows)]
        whole_s = sum(time_s for time_s in times if time_s is not None)
        slow = {place for place, time_s in enumerate(times) if time_s is not None and time_s > SLOW_SHARE * whole_s}
        sizes = f"arena {self.arena_bytes:,} bytes, {self.unshared_bytes:,} without sharing"
        arena = heading(sizes) if self.arena_bytes else ""
        return table(HEAD, lines, numbers={HEAD.index("KiB"), HEAD.index("us")}, marked=slow) + arena

    def offers(self) -> str:
        """Return a text: for each operator the engines that were asked and what they answered, the taken one last.

        With their estimates, and with times where an exhaustive search took some.
        """
        return "\n".join(_offers(self.rows))


def _offers(rows: Sequence[Row], indent: str = "") -> Iterator[str]:
    for row in rows:
        yield f"{indent}{row.operator} {row.outputs}"
        yield from (f"{indent}{INDENT}{choice}" for choice in row.choices)
        yield from _offers(row.within, indent + INDENT)


def _all_rows(rows: Sequence[Row]) -> Iterator[Row]:
    for row in rows:
        yield row
        yield from _all_rows(row.within)


def _lines(rows: Sequence[Row], indent: str = "") -> Iterator[tuple[str, ...]]:
    for row in rows:
        first, *others = _cells(row)
        yield (indent + first, *others)
        yield from _lines(row.within, indent + INDENT)


def _cells(row: Row) -> tuple[str, ...]:
    time = "" if row.time_s is None else f"{row.time_s * 1e6:.0f}"
    fused = ", ".join(row.fused_from) if len(row.fused_from) > 1 else ""
    size = f"{row.bytes_written / 1024:.1f}"
    layout = f"{row.layout}, {row.slices} slices" if row.slices > 1 else row.layout
    implementation = row.implementation if row.graph is None else f"{row.implementation} graph {row.graph}".lstrip()
    return row.operator, row.outputs, row.engine, implementation, layout, size, time, fused


def operator_row(operator: Operator, fused_from: tuple[str, ...] = ()) -> Row:
    """Return the row of an operator that runs by itself, or in place of those named."""
    return Row(
        operator.op.type,
        ", ".join(operator.definition.output),
        fused_from,
        next((choice.engine for choice in operator.choices if choice.reason is None), NOT_RUN),
        bytes_written=sum(blob.value.nbytes for blob in operator.outputs if isinstance(blob.value, Tensor)),
        choices=estimated(operator.choices, operator_cost(operator), on_host=operator.place.is_host),
        within=_within(operator),
        definition=operator.definition,
        reads=tuple(map(_held, operator.inputs)),
        writes=tuple(map(_held, operator.outputs)),
    )


def _held(blob: Blob) -> Held:
    return Held(blob.name, blob.value.spec if isinstance(blob.value, Tensor) else None)


class _Explained(Protocol):
    """What every net that an operator runs is, though its floor does not know."""

    def explain(self) -> Explanation: ...


def _within(operator: Operator) -> tuple[Row, ...]:
    """Return the rows of the nets that an operator runs, those of equal nets once."""
    found: dict[tuple[Hashable, ...], tuple[Row, ...]] = {}
    for net in operator.nets:
        rows = cast("_Explained", net).explain().rows
        found.setdefault((net.name, *((row.operator, row.outputs) for row in rows)), rows)
    return tuple(chain.from_iterable(found.values()))
