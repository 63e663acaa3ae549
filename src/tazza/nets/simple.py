"""The net type `simple`: operators one after the other, in the calling thread."""

from __future__ import annotations

import numpy as np

from tazza.device import current_context
from tazza.errors import TazzaError
from tazza.nets.base import NetBase, net_type, progress_note


@net_type("simple", help="operators in order, on one context; every blob can be fetched afterwards")
class SimpleNet(NetBase):
    """Runs the operators in the order of the NetDef."""

    def _run(self) -> None:
        done = 0
        try:
            with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass; who wants to know observes
                for operator in self.operators:
                    operator.run(current_context(operator.place))
                    done += 1
        except TazzaError as error:
            progress_note(error, self, done)
            raise
