"""The net type `simple`: operators one after the other, in the calling thread.

Pairs of operators run as one where nobody can tell (`nets.pair`), unless somebody observes either of them, or the net
is on another device than the CPU. Constant state: operators and pairs. The fused operators are made at the first run
that uses them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tazza.device import current_context
from tazza.errors import TazzaError
from tazza.nets.base import NetBase, net_type, progress_note
from tazza.nets.explanation import Explanation, Row, operator_row
from tazza.nets.pair import paired
from tazza.nets.run import Run
from tazza.operator import Operator
from tazza.proto import OperatorDef


@net_type("simple", help="operators in order, on one context; every blob can be fetched afterwards")
class SimpleNet(NetBase):
    """Runs the operators in the order of the NetDef."""

    def _create(self, strict: bool) -> None:
        super()._create(strict)
        ops = list(self.definition.op)
        self._pairs: dict[int, OperatorDef] = {}
        for position, (first, second) in enumerate(pairwise(ops)):
            made = paired(first, second)
            if made is not None:
                self._pairs[position] = made
        self._fused: dict[int, Operator] = {}

    def _steps(self) -> list[tuple[Operator, int]]:
        """Return what runs now, with how many operators of the net each is."""
        steps: list[tuple[Operator, int]] = []
        position = 0
        while position < len(self.operators):
            fused = self._pair_at(position)
            steps.append((self.operators[position], 1) if fused is None else (fused, 2))
            position += steps[-1][1]
        return steps

    def _pair_at(self, position: int) -> Operator | None:
        definition = self._pairs.get(position)
        if definition is None or self.operators[position].observers or self.operators[position + 1].observers:
            return None
        if position not in self._fused:
            self._fused[position] = self._operator(position, definition, strict=False)
        return self._fused[position]

    def _run(self, run: Run | None) -> None:
        done = 0
        try:
            with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass; who wants to know observes
                for operator, count in self._steps() if self._pairs else [(one, 1) for one in self.operators]:
                    if run is not None:
                        run.check()
                    operator.run(current_context(operator.place))
                    done += count
        except TazzaError as error:
            progress_note(error, self, done)
            raise

    def explain(self, *, times: bool = False) -> Explanation:
        """Return a row for each step that runs; a pair is one."""
        del times
        names = [f"{op.type} {', '.join(map(repr, op.output))}" for op in self.definition.op]
        rows: list[Row] = []
        position = 0
        for operator, count in self._steps():
            rows.append(operator_row(operator, tuple(names[position : position + count])))
            position += count
        return Explanation(tuple(rows))

    def close(self) -> None:
        """End the operators."""
        for operator in getattr(self, "_fused", {}).values():
            operator.close()
        super().close()
