"""Filters as Winograd's algorithm reads them: U = G W G^T in panels, and the kernel of Copy that makes them of W."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import chain, product
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.image import filter_steps, filters_to_pack
from tazza.codegen.kernel import lane_count
from tazza.codegen.loop import count_loop, lanes_below, lanes_of, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import gather
from tazza.data_class import dataclass
from tazza.engines.native import native
from tazza.engines.native.winograd import SOURCES
from tazza.engines.native.winograd.algorithm import Algorithm, algorithm, taps_back
from tazza.engines.native.winograd.transform import apply_twice
from tazza.engines.native.winograd.writer import GAP
from tazza.operator import Array, LaidOut, Launch
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.copy import COPY
from tazza.runtime.threads import thread_count
from tazza.tensor import Opaque, Tensor, TensorSpec
from tazza.tensor.residue import Parts, restored

ENGINE = "native/winograd"


SOME = 128
"""Input channels of a panel that are looked at at once when filters are brought back."""


@dataclass(frozen=True)
class Filters:
    """What an opaque layout of this engine holds: U[x][panel][c][2 L] of W (K, C, r, r), C and K filled up with 0.

    `last` says that the blob's shape is (K, r, r, C). `turned` filters are those that give dX of dY: input and output
    channels change places, and the taps are turned by 180 degrees.
    """

    m: int
    r: int
    C: int
    K: int
    last: bool
    turned: bool = False

    @property
    def a(self) -> int:
        """Matrices of U along each axis."""
        return self.m + self.r - 1

    @property
    def panels(self) -> int:
        """Panels of output channels in each matrix."""
        return -(-self.K // (2 * lane_count()))

    @property
    def matrix_floats(self) -> int:
        """Floats from one matrix x of U to the next, with a gap."""
        L = lane_count()
        return -(-self.C // L) * L * self.panels * 2 * L + GAP

    @property
    def nbytes(self) -> int:
        """U."""
        return 4 * self.a**2 * self.matrix_floats

    def layout(self) -> Opaque:
        """Return the layout; a blob that is kept in it has a residue beside."""
        return Opaque(ENGINE, self, self.nbytes, derived=True)


def filters_about(tensor: Tensor) -> Parts:
    """Yield what each panel of U tells of the filters: W = H U H^T by r x r of its matrices, but for roundings."""
    form = cast("Filters", cast("Opaque", tensor.layout).descriptor)
    matrices = tensor.span.reshape(form.a, form.a, form.matrix_floats)[..., :-GAP]
    panels = matrices.reshape(form.a, form.a, form.panels, -1, 2 * lane_count())  # U (y, x, panel, c, k)
    ends = [*range(form.r - 1), form.a - 1]
    for panel, start in product(range(form.panels), range(0, form.C, SOME)):
        k = slice(panel * 2 * lane_count(), min((panel + 1) * 2 * lane_count(), form.K))
        c = slice(start, min(start + SOME, form.C))
        columns = [_taps_of([panels[y, x, panel, c, : k.stop - k.start] for y in ends], form) for x in ends]
        taps = np.array([_taps_of(row, form) for row in zip(*columns, strict=True)])  # (kH, kW, c, k)
        yield _in_blob(form, taps, c, k)


def _taps_of(products: Sequence[Array], form: Filters) -> list[Array]:
    """Return H times products, added up in order."""
    rows = taps_back(form.m, form.r)
    terms = [[h * one for h, one in zip(row, products, strict=True) if h] for row in rows]
    return [reduce(np.add, row) for row in terms]


def _in_blob(form: Filters, taps: Array, c: slice, k: slice) -> tuple[tuple[slice, ...], Array]:
    """Return where taps (kH, kW, c, k) of some channels lie in the blob, and them in its order of axes."""
    everywhere = slice(None)
    if form.turned:  # the blob's first axis is c, and its second k
        taps, first, second = taps[::-1, ::-1].transpose(2, 3, 0, 1), c, k
    else:
        taps, first, second = taps.transpose(3, 2, 0, 1), k, c
    if form.last:
        return (first, everywhere, everywhere, second), taps.transpose(0, 2, 3, 1)
    return (first, second, everywhere, everywhere), taps


def unpacked(tensor: Tensor) -> Array:
    """Return the filters that a blob's U was made of.

    Raises:
        UnsupportedError: U is a copy, which has no residue.
    """
    return restored(tensor, "transformed for Winograd's algorithm")


@native(COPY, engine=ENGINE, accepts=accepts_strided)
def prepare_filters(X: TensorSpec, Y: TensorSpec) -> LaidOut | Launch:
    """Transform filters; other copies are left to other engines."""
    found = filters_to_pack(Filters, X, Y)
    W, lies, form = found
    k, c, y, x = filter_steps(W, lies, last=form.last)
    origin = 0
    if form.turned:
        k, c = c, k
        origin, y, x = (form.r - 1) * (y + x), -y, -x
    address = SOURCES.compiled(f"winograd filters {form.m} {form.r}", _Code(form).write)
    words = BLOCK.words(
        **{"threads": thread_count(), "C": form.C, "K": form.K, "matrix": form.matrix_floats, "origin": origin},
        **{"w_k": k, "w_c": c, "w_y": y, "w_x": x, "W": Slot("X"), "U": Slot("Y")},
    )
    return LaidOut(BlockLaunch(address, words), {"Y": form.layout()})


BLOCK = Fields("threads C K matrix origin w_k w_c w_y w_x", addresses="W U")
"""matrix: floats from one matrix of U to the next. origin: where the first tap lies in W; w_k ... w_x: its steps."""
AHEAD = 4
"""Rows of U, that is input channels, ahead for which filters are asked for, and the places where the row goes: there is
one in each of the matrices, and the processor does not follow so many."""


@dataclass(frozen=True)
class _Code:
    """The code for one algorithm: threads share the channels c of all panels."""

    form: Filters

    @property
    def algorithm(self) -> Algorithm:
        return algorithm(self.form.m, self.form.r)

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        v, w, r = lanes_of(lines), BLOCK.loaded(lines), self.form.r
        depth, panels = _rounded(w.C, v.count), _rounded(w.K, 2 * v.count) // (2 * v.count)
        start = w.W.at(w.origin)

        # For each input channel c of each panel, filled up to whole vectors: a row of U, which has 2 L numbers.
        def row(i: Term) -> None:
            c, panel = i % depth, i // depth
            there = c < w.C
            # For each vector of output channels k.
            for half in range(2):
                k = panel * (2 * v.count) + half * v.count
                mask = lanes_below(v, there.choose(w.K - k, 0))
                at = k * w.w_k + c * w.w_c
                _expect(v.count, start.at(at), w.w_k, w.w_c * AHEAD)
                # W[k][c], r x r taps: L output channels, w_k apart, are the lanes of a vector.
                taps = [
                    [gather(v, _tap(start, at, w.w_y * y, w.w_x * x), w.w_k, mask) for x in range(r)] for y in range(r)
                ]
                place = i * (2 * v.count) + half * v.count
                # U = G W G^T: number x of it goes to U[x][panel][c], half after half.
                for number, value in enumerate(chain(*apply_twice(self.algorithm.filters, taps))):
                    index = w.matrix * number + place
                    w.U.at(index).prefetch(4 * AHEAD * 2 * v.count, write=True)
                    v.store(value, w.U, index, None)

        count_loop(lines, *share(lines, panels * depth), row)


def _expect(lanes: int, here: Term, k_step: Term, ahead: Term) -> None:
    """Ask for the filters of some output channels, so many elements ahead: they lie far from each other in memory."""
    there = here.at(ahead)
    for lane in range(lanes):
        there.at(k_step * lane).prefetch(0)


def _rounded(count: Term, unit: int) -> Term:
    """Return the next multiple of a power of two."""
    return (count + (unit - 1)) & -unit


def _tap(start: Term, at: Term, down: Term, across: Term) -> Term:
    """Return the address of a tap, so many elements down and across from element `at`."""
    return start.at(at + down + across)
