"""ScatterWeightedSum: rows in place, by one thread, in the order of indices; all of these are looked at before."""

from __future__ import annotations

import math
from collections.abc import Callable

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, accepts_rows_but
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, each_vector, lanes_of
from tazza.codegen.rows import ROWS, ask_ahead, finish_status, first_lane, index_at, row_at, rows_check, stop_if, when
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
    v, at = lanes_of(lines), HEAD.read(lines)
    count, width, rows, indices, target = at.N, at.D, at.R, at.indices, at.Y
    factor = v.load_one(at.w0)

    def look(k: str) -> None:
        stop_if(lines, lines.let(f"icmp uge i64 {index_at(lines, indices, k, bits)}, {rows}"))  # -1 is too large

    def picked(k: str) -> str:
        return row_at(lines, target, index_at(lines, indices, k, bits), width)

    def each(change: Callable[[str, str, str, str | None], str]) -> None:
        """Write change(k, y, i, mask) for the elements of each row that an index picks."""

        def row(k: str) -> None:
            ask_ahead(lines, (k, AHEAD, count), lambda later: [picked(later)], write=True)
            y = picked(k)

            def some(i: str, mask: str | None) -> None:
                v.store(change(k, v.load(y, i, mask), i, mask), y, i, mask)

            each_vector(v, "0", width, some)

        count_loop(lines, "0", count, row)

    count_loop(lines, "0", count, look)
    scaled = lines.let(f"fcmp une float {first_lane(v, factor)}, 1.0")
    when(lines, scaled, lambda: each(lambda k, y, i, mask: v.mul(y, factor)))
    for summand in range(summands):
        pair = PAIR.read(lines, len(HEAD) + len(PAIR) * summand)

        def added(k: str, y: str, i: str, mask: str | None, x: str = pair.X, weight: str = v.load_one(pair.w)) -> str:
            return v.add(y, v.mul(weight, v.load(row_at(lines, x, k, width), i, mask)))

        each(added)


@native(SCATTER_WEIGHTED_SUM, accepts=accepts_rows_but(overwritten(SCATTER_WEIGHTED_SUM)), float32=True)
def prepare_scatter_weighted_sum(
    op: OpView, X0: TensorSpec, indices: TensorSpec, X: list[TensorSpec] | None
) -> Launch | Unsupported:
    """Compile the sums."""
    if not accepts_rows("X0", X0):
        return Unsupported("the rows of X0 do not lie one behind the other")
    bits, count = 8 * indices.dtype.itemsize, len(X or ())
    address = SOURCES.compiled(
        f"scatter weighted sum {bits} {count}", lambda lines: write_sum(lines, bits, count), finish_status
    )
    R = X0.shape[0]
    head = HEAD.words(threads=1, N=indices.size, D=math.prod(X0.shape[1:]), R=R)
    pairs = [word for k in range(count) for word in PAIR.words(X=Slot("X", k), w=Slot("w", k))]
    return BlockLaunch(address, (*head, *pairs), check=rows_check(op, "indices", R))
