"""The net type `simple`: operators one after the other, in the calling thread, as one bound run.

Operators on a device that works on its own are bound runs of their own, and each of those ends when the device has done
its work. Two names of Caffe2 mean the same type.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby

import numpy as np

from tazza.device import Context, current_context
from tazza.errors import TazzaError
from tazza.nets.base import NetBase, net_type, progress_note
from tazza.nets.bound_run import BoundRun
from tazza.nets.device import wait_there
from tazza.nets.explanation import Explanation, Row, operator_row
from tazza.nets.run import Run
from tazza.operator.bound_section import Standing
from tazza.tensor import CPUPlace

HOST = CPUPlace()


@net_type("rnn", help="another name of simple")
@net_type("async_simple", help="another name of simple")
@net_type("simple", help="operators in order, on one context; every blob can be fetched afterwards")
class SimpleNet(NetBase):
    """Runs the operators in the order of the NetDef."""

    def _create(self, strict: bool) -> None:
        super()._create(strict)
        self._bound_runs = [
            (None if place.is_host else place, self._bound_run(list(stretch)))
            for place, stretch in groupby(range(len(self.operators)), lambda position: self.operators[position].place)
        ]

    def _bound_run(self, positions: list[int]) -> BoundRun:
        operators = [self.operators[position] for position in positions]
        return BoundRun(operators, lambda place, definition: self._fused(positions[place], definition))

    def _run(self, run: Run | None) -> None:
        context = current_context(HOST)
        if run is None and self._run_native(context):
            return
        check = partial(self.check, run)
        done = 0
        try:
            with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass; who wants to know observes
                for place, bound in self._bound_runs:
                    try:
                        if place is None:
                            bound.run(context, check=check, piecewise=run is not None)
                        else:
                            _run_there(bound, current_context(place), check)
                    finally:
                        done += bound.done
        except TazzaError as error:
            progress_note(error, self, done)
            raise

    def _run_native(self, context: Context) -> bool:
        """Run all operators where they are one native call, which nobody can stop and NumPy tells nothing of."""
        if len(self._bound_runs) != 1 or self._closed or self.within is not None:
            return False
        _, bound = self._bound_runs[0]
        try:
            return bound.run_native(context)
        except TazzaError as error:
            progress_note(error, self, bound.done)
            raise

    def standing(self) -> Standing | None:
        """Return the calls of its operators where all of them are bound, on the CPU, and nobody observes."""
        if self.observers or len(self._bound_runs) != 1 or self._bound_runs[0][0] is not None:
            return None
        return self._bound_runs[0][1].standing(current_context(HOST))

    def explain(self, *, times: bool = False) -> Explanation:
        """Return a row for each step that runs; a pair is one."""
        del times
        names = [f"{op.type} {', '.join(map(repr, op.output))}" for op in self.definition.op]
        rows: list[Row] = []
        position = 0
        for step in (step for _, bound in self._bound_runs for step in bound.steps()):
            rows.append(operator_row(step.operator, tuple(names[position : position + step.count])))
            position += step.count
        return Explanation(tuple(rows))

    def _end(self) -> None:
        super()._end()
        for _, bound in getattr(self, "_bound_runs", ()):
            bound.forget()


def _run_there(bound: BoundRun, context: Context, check: Callable[[], object]) -> None:
    """Run operators on a device, and wait until they have ended.

    What is native is the host's, so there are no rows between which somebody could stop.
    """
    with context:
        try:
            bound.run(context, check=check)
        finally:
            wait_there(context)
