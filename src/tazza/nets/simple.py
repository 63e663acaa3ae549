"""The net type `simple`: operators one after the other, in the calling thread, as one strand (`nets.strand`)."""

from __future__ import annotations

import numpy as np

from tazza.device import current_context
from tazza.errors import TazzaError
from tazza.nets.base import NetBase, net_type, progress_note
from tazza.nets.explanation import Explanation, Row, operator_row
from tazza.nets.run import Run
from tazza.nets.strand import Strand
from tazza.tensor import CPUPlace


@net_type("simple", help="operators in order, on one context; every blob can be fetched afterwards")
class SimpleNet(NetBase):
    """Runs the operators in the order of the NetDef."""

    def _create(self, strict: bool) -> None:
        super()._create(strict)
        self._strand = Strand(self.operators, self._fused)

    def _run(self, run: Run | None) -> None:
        try:
            with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass; who wants to know observes
                self._strand.run(current_context(CPUPlace()), check=None if run is None else run.check)
        except TazzaError as error:
            progress_note(error, self, self._strand.done)
            raise

    def explain(self, *, times: bool = False) -> Explanation:
        """Return a row for each step that runs; a pair is one."""
        del times
        names = [f"{op.type} {', '.join(map(repr, op.output))}" for op in self.definition.op]
        rows: list[Row] = []
        position = 0
        for step in self._strand.steps():
            rows.append(operator_row(step.operator, tuple(names[position : position + step.count])))
            position += step.count
        return Explanation(tuple(rows))

    def close(self) -> None:
        """End the operators."""
        super().close()
        if hasattr(self, "_strand"):
            self._strand.close()
