"""Images whose elements are sums of those of another image, along rows and along columns by themselves.

Letters: P planes of r rows and c columns are made of planes of R rows and C columns. A `Dimension` says which elements
each one is the sum of, and with which weights. So are borders, repeated and interpolated pixels made; their gradients
are the same with the dimensions turned around. Rows are added up first, as whole vectors, into a row of C elements;
columns pick from that. Where each element is one other at most, rows are not even copied, and what shows none is
filled. Threads share the rows of all planes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.codegen.block import BlockLaunch, Constant, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import each_vector, fold_loop, lanes_of, when
from tazza.codegen.rows import ROWS, each_row
from tazza.codegen.term import Lines, Number, Term
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES
from tazza.tensor import DataType

FLOAT = DataType.FLOAT
BLOCK = Fields(
    "r R C at_once picked stride fill",
    addresses="counts:i64 sources:i64 row_weights picks:i32 column_weights X Y scratch",
    after=ROWS,
)
"""N = P r, D = c; at_once, picked: the most rows and columns of a sum. stride: the elements between the scratch rows of
threads. fill: its bits."""
LINE_BYTES = 64
NONE = -1

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Dimension:
    """For each place along a dimension those that it is the sum of (n, k), of `extent`; NONE stands for nothing.

    `weights` (n, k) are those of a sum; None where all are 1.
    """

    places: Array
    extent: int
    weights: Array | None = None

    @staticmethod
    def of(places: Array, extent: int) -> Dimension:
        """Return one in which each place shows one other, or none.

        >>> Dimension.of(np.array([0, 0, 1]), 2).turned().places.tolist()
        [[0, 1], [2, -1]]
        """
        return Dimension(places.reshape(-1, 1), extent)

    @property
    def count(self) -> int:
        """How many places there are."""
        return len(self.places)

    @property
    def single(self) -> bool:
        """Whether each place shows one other at most."""
        return self.weights is None and self.places.shape[1] == 1

    def turned(self) -> Dimension:
        """Return for each of the others those places that are made of it: what gradients are summed by."""
        count, most = self.count, self.places.shape[1]
        to = self.places.reshape(-1)
        order = np.argsort(to, kind="stable")
        order = order[np.count_nonzero(to == NONE) :]
        sizes = np.bincount(to[order], minlength=self.extent)
        behind = np.arange(order.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = np.full((self.extent, max(1, int(sizes.max(initial=0)))), NONE)
        places[to[order], behind] = order // most
        if self.weights is None:
            return Dimension(places, count)
        weights = np.zeros(places.shape, np.float32)
        weights[to[order], behind] = self.weights.reshape(-1)[order]
        return Dimension(places, count, weights)

    def with_inner(self, inner: Dimension) -> Dimension:
        """Return this dimension and one that lies within it as a single one, both without weights.

        >>> Dimension.of(np.array([1, 0]), 2).with_inner(Dimension.of(np.array([0, -1, 2]), 3)).places.tolist()
        [[3], [-1], [5], [0], [-1], [2]]
        """
        both = self.places[:, None, :, None], inner.places[None, :, None, :]
        found = np.where((both[0] == NONE) | (both[1] == NONE), NONE, both[0] * inner.extent + both[1])
        n, m, k, j = found.shape
        return Dimension(found.reshape(n * m, k * j), self.extent * inner.extent)


def resampling(planes: int, rows: Dimension, columns: Dimension, slots: tuple[Slot, Slot], fill: float) -> BlockLaunch:
    """Return the launch that makes the planes of the second slot from those of the first, both float32, row-major.

    `fill` is what an element that shows none becomes; sums of none are 0.
    """
    single, weighted = rows.single and columns.single, rows.weights is not None
    address = SOURCES.compiled(
        f"resampling {single} {weighted}", lambda lines: _Writer(lines, weighted=weighted).write(single=single)
    )
    elements = planes * rows.count * columns.count
    threads = threads_of(elements, 2.0 * rows.places.shape[1] * columns.places.shape[1], 12)
    stride = max(1, -(-columns.extent * FLOAT.itemsize // LINE_BYTES)) * LINE_BYTES
    order = np.argsort(rows.places == NONE, axis=1, kind="stable")
    sources = np.take_along_axis(rows.places, order, 1)
    weights = np.zeros(1) if rows.weights is None else np.take_along_axis(rows.weights, order, 1)
    picked = np.zeros(1) if columns.weights is None else columns.weights.T
    words = BLOCK.words(
        **{"threads": threads, "N": planes * rows.count, "D": columns.count, "X": slots[0], "Y": slots[1]},
        **{"r": rows.count, "R": rows.extent, "C": columns.extent, "stride": stride // FLOAT.itemsize},
        **{"at_once": sources.shape[1], "picked": columns.places.shape[1]},
        fill=struct.unpack("<I", struct.pack("<f", fill))[0],
        counts=_constant((sources != NONE).sum(1), np.int64),
        sources=_constant(sources, np.int64),
        row_weights=_constant(weights, np.float32),
        picks=_constant(columns.places.T, np.int32),
        column_weights=_constant(picked, np.float32),
    )
    return BlockLaunch(address, words, scratch_bytes=threads * stride)


def back(planes: int, rows: Dimension, columns: Dimension) -> BlockLaunch:
    """Return the launch that gives dX from dY where Y was made of X so: sums, by the weights that a place has."""
    return resampling(planes, rows.turned(), columns.turned(), (Slot("dY"), Slot("dX")), 0.0)


def _constant(values: Array, dtype: Any) -> Constant:
    return Constant(np.ascontiguousarray(values, dtype).tobytes())


class _Writer:
    """The words of a kernel's block, and how a row is made."""

    def __init__(self, lines: Lines, *, weighted: bool) -> None:
        self.lines, self.v, self.weighted = lines, lanes_of(lines), weighted
        self.w = BLOCK.loaded(lines)

    def write(self, *, single: bool) -> None:
        """Write the loop over rows."""
        each_row(self.lines, self._shown if single else self._summed)

    def _row(self, n: Term) -> tuple[Term, Term, Term]:
        """Return the number of a row in its plane, where the plane that it is made of begins, and where it lies."""
        w = self.w
        plane = n // w.r
        r = n - plane * w.r
        return r, w.X.at(plane * w.R * w.C), w.Y.at(n * w.D)

    def _shown(self, n: Term) -> None:
        """Write a row whose elements show one other at most."""
        v, w = self.v, self.w
        r, source, target = self._row(n)
        fill = v.full(w.fill.to("i32").as_floats())

        def copied() -> None:
            base = source.at(w.sources[r] * w.C)
            self._columns(target, lambda i, mask: self._pick(base, w.picks, i, mask, fill))

        def filled() -> None:
            self._columns(target, lambda i, mask: fill)

        when(w.counts[r] > 0, copied, filled)

    def _columns(self, target: Term, value: Callable[[Term, Term | None], Term]) -> None:
        each_vector(self.v, 0, self.w.D, lambda i, mask: self.v.store(value(i, mask), target, i, mask))

    def _summed(self, n: Term) -> None:
        """Write a row of sums."""
        v, w = self.v, self.w
        r, source, target = self._row(n)
        scratch = w.scratch.at(self.lines.who * w.stride)
        first, count = r * w.at_once, w.counts[r]

        def down(i: Term, mask: Term | None) -> None:
            def add(k: Term, total: Term) -> Term:
                which = first + k
                row = source.at(w.sources[which] * w.C)
                return total + self._times(which, v.load(row, i, mask))

            v.store(fold_loop(0, count, v.constant(0.0), add), scratch, i, mask)

        each_vector(v, 0, w.C, down)

        def across(i: Term, mask: Term | None) -> Term:
            def add(k: Term, total: Term) -> Term:
                found = self._pick(scratch, w.picks.at(k * w.D), i, mask, 0.0)
                if self.weighted:
                    found *= v.load(w.column_weights.at(k * w.D), i, mask)
                return total + found

            return fold_loop(0, w.picked, v.constant(0.0), add)

        self._columns(target, across)

    def _times(self, i: Term, value: Term) -> Term:
        return value * self.v.load_one(self.w.row_weights.at(i)) if self.weighted else value

    def _pick(self, base: Term, picks: Term, i: Term, mask: Term | None, otherwise: Number) -> Term:
        """Return the elements of a row that the picks from i on name, `otherwise` where they name none."""
        numbers = picks.at(i).load_lanes(self.v.integer, 4, mask, NONE)
        live = numbers >= 0
        return base.at(numbers).gather_lanes(self.v.type, 4, live, otherwise)
