"""Filters as Winograd's algorithm reads them: U = G W G^T in panels, and the kernel of Copy that makes them of W."""

from __future__ import annotations

from itertools import chain

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.image import filter_steps, filters_to_pack
from tazza.codegen.kernel import lane_count
from tazza.codegen.loop import count_loop, lanes_below, lanes_of, share
from tazza.codegen.rows import element
from tazza.codegen.writer import gather
from tazza.data_class import dataclass
from tazza.engines.native import native
from tazza.engines.native.winograd import SOURCES
from tazza.engines.native.winograd.algorithm import Algorithm, algorithm
from tazza.engines.native.winograd.transform import apply_twice
from tazza.engines.native.winograd.writer import GAP
from tazza.operator import LaidOut, Launch, Unsupported
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.copy import COPY
from tazza.runtime.threads import thread_count
from tazza.tensor import Opaque, TensorSpec

ENGINE = "native/winograd"


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
    def matrix_floats(self) -> int:
        """Floats from one matrix x of U to the next, with a gap."""
        L = lane_count()
        return -(-self.C // L) * L * -(-self.K // (2 * L)) * 2 * L + GAP

    @property
    def nbytes(self) -> int:
        """U."""
        return 4 * (self.m + self.r - 1) ** 2 * self.matrix_floats

    def layout(self) -> Opaque:
        """Return the layout; blobs are never kept in it."""
        return Opaque(ENGINE, self, self.nbytes, derived=True)


@native(COPY, engine=ENGINE, accepts=accepts_strided)
def prepare_filters(X: TensorSpec, Y: TensorSpec) -> LaidOut | Launch | Unsupported:
    """Transform filters; other copies are left to other engines."""
    found = filters_to_pack(Filters, X, Y)
    if isinstance(found, Unsupported):
        return found
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
        v, w = lanes_of(lines), BLOCK.load(lines)
        C, K, k_step, c_step = w.C, w.K, w.w_k, w.w_c
        depth = _rounded(lines, C, v.count)
        panels = lines.let(f"udiv i64 {_rounded(lines, K, 2 * v.count)}, {2 * v.count}")
        start = element(lines, w.W, w.origin)

        def row(i: str) -> None:
            c = lines.let(f"urem i64 {i}, {depth}")
            panel = lines.let(f"udiv i64 {i}, {depth}")
            there = lines.let(f"icmp slt i64 {c}, {C}")
            for half in range(2):
                k = lines.let(f"add i64 {lines.let(f'mul i64 {panel}, {2 * v.count}')}, {half * v.count}")
                left = lines.let(f"select i1 {there}, i64 {lines.let(f'sub i64 {K}, {k}')}, i64 0")
                mask = lanes_below(v, left)
                at = lines.let(f"add i64 {lines.let(f'mul i64 {k}, {k_step}')}, {lines.let(f'mul i64 {c}, {c_step}')}")
                _expect(lines, v.count, element(lines, start, at), k_step, lines.let(f"mul i64 {c_step}, {AHEAD}"))
                taps = [
                    [gather(v, _tap(lines, start, at, (y, w.w_y), (x, w.w_x)), k_step, mask) for x in range(r)]
                    for y in range(r)
                ]
                place = lines.let(f"add i64 {lines.let(f'mul i64 {i}, {2 * v.count}')}, {half * v.count}")
                for number, value in enumerate(chain(*apply_twice(v, self.algorithm.filters, taps))):
                    index = lines.let(f"add i64 {lines.let(f'mul i64 {w.matrix}, {number}')}, {place}")
                    lines.prefetch(element(lines, w.U, index), 4 * AHEAD * 2 * v.count, write=True)
                    v.store(value, w.U, index, None)

        r = self.form.r
        count_loop(lines, *share(lines, lines.let(f"mul i64 {panels}, {depth}")), row)


def _expect(lines: Lines, lanes: int, here: str, k_step: str, ahead: str) -> None:
    """Ask for the filters of some output channels, so many elements ahead: they lie far from each other in memory."""
    there = element(lines, here, ahead)
    for lane in range(lanes):
        lines.prefetch(element(lines, there, lines.let(f"mul i64 {k_step}, {lane}")), 0)


def _rounded(lines: Lines, count: str, unit: int) -> str:
    """Return the next multiple of a power of two."""
    return lines.let(f"and i64 {lines.let(f'add i64 {count}, {unit - 1}')}, {-unit}")


def _tap(lines: Lines, start: str, at: str, down: tuple[int, str], across: tuple[int, str]) -> str:
    """Return the address of a tap, so many steps down and across from element `at`."""
    y, x = (lines.let(f"mul i64 {step}, {count}") for count, step in (down, across))
    return element(lines, start, lines.let(f"add i64 {lines.let(f'add i64 {at}, {y}')}, {x}"))
