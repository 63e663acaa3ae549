"""ScatterWeightedSum: rows in place, by one thread, in the order of indices; all of these are looked at before."""

from __future__ import annotations

import math
from collections.abc import Callable

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, accepts_rows_but
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, each_vector, lanes_of, when
from tazza.codegen.rows import ROWS, ask_ahead, finish_status, index_at, rows_check, stop_if
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.operator.in_place import overwritten
from tazza.ops.sparse.scatter_weighted_sum import SCATTER_WEIGHTED_SUM
from tazza.tensor import TensorSpec

HEAD, PAIR = Fields("R", addresses="indices Y w0", after=ROWS), Fields(addresses="X w")
"""N = K indices, D elements of each of the R rows; the pairs come after them."""
AHEAD = 8
"""How many indices before its turn a row is asked for."""


def write_sum(lines: Lines, bits: int, summands: int) -> None:
    """Write Y[i] *= w0 for each index i, where w0 is not 1; then for each pair Y[i] += w * X[k]."""
    v, at = lanes_of(lines), HEAD.lazily(lines)
    count, width, rows, indices, target = at.N, at.D, at.R, at.indices, at.Y
    factor = v.load_one(at.w0)

    def look(k: Term) -> None:
        stop_if(index_at(indices, k, bits).outside(rows))  # -1 is too large

    def picked(k: Term) -> Term:
        return target.at(index_at(indices, k, bits) * width)

    def each(change: Callable[[Term, Term, Term, Term | None], Term]) -> None:
        """Write change(k, y, i, mask) for the elements of each row that an index picks."""

        def row(k: Term) -> None:
            ask_ahead((k, AHEAD, count), lambda later: [picked(later)], write=True)
            y = picked(k)

            def some(i: Term, mask: Term | None) -> None:
                v.store(change(k, v.load(y, i, mask), i, mask), y, i, mask)

            each_vector(v, 0, width, some)

        count_loop(lines, 0, count, row)

    count_loop(lines, 0, count, look)
    when(factor.lane(0).differs(1.0), lambda: each(lambda k, y, i, mask: y * factor))
    for summand in range(summands):
        pair = PAIR.lazily(lines, len(HEAD) + len(PAIR) * summand)
        x, weight = pair.X, v.load_one(pair.w)

        def added(k: Term, y: Term, i: Term, mask: Term | None, x: Term = x, weight: Term = weight) -> Term:
            return y + weight * v.load(x.at(k * width), i, mask)

        each(added)


@native(SCATTER_WEIGHTED_SUM, accepts=accepts_rows_but(overwritten(SCATTER_WEIGHTED_SUM)), float32=True)
def prepare_scatter_weighted_sum(op: OpView, X0: TensorSpec, indices: TensorSpec, X: list[TensorSpec] | None) -> Launch:
    """Compile the sums."""
    if not accepts_rows("X0", X0):
        raise Unsupported("the rows of X0 do not lie one behind the other")
    bits, count = 8 * indices.dtype.itemsize, len(X or ())
    address = SOURCES.compiled(
        f"scatter weighted sum {bits} {count}", lambda lines: write_sum(lines, bits, count), finish_status
    )
    R = X0.shape[0]
    head = HEAD.words(threads=1, N=indices.size, D=math.prod(X0.shape[1:]), R=R)
    pairs = [word for k in range(count) for word in PAIR.words(X=Slot("X", k), w=Slot("w", k))]
    return BlockLaunch(address, (*head, *pairs), check=rows_check(op, "indices", R))
