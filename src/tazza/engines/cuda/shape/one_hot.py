"""OneHot: a thread for each element of Y."""

from __future__ import annotations

from tazza.codegen.term import Term
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Launch
from tazza.ops.shape.one_hot import ONE_HOT
from tazza.tensor import TensorSpec


@translated(ONE_HOT)
def one_hot(Y: TensorSpec) -> Launch:
    """Compile the marks."""

    def write(t: Threads, i: Term) -> None:
        n, c = t.split(i, t.w.columns)
        marked = t.index("X", n)
        t.require(marked.below(t.w.columns))
        t.store("Y", i, marked.equals(c).choose(t.single.constant(1.0), 0.0))

    words = {"columns": max(1, Y.shape[1]), **addresses("X", "Y")}
    return each_launch("one hot", Y.size, words, write, complaint="a number that is no column")
