"""OneHot: a thread for each element of Y."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import Slot, Word, accepts_rows_but
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.operator import Launch, OpView, Spec, launcher
from tazza.ops.shape.one_hot import ONE_HOT
from tazza.tensor import TensorSpec


@launcher(ONE_HOT, engine=KIND, device=KIND, accepts=accepts_rows_but({"size"}))
def prepare_one_hot(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Compile the marks."""
    del op, context, inputs
    Y = cast("TensorSpec", outputs[0])

    def write(t: Threads, i: str) -> None:
        v = t.single
        n, c = t.split(i, t.word("columns"))
        marked = t.index("X", n)
        t.report(t.lines.let(f"xor i1 {t.below(marked, t.word('columns'))}, true"))
        own = t.compare("eq", marked, c)
        t.store("Y", i, t.lines.let(f"select i1 {own}, {v.type} {v.constant(1.0)}, {v.type} {v.constant(0.0)}"))

    words: dict[str, Word] = {"columns": max(1, Y.shape[1]), "X": Slot("X"), "Y": Slot("Y")}
    return each_launch("one hot", Y.size, words, write, complaint="a number that is no column")
