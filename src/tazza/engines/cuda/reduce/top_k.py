"""TopK and its gradient. Letters: X is B x n x K, the outputs are B x k x K.

A team takes one of a row after the other: the largest element below that which came last. Elements are compared as
whole numbers of 64 bits: above those of float32, in their order, with NaN below all others; below the place, counted
from behind. So of equal elements the first comes first, and no two are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import Slot, Word
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.loop import carry_loop
from tazza.codegen.nvptx import GridKernel
from tazza.codegen.rows import element, when
from tazza.data_class import dataclass
from tazza.engines.cuda import rows
from tazza.engines.cuda.launch import SMALL, GridLaunch, own_code
from tazza.engines.cuda.team import Deal, Element, Limits, Team, deal_of
from tazza.engines.cuda.threads import Threads, Whole, each_launch, zeros_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Launch, LaunchChain, OpView, Unsupported
from tazza.operator.row_program import Cut
from tazza.ops.reduce.top_k import TOP_K, TOP_K_GRADIENT, top_axis
from tazza.tensor import DataType, TensorSpec

LONGEST = 1 << 31
"""Places are counted below this."""
MOST = 1024
"""More than this are better sorted: each costs a turn over the row."""
LEAST, NONE = -(1 << 31) + 1, -(1 << 63)
"""What stands for NaN among those of float32; and what is below all."""
COMPLAINT = "a place that is behind the axis"
WORDS = (*Team.WORDS, "k", "X", "V", "P", "F")


def _cut(spec: TensorSpec, axis: int) -> Cut:
    shape = spec.shape
    return Cut(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))


@dataclass(slots=True)
class Top:
    """Writes what a team does."""

    lines: Lines
    deal: Deal
    limits: Limits
    small: bool
    flat: bool
    """Whether F is there."""

    def write(self) -> None:
        """Take one after the other."""
        lines, team = self.lines, Team(self.lines, self.deal, self.limits, outer=False, small=self.small)
        kept: dict[int, str] = {}

        def key(one: Element) -> str:
            if self.deal.kept and one[0] not in kept:
                kept[one[0]] = self._key(one)
            return kept[one[0]] if self.deal.kept else self._key(one)

        if self.deal.kept:  # before the loop, so that each is made once
            team.sweep((), lambda elements, carried: [key(one) for one in elements][:0])

        def take(j: str, carried: Sequence[str]) -> list[str]:
            last = carried[0]

            def turn(elements: Sequence[Element], found: Sequence[str]) -> list[str]:
                best = found[0]
                for one in elements:
                    own = key(one)
                    below = lines.let(f"icmp slt i64 {own}, {last}")
                    best = self._larger(
                        team.numbers, best, self._held(lines.let(f"select i1 {below}, i64 {own}, i64 {NONE}"))
                    )
                return [best]

            found = team.joined(0, team.sweep([self._held(str(NONE))], turn), [self._larger])[0]
            best = self._whole(found)
            when(lines, team.leads(), lambda: self._put(team, j, best))
            team.meet()  # what is shared is written anew
            return [best]

        carry_loop(Whole(lines), "0", lines.load_word("%block", WORDS.index("k")), [str((1 << 63) - 1)], take)

    def _whole(self, held: str) -> str:
        return self.lines.let(f"bitcast <1 x double> {held} to i64")

    def _held(self, whole: str) -> str:
        """Return 64 bits as teams exchange them."""
        return self.lines.let(f"bitcast i64 {whole} to <1 x double>")

    def _larger(self, v: Vector, a: str, b: str) -> str:
        del v
        return self._held(self.lines.most(self._whole(a), self._whole(b)))

    def _key(self, one: Element) -> str:
        _, place, r, there = one
        lines, v = self.lines, Vector(self.lines, 1)
        X = v.load(lines.load_pointer("%block", WORDS.index("X")), place, None)
        positive = v.add(X, v.constant(0.0))  # -0 is 0
        bits = lines.let(f"extractelement {v.integer} {v.bits_of(positive)}, i32 0")
        sign = lines.let(f"ashr i32 {bits}, 31")  # of negative numbers the other bits count the other way
        turned = lines.let(f"xor i32 {bits}, {lines.let(f'lshr i32 {sign}, 1')}")
        nan = lines.let(f"extractelement {v.mask} {v.compare('uno', X, X)}, i32 0")
        ordered = lines.let(f"sext i32 {lines.let(f'select i1 {nan}, i32 {LEAST}, i32 {turned}')} to i64")
        upper = lines.let(f"shl i64 {ordered}, 32")
        key = lines.let(f"or i64 {upper}, {lines.let(f'sub i64 {(1 << 32) - 1}, {r}')}")
        return key if there is None else lines.let(f"select i1 {there}, i64 {key}, i64 {NONE}")

    def _put(self, team: Team, j: str, best: str) -> None:
        """Write element j of the row; 0 and -1 where there is none."""
        lines = self.lines
        pointers = {name: lines.load_pointer("%block", WORDS.index(name)) for name in "XVPF"}
        k = lines.load_word("%block", WORDS.index("k"))
        behind = team.w["behind"] if self.deal.side > 1 else "1"
        b, column = team.split(team.row, behind) if self.deal.side > 1 else (team.row, "0")
        to = team.add(team.mul(team.add(team.mul(b, k), j), behind), column)
        none = lines.let(f"icmp eq i64 {best}, {NONE}")
        r = team.two("sub", str((1 << 32) - 1), team.two("and", best, (1 << 32) - 1))
        safe = lines.let(f"select i1 {none}, i64 0, i64 {r}")
        at = team.add(team.start, team.mul(safe, behind))
        value = lines.let(f"load float, ptr {element(lines, pointers['X'], at)}")
        for name, kind, found, otherwise in (
            ("V", "float", value, "0.0"),
            ("P", "i64", r, "-1"),
            *([("F", "i64", at, "-1")] if self.flat else []),
        ):
            chosen = lines.let(f"select i1 {none}, {kind} {otherwise}, {kind} {found}")
            lines.do(f"store {kind} {chosen}, ptr {element(lines, pointers[name], to, kind)}")


@translated(TOP_K)
def top_k(op: OpView, X: TensorSpec, V: TensorSpec, F: TensorSpec | None) -> Launch | Unsupported:
    """Compile it: k turns over each row."""
    axis = top_axis(op, len(X.shape))
    cut, k, limits, flat = _cut(X, axis), V.shape[axis], rows.LIMITS, F is not None
    if X.dtype is not DataType.FLOAT or not 0 < cut.along < LONGEST:
        return Unsupported(f"it compares some float32 of a row, less than 2^31, not {cut.along} {X.dtype.label}")
    if k > MOST:
        return Unsupported(f"it takes {MOST} at most, one after the other, not {k}")
    deal, small = deal_of(cut, 1, limits), max(cut.size, V.size) < SMALL
    words: list[Word] = [cut.before * deal.tiles(cut), max(1, deal.tiles(cut)), 1, cut.along, max(1, cut.behind)]
    words += [1, cut.size, 0, k, Slot("X"), Slot("V"), Slot("P"), Slot("F") if flat else 0]
    doubles, most = deal.warps(limits) * deal.side, deal.threads if deal.threads > limits.block else 0
    kernel = GridKernel(len(words), lambda lines: Top(lines, deal, limits, small, flat).write(), doubles, most)
    return GridLaunch(own_code(f"top k {deal} {small} {flat}", kernel), words, deal.blocks(cut), deal.threads)


@translated(TOP_K_GRADIENT, float32={"dV"})
def top_k_gradient(op: OpView, dV: TensorSpec, dX: TensorSpec) -> Launch:
    """Compile zeros, then the sums of each row in their order, by a thread."""
    axis = top_axis(op, len(dX.shape))
    cut, k = _cut(dX, axis), dV.shape[axis]
    words = {"along": cut.along, "behind": max(1, cut.behind), "k": k, **addresses("dV", "P", "dX")}

    def add(t: Threads, row: str) -> None:
        b, column = t.split(row, t.word("behind"))

        def turn(j: str) -> str:
            own = t.add(t.mul(t.add(t.mul(b, t.word("k")), j), t.word("behind")), column)
            place = t.index("P", own)
            good = t.below(place, t.word("along"))
            t.report(t.compare("sge", place, t.word("along")))

            def put() -> None:
                to = t.add(t.mul(t.add(t.mul(b, t.word("along")), place), t.word("behind")), column)
                t.store("dX", to, t.single.add(t.load("dX", to), t.load("dV", own)))

            when(t.lines, good, put)
            return t.select(t.compare("slt", place, 0), t.word("k"), t.add(j, 1))

        t.follow("0", t.word("k"), turn)

    sums = each_launch("sums of top k", cut.before * cut.behind, words, add, complaint=COMPLAINT)
    return LaunchChain((zeros_launch("dX", dX.size), sums))
