"""OneHot: a thread for each element of Y."""

from __future__ import annotations

from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import Specs, addresses, translated
from tazza.operator import Launch, OpView
from tazza.ops.shape.one_hot import ONE_HOT


@translated(ONE_HOT, host={"size"})
def one_hot(op: OpView, specs: Specs) -> Launch:
    """Compile the marks."""
    del op
    Y = specs["Y"]

    def write(t: Threads, i: str) -> None:
        v = t.single
        n, c = t.split(i, t.word("columns"))
        marked = t.index("X", n)
        t.report(t.lines.let(f"xor i1 {t.below(marked, t.word('columns'))}, true"))
        own = t.compare("eq", marked, c)
        t.store("Y", i, t.lines.let(f"select i1 {own}, {v.type} {v.constant(1.0)}, {v.type} {v.constant(0.0)}"))

    words = {"columns": max(1, Y.shape[1]), **addresses("X", "Y")}
    return each_launch("one hot", Y.size, words, write, complaint="a number that is no column")
