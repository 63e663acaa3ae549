"""Some dot products of all pairs of vectors: tiles of them in registers, of which each row picks its own.

Letters as in `ops.math.pair_product`. A tile is the products of some vectors with four others, as many as lanes. Its
sums over the elements stay in registers, and are added up over the lanes at the end: vectors are read where they lie,
and no matrix of them is made. What is above the diagonal is what is below it. Threads share the rows; each of them
looks at all pairs first, and notes where among the tiles it finds their products.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.fold import fold_lanes
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import count_loop, sweep
from tazza.codegen.rows import ROWS, each_row, finish_status, index_at, rows_check, stop_if
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import LINE, Writer
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Spec, kernel_key
from tazza.operator.choice import MADE
from tazza.ops.math.pair_product import PAIR_PRODUCT
from tazza.tensor import TensorSpec

BLOCK = Fields("n I tiles own", addresses="pairs Y scratch", after=ROWS)
"""N = B, D = E; behind them stand the addresses of the vectors. tiles: along the second vector of a product; own: bytes
of scratch memory of one thread."""
ACROSS = 4
"""Vectors that a tile has as second ones."""


@native(PAIR_PRODUCT, batch_invariant=True)
def prepare_pair_product(op: OpView, pairs: TensorSpec, X: list[TensorSpec]) -> Launch:
    """Compile the products of any number of vectors."""
    n, B, E = len(X), X[0].shape[0], math.prod(X[0].shape[1:])
    L = lane_count()
    tiles = -(-n // ACROSS)
    own = 4 * LINE * -(-(4 * L * tiles * -(-n // (L // ACROSS)) + 8 * pairs.size) // (4 * LINE))
    threads = threads_of(B, n * n * E, 4 * n * E, B)
    address = SOURCES.compiled(
        f"pair products, indices of {pairs.dtype}",
        lambda lines: _Writer(lines, 8 * pairs.dtype.itemsize).write(),
        finish_status,
    )
    words = BLOCK.words(threads=threads, N=B, D=E, n=n, I=pairs.size, tiles=tiles, own=own)
    vectors = (Slot("X", k) for k in range(n))
    return BlockLaunch(address, (*words, *vectors), own * threads, check=rows_check(op, "pairs", n * n))


@MADE.registering(kernel_key("ConcatBatchMatMulBatchGatherOp", "native"), help="vectors are read where they lie")
def takes(op: OpView, inputs: Sequence[Spec | None]) -> bool:
    """Whether it gains: always."""
    del op, inputs
    return True


class _Writer(Writer):
    """Writes the kernel."""

    def __init__(self, lines: Lines, bits: int) -> None:
        super().__init__(lines, BLOCK)
        self.bits, self.down = bits, self.v.count // ACROSS
        # (I) int64: where products are in `tiles`
        self.places = self.w.scratch.bytes_on(self.lines.who * self.w.own).of("i64")
        self.tiles = self.places.at(self.w.I).of("float")
        self.last = self.w.n - 1
        self.vectors = self.tail.take_place().of("ptr")

    def write(self) -> None:
        """Write the work of one thread."""
        count_loop(self.lines, 0, self.w.I, self._look)
        each_row(self.lines, self._row)

    def _look(self, i: Term) -> None:
        """Note where the product of pair i is."""
        n = self.w.n
        pair = index_at(self.w.pairs, i, self.bits)
        stop_if(pair.outside(n * n))
        one, other = pair // n, pair % n
        first, second = one.at_least(other), one.at_most(other)
        tile = first // self.down * self.w.tiles + second // ACROSS
        lane = first % self.down * ACROSS + second % ACROSS
        self.places[i] = tile * self.v.count + lane

    def _row(self, b: Term) -> None:
        begin = b * self.w.D

        def across(k: Term) -> None:
            first = k * self.down
            left = [self._vector(first + r, begin) for r in range(self.down)]
            # The products of a vector with those before it and with itself.
            count = (first + (self.down - 1)) // ACROSS + 1

            def tile(j: Term) -> None:
                second = j * ACROSS
                right = [self._vector(second + c, begin) for c in range(ACROSS)]
                place = k * self.w.tiles + j
                self.put(self._products(left, right), self.tiles, place * self.v.count)

            count_loop(self.lines, 0, count.at_most(self.w.tiles), tile)

        count_loop(self.lines, 0, self.w.n.pieces(self.down), across)
        y = self.w.Y.at(b * self.w.I)

        def pick(i: Term) -> None:
            y[i] = self.tiles[self.places[i]]

        count_loop(self.lines, 0, self.w.I, pick)

    def _vector(self, k: Term, begin: Term) -> Term:
        """Return the address of row `begin` / E of vector k; behind the last one there is that again."""
        return self.vectors[k.at_most(self.last)].of("float").at(begin)

    def _products(self, left: Sequence[Term], right: Sequence[Term]) -> Term:
        """Return the dot products of each left with each right vector."""
        v = self.v

        def some(e: Term, mask: Term | None, sums: Sequence[Term]) -> list[Term]:
            a, b = ([v.load(one, e, mask) for one in side] for side in (left, right))
            return [x.fma(y, sums[r * ACROSS + c]) for r, x in enumerate(a) for c, y in enumerate(b)]

        return fold_lanes(v, sweep(v, 0, self.w.D, some, [v.constant(0.0)] * v.count))
