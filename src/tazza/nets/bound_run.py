"""Operators that run one after the other in one thread: a whole `simple` net, or a task of a parallel one.

At first each operator is run by itself. From the second run on those whose bindings stand are run as *sections*: what
they were bound to is compared once for all of them, their native calls in a row become one call without the GIL, and
only then their outputs count as written. Nobody can tell the difference, but by the clock; an operator that somebody
observes is run by itself, and so are host kernels, operators whose output size depends on data, and those whose shapes
depend on values. Pairs of operators run as one where that cannot be told either (`nets.pair`).

Constant state: operators and pairs. Changing state: the sections by context, which hold what operators were bound to. A
bound run runs once at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np

from tazza.device import Context, current_context
from tazza.errors import TazzaError
from tazza.nets.pair import paired
from tazza.operator import Operator
from tazza.operator.bound_section import BoundOperator, BoundPart, BoundSection, Standing, cut, located
from tazza.operator.native_calls import Check, Part, run_parts
from tazza.operator.operator import CONTEXTS_KEPT
from tazza.proto import OperatorDef
from tazza.runtime.budget import ThreadBudget

RUNS_MAX = 256
"""Runs by single steps before the next try, at the most, for bound runs whose sections break again and again."""
RUNS_FORGET = 8
"""Runs without a break after which half of the breaks are forgotten."""


class Share:
    """The threads of a budget that a bound run holds.

    `serial_s` are the seconds in which it held half of them at the most, and left the rest to others.
    """

    __slots__ = ("_budget", "_held", "_since", "serial_s")

    def __init__(self, budget: ThreadBudget) -> None:
        """Hold none."""
        self._budget = budget
        self._held = 0
        self._since = 0.0
        self.serial_s = 0.0

    def hold(self, count: int) -> None:
        """Hold `count` threads, no more than there are, from now on; lets those go first who wait already."""
        budget = self._budget
        count = min(count, budget.total)
        if count == self._held and not budget.wanted:
            return
        if self._held:
            if 2 * self._held <= budget.total:
                self.serial_s += time.perf_counter() - self._since
            budget.give(self._held)
            self._held = 0
        if count:
            budget.take(count)
            self._held = count
            self._since = time.perf_counter()

    def run(self, operator: Operator, context: Context) -> None:
        """Run an operator, which takes what it needs itself."""
        self.hold(0)
        start = time.perf_counter()
        operator.run(context, self._budget)
        if 2 * operator.width <= self._budget.total:
            self.serial_s += time.perf_counter() - start


class BoundRun:
    """See the module. `done` is how many operators ran in the last run; `serial_s` the seconds that others could use.

    `breaks` counts the runs in which a section no longer stood (half of them are forgotten now and then); `on_break` is
    called after each. `interpreted` counts the calls of sections that are Python's.

    Args:
        operators: in execution order.
        fuse: makes the operator that stands for the one at a position and the one behind it; asked again, it gives the
            same one.
    """

    def __init__(self, operators: Sequence[Operator], fuse: Callable[[int, OperatorDef], Operator]) -> None:
        """Find the pairs; nothing is made yet."""
        self.operators = tuple(operators)
        self.done = 0
        self.serial_s = 0.0
        self._fuse = fuse
        self._pairs: dict[int, OperatorDef] = {}
        for position, (first, second) in enumerate(pairwise(self.operators)):
            made = paired(first.definition, second.definition)
            if made is not None:
                self._pairs[position] = made
        self._change = self._found = object()  # the last one, and the one that `_steps` are of
        self._note_change()
        self._steps: tuple[BoundOperator, ...] = ()
        self._sections: dict[Context, list[BoundSection | BoundOperator]] = {}
        self._ran: dict[Context, int] = {}  # runs on a context since it was cut last
        self.breaks = 0
        self.on_break: Callable[[], object] | None = None
        self._stood = 0  # runs since the last break
        self.interpreted = 0
        self._under_way: BoundPart | None = None
        self._begun = 0  # operators that ended before the part under way
        for operator in self.operators:
            operator.tell(self._note_change)

    def _note_change(self) -> None:
        self._change = object()

    @property
    def _changed(self) -> bool:
        return self._found is not self._change

    def steps(self) -> tuple[BoundOperator, ...]:
        """Return what runs now, which depends on who observes."""
        change = self._change
        if self._found is not change:
            found: list[BoundOperator] = []
            position = 0
            while position < len(self.operators):
                fused = self._pair_at(position)
                found.append(BoundOperator(self.operators[position], 1) if fused is None else BoundOperator(fused, 2))
                position += found[-1].count
            self._steps = tuple(found)
            self._sections.clear()
            self._found = change  # last: who is interrupted before has found nothing
        return self._steps

    @property
    def width(self) -> int:
        """The most threads that an operator ran on."""
        return max((step.operator.width for step in self._steps), default=0)

    def _pair_at(self, position: int) -> Operator | None:
        definition = self._pairs.get(position)
        if definition is None or self.operators[position].observers or self.operators[position + 1].observers:
            return None
        return self._fuse(position, definition)

    # -- running -------------------------------------------------------------------------------------------------------

    def run(
        self,
        context: Context,
        budget: ThreadBudget | None = None,
        check: Check | None = None,
        *,
        piecewise: bool = False,
    ) -> None:
        """Run all operators once.

        Args:
            context: the thread's own on the CPU; operators elsewhere take the current one of their place.
            budget: where to take the threads from that operators run on, when they are shared with others.
            check: called before each operator that runs by itself and each call of a section; what it raises ends the
                run.
            piecewise: cut native calls, so that `check` is asked every few operators.

        Raises:
            TazzaError: the first error; `done` says how far it came.
        """
        self.done = 0
        steps = self.steps()
        items = self._sections.get(context)
        share = None if budget is None else Share(budget)
        broke = False
        try:
            for item in self._uncut(context, steps) if items is None else items:
                if isinstance(item, BoundOperator):
                    self._run_step(item, context, share, check)
                elif not item.watch.broken():
                    self._run_section(item, share, check, piecewise)
                else:
                    broke = True
                    with np.errstate(all="ignore"):  # what is native alone is run without
                        for step in item.steps:
                            self._run_step(step, context, share, check)
        finally:
            if share is not None:
                share.hold(0)
                self.serial_s = share.serial_s
            if broke:
                self._note_break(context)
        if self.breaks and items is not None and not broke:
            self._stood += 1
            if self._stood >= RUNS_FORGET:
                self.breaks, self._stood = self.breaks // 2, 0

    def run_native(self, context: Context) -> bool:
        """Run all operators where they are one native call, and what that is bound to stands; whether it ran.

        Between runs of a small net the caches forget Python's part of it, so this is as short as it can be.

        Raises:
            TazzaError: an operator failed; `done` says how far it came.
        """
        items = self._sections.get(context)
        if items is None or len(items) != 1 or self._changed or self.breaks:
            return False
        section = items[0]
        if not isinstance(section, BoundSection) or section.native is None or section.watch.broken():
            return False
        self._under_way = native = section.native
        self.done = self._begun = 0
        run_parts((native.part,), native.written, self._located)
        self.done = native.count
        return True

    def _note_break(self, context: Context) -> None:
        self._sections.pop(context, None)
        self.breaks += 1
        self._stood = 0
        if self.on_break is not None:
            self.on_break()

    def _uncut(self, context: Context, steps: tuple[BoundOperator, ...]) -> Sequence[BoundSection | BoundOperator]:
        """Return single steps; sections from the second run on, later where they broke before."""
        ran = self._ran.pop(context, 0)
        if ran < min(2**self.breaks, RUNS_MAX):
            if len(self._ran) >= CONTEXTS_KEPT:
                self._ran.pop(next(iter(self._ran)))
            self._ran[context] = ran + 1
            return steps
        if len(self._sections) >= CONTEXTS_KEPT:
            self._sections.pop(next(iter(self._sections)))
        found = self._sections[context] = cut(context, steps)
        parts = [part for item in found if isinstance(item, BoundSection) for part in item.parts]
        self.interpreted = sum(not part.native for part in parts)
        return found

    def _run_step(self, step: BoundOperator, context: Context, share: Share | None, check: Check | None) -> None:
        if check is not None:
            check()
        operator = step.operator
        if operator.place is not context.place:
            context = current_context(operator.place)
        if share is None:
            operator.run(context)
        else:
            share.run(operator, context)
        self.done += step.count

    def _run_section(self, section: BoundSection, share: Share | None, check: Check | None, piecewise: bool) -> None:
        run_parts(section.refreshes, (), located)
        for part in section.parts:
            if share is not None:
                share.hold(part.width)
            self._run_part(part, check, piecewise)

    def _run_part(self, part: BoundPart, check: Check | None, piecewise: bool) -> None:
        self._under_way, self._begun = part, self.done
        run_parts(self._counted(part) if piecewise else (part.part,), part.written, self._located, check)
        self.done = self._begun + part.count

    def _located(self, error: Exception, steps: tuple[BoundOperator, ...]) -> TazzaError:
        """Return an error of a part with the operator in its text; count what ended before."""
        assert self._under_way is not None, "a part has failed"
        self.done = self._begun + self._under_way.count_before(steps[0])
        return located(error, steps)

    def _counted(self, part: BoundPart) -> Iterator[Part[BoundOperator]]:
        """Yield a call in pieces; count what ends with each."""
        for piece in part.in_pieces():
            yield piece
            self.done = self._begun + part.count_before(piece[0][-1])

    def standing(self, context: Context) -> Standing | None:
        """Return the one section of native calls that all operators are on a context; None where they are not."""
        items = self._sections.get(context)
        section = items[0] if items is not None and len(items) == 1 and not self._changed else None
        if not isinstance(section, BoundSection) or not all(part.native for part in section.parts):
            return None
        return section, lambda: not self._changed and self._sections.get(context) is items

    def forget(self) -> None:
        """Hold no bindings any more."""
        self._sections.clear()
        self._ran.clear()
