"""Sections of operators in a row: what they were bound to, watched as one, and their native calls as few ones.

Constant state: all of a section but the pieces of its calls, which are made when somebody first wants to stop between.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import takewhile
from typing import TypeAlias

from tazza.data_class import dataclass
from tazza.device import Context
from tazza.errors import TazzaError
from tazza.operator.kernel import Call, CallChain, NativeCall
from tazza.operator.native_calls import NativeCalls, Part, grouped, in_pieces, threads_of
from tazza.operator.operator import Operator
from tazza.operator.reorder import Refresh
from tazza.operator.watch import Watch, Watched, watch_together
from tazza.tensor import Storage

ROWS = 8
"""Native calls between two questions whether to stop."""


@dataclass(frozen=True, slots=True)
class BoundOperator:
    """An operator that runs, and how many of the net's it stands for."""

    operator: Operator
    count: int


@dataclass(frozen=True, slots=True)
class BoundPart:
    """A call of a section: on how many threads it runs, which steps end with it, what is written then.

    `count` operators of the net end with the call.
    """

    part: Part[BoundOperator]
    width: int
    ended: tuple[BoundOperator, ...]
    written: tuple[Storage, ...]
    count: int
    pieces: list[Part[BoundOperator]] = field(default_factory=list["Part[BoundOperator]"])

    @property
    def native(self) -> bool:
        """Whether the call is nothing but native ones."""
        return isinstance(self.part[1], NativeCalls)

    def count_before(self, before: object) -> int:
        """Return how many operators of the net end before a step of the call."""
        return sum(step.count for step in takewhile(lambda step: step is not before, self.ended))

    def in_pieces(self) -> Sequence[Part[BoundOperator]]:
        """Return the call in pieces of a few rows, for who wants to stop between them."""
        if not self.native:
            return (self.part,)
        if not self.pieces:
            self.pieces.extend(in_pieces(list(self.rows()), ROWS))
        return self.pieces

    def rows(self) -> Iterator[tuple[BoundOperator, NativeCall]]:
        """Yield its native calls with their steps."""
        keys, call = self.part
        assert isinstance(call, NativeCalls), "`native` was asked"
        yield from zip(keys, call.calls, strict=True)


@dataclass(frozen=True, slots=True)
class BoundSection:
    """Steps that run together while everything they were bound to stands.

    `refreshes` bring reordered inputs up to date that the steps do not write, weights mostly, before the first part.
    """

    steps: tuple[BoundOperator, ...]
    watch: Watch
    parts: tuple[BoundPart, ...]
    refreshes: tuple[Part[BoundOperator], ...]
    native: BoundPart | None
    """Its one part, where that is native and nothing comes before."""


Standing: TypeAlias = tuple[BoundSection, Callable[[], bool]]
"""All operators of a net as one section of native calls, and whether it is that still, whatever the watch says."""


def located(error: Exception, steps: tuple[BoundOperator, ...]) -> TazzaError:
    """Return an error of a call with the operator in its text that it is made for."""
    return steps[0].operator.located(error)


def cut(context: Context, steps: Sequence[BoundOperator]) -> list[BoundSection | BoundOperator]:
    """Return steps in sections, by what they are bound to on `context`; what has no lasting binding stays a step."""
    found: list[BoundSection | BoundOperator] = []
    together: list[BoundOperator] = []
    watched: dict[int, Watched] = {}

    def end() -> None:
        if together:
            found.append(_section(context, together, watched))
            together.clear()
            watched.clear()

    for step in steps:
        binding = step.operator.lasting(context)
        if binding is None:
            end()
            found.append(step)
            continue
        if not watch_together(watched, binding.watch):
            end()
            watch_together(watched, binding.watch)
        together.append(step)
    end()
    return found


def _section(context: Context, steps: Sequence[BoundOperator], watched: Mapping[int, Watched]) -> BoundSection:
    calls: list[tuple[BoundOperator, Call]] = []
    written = {id(storage) for step in steps for storage in step.operator.written()}
    refreshes: list[Part[BoundOperator]] = []
    for step in steps:
        binding = step.operator.lasting(context)
        assert binding is not None, "`cut` looked"
        call, hoisted = _without_refreshes(binding.call, written)
        calls.append((step, call))
        refreshes.extend(((step,), refresh) for refresh in hoisted)
    parts = tuple(_parts(steps, calls))
    native = parts[0] if len(parts) == 1 and parts[0].native and not refreshes else None
    return BoundSection(tuple(steps), Watch(watched.values(), flags=None), parts, tuple(refreshes), native)


def _without_refreshes(call: Call, written: Collection[int]) -> tuple[Call, list[Refresh]]:
    """Return a call less its refreshes of storages that are not among `written`, and those."""
    if not isinstance(call, CallChain):
        return call, []
    hoisted = [one for one in call.calls if isinstance(one, Refresh) and id(one.source.storage) not in written]
    return CallChain(tuple(one for one in call.calls if one not in hoisted)), hoisted


def _parts(steps: Sequence[BoundOperator], calls: Sequence[tuple[BoundOperator, Call]]) -> list[BoundPart]:
    parts: list[BoundPart] = []
    left = list(steps)
    runs = list(grouped(calls))
    for position, part in enumerate(runs):
        later = runs[position + 1][0][0] if position + 1 < len(runs) else None
        ended: list[BoundOperator] = []
        while left and left[0] is not later:
            ended.append(left.pop(0))
        written = {id(storage): storage for step in ended for storage in step.operator.written()}
        count = sum(step.count for step in ended)
        parts.append(BoundPart(part, threads_of(part[1]), tuple(ended), tuple(written.values()), count))
    return parts
