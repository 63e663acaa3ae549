"""The net type `simple_refcount`: as `simple`, but each blob is emptied after its last reader, for the sake of memory.

Emptied is what the net makes and reads, once the last operator that reads it has ended; the memory goes back to the
allocator before the next operator runs. Kept is what somebody may look at afterwards, or what the next run goes on
from: external outputs, what no operator reads, what the net reads before it writes it (inputs, parameters), and what
operators keep in the workspace (counters, sums, readers, mutexes).

A net that trains keeps its parameters that way, though it writes and reads them. Every run makes the memory of its
intermediate blobs anew: this type is for nets that would not fit otherwise. `plan` shares that memory, and is faster.

Constant state: operators, and what is emptied behind each.
"""

from __future__ import annotations

import numpy as np

from tazza.device import current_context
from tazza.errors import TazzaError
from tazza.graph.live_range import last_readers
from tazza.nets.base import NetBase, net_type, progress_note
from tazza.nets.run import Run
from tazza.operator import Operator
from tazza.tensor import Blob


@net_type("simple_refcount", help="as simple, but a blob that the net makes is emptied after its last reader")
class SimpleRefcountNet(NetBase):
    """Runs the operators in the order of the NetDef, each by itself."""

    def _create(self, strict: bool) -> None:
        super()._create(strict)
        self._freed = f"made by net {self.name!r} and freed after its last reader; list it in external_output"
        self._emptied: dict[int, list[Blob]] = {}
        for name, position in last_readers(self.definition).items():
            blob = self.workspace.get_blob(name)
            if blob is not None:  # of what a net within writes, the operator may have made it already
                self._emptied.setdefault(position, []).append(blob)

    def _run(self, run: Run | None) -> None:
        done = 0
        try:
            with np.errstate(all="ignore"):  # Caffe2 lets NaN and infinity pass; who wants to know observes
                for operator in self.operators:
                    self.check(run)
                    self._run_one(operator, self._emptied.get(done, []))
                    done += 1
        except TazzaError as error:
            progress_note(error, self, done)
            raise

    def _run_one(self, operator: Operator, emptied: list[Blob]) -> None:
        context = current_context(operator.place)
        try:
            operator.run(context)
        finally:
            operator.forget()
        if emptied:
            context.wait()  # what is queued on a stream may still read them
            for blob in emptied:
                blob.reset(self._freed)
