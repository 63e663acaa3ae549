"""ScatterWeightedSum: rows in place, a thread for each element of a row that indices pick."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import Slot, Word, accepts_rows
from tazza.codegen.term import Term
from tazza.engines.cuda.occurrence import Occurrences, each_occurrence
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import translated
from tazza.operator import Launch, LaunchChain, Unsupported
from tazza.ops.sparse.scatter_weighted_sum import SCATTER_WEIGHTED_SUM
from tazza.tensor import TensorSpec


@translated(SCATTER_WEIGHTED_SUM, float32=True)
def scatter_weighted_sum(X0: TensorSpec, indices: TensorSpec, X: Sequence[TensorSpec]) -> Launch:
    """Compile the sums: first w0 for each occurrence, then one summand after the other."""
    if not accepts_rows("X0", X0):
        raise Unsupported("the rows of X0 do not lie one behind the other")
    width, summands = math.prod(X0.shape[1:]), len(X)
    occurrences = Occurrences(indices.size, X0.shape[0], 8 * indices.dtype.itemsize)

    def write(t: Threads, n: Term) -> None:
        k, d = t.split(n, t.w.width)
        place = t.index("indices", k, occurrences.bits) * t.w.width + d
        w0 = t.load("w0", 0)
        each_occurrence(t, k, lambda j: t.store("Y", place, t.load("Y", place) * w0))
        for s in range(summands):

            def add(j: Term, s: int = s) -> None:
                x = t.load(f"X{s}", j * t.w.width + d)
                t.store("Y", place, t.load("Y", place) + t.load(f"w{s + 1}", 0) * x)

            each_occurrence(t, k, add)

    words: dict[str, Word] = {**occurrences.words, "width": max(1, width), "Y": Slot("Y"), "w0": Slot("w0")}
    for s in range(summands):
        words |= {f"X{s}": Slot("X", s), f"w{s + 1}": Slot("w", s)}
    name, scratch = f"scatter weighted sum {occurrences.bits} {summands}", occurrences.scratch_bytes
    sums = each_launch(name, occurrences.count * width, words, write, scratch_bytes=scratch)
    return LaunchChain((occurrences.launch(), sums))
