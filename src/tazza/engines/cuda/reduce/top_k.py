"""TopK and its gradient. Letters: X is B x n x K, the outputs are B x k x K.

A team takes one of a row after the other: the largest element below that which came last. Elements are compared as
whole numbers of 64 bits: above those of float32, in their order, with NaN below all others; below the place, counted
from behind. So of equal elements the first comes first, and no two are the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import Slot
from tazza.codegen.fields import Fields
from tazza.codegen.loop import fold_loop, when
from tazza.codegen.nvptx import GridKernel
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.engines.cuda import rows
from tazza.engines.cuda.launch import SMALL, GridLaunch, own_code
from tazza.engines.cuda.team import Deal, Element, Limits, Team, deal_of, team_words
from tazza.engines.cuda.threads import Threads, each_launch, zeros_launch
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
WORDS = Fields("k", addresses="X V P:i64 F:i64", after=Team.WORDS)


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
        team = Team(self.lines, self.deal, self.limits, outer=False, small=self.small)
        kept: dict[int, Term] = {}

        def key(one: Element) -> Term:
            if self.deal.kept and one[0] not in kept:
                kept[one[0]] = self._key(one)
            return kept[one[0]] if self.deal.kept else self._key(one)

        if self.deal.kept:  # before the loop, so that each is made once
            team.sweep((), lambda elements, carried: [key(one) for one in elements][:0])

        def take(j: Term, last: Term) -> Term:
            def turn(elements: Sequence[Element], found: Sequence[Term]) -> list[Term]:
                best = found[0]
                for one in elements:
                    own = key(one)
                    best = _larger(team.numbers, best, _held((own < last).choose(own, NONE)))
                return [best]

            best = team.joined(0, team.sweep([_held(self.lines.number(NONE))], turn), [_larger])[0].bitcast("i64")
            when(team.leads(), lambda: self._put(team, j, best))
            team.meet()  # what is shared is written anew
            return best

        fold_loop(0, WORDS.lazily(self.lines).k, (1 << 63) - 1, take)

    def _key(self, one: Element) -> Term:
        _, place, r, there = one
        X = Vector(self.lines, 1).load(WORDS.lazily(self.lines).X, place, None)
        bits = (X + 0.0).as_bits().lane(0)  # -0 is 0
        turned = bits ^ (bits >> 31).shifted_down(1)  # of negative numbers the other bits count the other way
        upper = X.is_nan().lane(0).choose(LEAST, turned).to("i64") << 32
        key = upper | ((1 << 32) - 1 - r)
        return key.masked(there, NONE)

    def _put(self, team: Team, j: Term, best: Term) -> None:
        """Write element j of the row; 0 and -1 where there is none."""
        w, row = WORDS.loaded(self.lines), team.row
        behind: Number = w.behind if self.deal.side > 1 else 1
        b, column = team.split(row, w.behind) if self.deal.side > 1 else (row, self.lines.number(0))
        to = (b * w.k + j) * behind + column
        none = best.equals(NONE)
        r = (1 << 32) - 1 - (best & ((1 << 32) - 1))
        at = team.start + none.choose(0, r) * behind
        w.V[to] = none.choose(0.0, w.X[at])
        for places, found in ((w.P, r), *([(w.F, at)] if self.flat else [])):
            places[to] = none.choose(-1, found)


def _held(whole: Term) -> Term:
    """Return 64 bits as teams exchange them."""
    return whole.bitcast("<1 x double>")


def _larger(v: Vector, a: Term, b: Term) -> Term:
    del v
    return _held(a.bitcast("i64").at_least(b.bitcast("i64")))


@translated(TOP_K)
def top_k(op: OpView, X: TensorSpec, V: TensorSpec, F: TensorSpec | None) -> Launch:
    """Compile it: k turns over each row."""
    axis = top_axis(op, len(X.shape))
    cut, k, limits, flat = _cut(X, axis), V.shape[axis], rows.LIMITS, F is not None
    if X.dtype is not DataType.FLOAT or not 0 < cut.along < LONGEST:
        raise Unsupported(f"it compares some float32 of a row, less than 2^31, not {cut.along} {X.dtype.label}")
    if k > MOST:
        raise Unsupported(f"it takes {MOST} at most, one after the other, not {k}")
    deal, small = deal_of(cut, 1, limits), max(cut.size, V.size) < SMALL
    words = WORDS.words(**team_words(cut, deal), k=k, F=Slot("F") if flat else 0)
    doubles, most = deal.warps(limits) * deal.side, deal.threads if deal.threads > limits.block else 0
    kernel = GridKernel(len(words), lambda lines: Top(lines, deal, limits, small, flat).write(), doubles, most)
    return GridLaunch(own_code(f"top k {deal} {small} {flat}", kernel), words, deal.blocks(cut), deal.threads)


@translated(TOP_K_GRADIENT, float32={"dV"})
def top_k_gradient(op: OpView, dV: TensorSpec, dX: TensorSpec) -> Launch:
    """Compile zeros, then the sums of each row in their order, by a thread."""
    axis = top_axis(op, len(dX.shape))
    cut, k = _cut(dX, axis), dV.shape[axis]
    words = {"along": cut.along, "behind": max(1, cut.behind), "k": k, **addresses("dV", "P", "dX")}

    def add(t: Threads, row: Term) -> None:
        w = t.w
        b, column = t.split(row, w.behind)

        def turn(j: Term) -> Term:
            own = (b * w.k + j) * w.behind + column
            place = t.index("P", own)
            good = place.below(w.along)
            t.report(place >= w.along)

            def put() -> None:
                to = (b * w.along + place) * w.behind + column
                t.store("dX", to, t.load("dX", to) + t.load("dV", own))

            when(good, put)
            return (place < 0).choose(w.k, j + 1)

        t.follow(0, w.k, turn)

    sums = each_launch("sums of top k", cut.before * cut.behind, words, add, complaint=COMPLAINT)
    return LaunchChain((zeros_launch("dX", dX.size), sums))
