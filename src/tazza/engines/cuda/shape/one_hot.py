"""OneHot: a thread for each element of Y."""

from __future__ import annotations

from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Launch
from tazza.ops.shape.one_hot import ONE_HOT
from tazza.tensor import TensorSpec


@translated(ONE_HOT)
def one_hot(Y: TensorSpec) -> Launch:
    """Compile the marks."""

    def write(t: Threads, i: str) -> None:
        v = t.single
        n, c = t.split(i, t.word("columns"))
        marked = t.index("X", n)
        t.require(t.below(marked, t.word("columns")))
        own = t.compare("eq", marked, c)
        t.store("Y", i, t.select(own, v.constant(1.0), v.constant(0.0), v.type))

    words = {"columns": max(1, Y.shape[1]), **addresses("X", "Y")}
    return each_launch("one hot", Y.size, words, write, complaint="a number that is no column")
