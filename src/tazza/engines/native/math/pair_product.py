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
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.fold import fold_lanes
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import count_loop, sweep
from tazza.codegen.rows import ROWS, each_row, element, finish_status, index_at, rows_check, stop_if
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
        mine = element(lines, self.w.scratch, self.mul("%who", self.w.own), "i8")
        self.places = mine  # (I) int64: where products are in `tiles`
        self.tiles = element(lines, mine, self.w.I, "i64")
        self.last = self.sub(self.w.n, 1)
        self.vectors = self.tail.address()

    def write(self) -> None:
        """Write the work of one thread."""
        count_loop(self.lines, "0", self.w.I, self._look)
        each_row(self.lines, self._row)

    def _look(self, i: str) -> None:
        """Note where the product of pair i is."""
        lines, n = self.lines, self.w.n
        pair = index_at(lines, self.w.pairs, i, self.bits)
        stop_if(lines, lines.let(f"icmp uge i64 {pair}, {self.mul(n, n)}"))
        one, other = self.div(pair, n), self.rem(pair, n)
        first, second = self.most(one, other), self.least(one, other)
        tile = self.add(self.mul(self.div(first, self.down), self.w.tiles), self.div(second, ACROSS))
        lane = self.add(self.mul(self.rem(first, self.down), ACROSS), self.rem(second, ACROSS))
        place = self.add(self.mul(tile, self.v.count), lane)
        lines.do(f"store i64 {place}, ptr {element(lines, self.places, i, 'i64')}")

    def _row(self, b: str) -> None:
        lines = self.lines
        begin = self.mul(b, self.w.D)

        def across(k: str) -> None:
            first = self.mul(k, self.down)
            left = [self._vector(self.add(first, r), begin) for r in range(self.down)]
            # The products of a vector with those before it and with itself.
            count = self.add(self.div(self.add(first, self.down - 1), ACROSS), 1)

            def tile(j: str) -> None:
                second = self.mul(j, ACROSS)
                right = [self._vector(self.add(second, c), begin) for c in range(ACROSS)]
                place = self.add(self.mul(k, self.w.tiles), j)
                self.put(self._products(left, right), self.tiles, self.mul(place, self.v.count))

            count_loop(lines, "0", self.least(count, self.w.tiles), tile)

        count_loop(lines, "0", self.pieces(self.w.n, self.down), across)
        y = element(lines, self.w.Y, self.mul(b, self.w.I))

        def pick(i: str) -> None:
            place = lines.let(f"load i64, ptr {element(lines, self.places, i, 'i64')}")
            found = lines.let(f"load float, ptr {element(lines, self.tiles, place)}")
            lines.do(f"store float {found}, ptr {element(lines, y, i)}")

        count_loop(lines, "0", self.w.I, pick)

    def _vector(self, k: str, begin: str) -> str:
        """Return the address of row `begin` / E of vector k; behind the last one there is that again."""
        place = element(self.lines, self.vectors, self.least(k, self.last), "ptr")
        start = self.lines.let(f"load ptr, ptr {place}")
        return element(self.lines, start, begin)

    def _products(self, left: Sequence[str], right: Sequence[str]) -> str:
        """Return the dot products of each left with each right vector."""
        v = self.v

        def some(e: str, mask: str | None, sums: Sequence[str]) -> list[str]:
            a, b = ([v.load(one, e, mask) for one in side] for side in (left, right))
            return [v.fma(x, y, sums[r * ACROSS + c]) for r, x in enumerate(a) for c, y in enumerate(b)]

        return fold_lanes(v, sweep(v, "0", self.w.D, some, [v.constant(0.0)] * v.count))
