"""ResizeNearest, UpsampleBilinear and gradients: a thread for each element that is written.

Places are computed in float32, as the definition does. A thread of a gradient goes over the elements of dY that may be
made of its own, a few more than are, and adds up those that are, in their order. How many more: where a place i comes
from is off by one rounding of i / scale, or of i * step, so by less than 2^-23 of it; below 2^22 places that is less
than a half of one, and where the span begins and ends, a product or quotient as well, by as much. The fractions that
are cut off make it one more at either side.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.codegen.block import Word, float_word
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.threads import Threads, Write, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.engines.cuda.vision.image import Images, Span, image_pair, place_of, split_image, summed
from tazza.operator import Launch, OpSchema, OpView, Unsupported
from tazza.ops.vision.resize import (
    RESIZE_NEAREST,
    RESIZE_NEAREST_GRADIENT,
    UPSAMPLE_BILINEAR,
    UPSAMPLE_BILINEAR_GRADIENT,
    order_of,
    scales_of,
)
from tazza.tensor import TensorSpec


def _float(i: Term) -> Term:
    """Return a whole number in float32."""
    return i.to("float").splat(1)


def _whole(x: Term) -> Term:
    """Return a number without its fraction."""
    return x.lane(0).to("i64")


@dataclass(frozen=True, slots=True)
class Axis:
    """Writes where places of one dimension, `H` or `W`, of what was resized come from."""

    t: Threads
    name: str

    def step(self) -> Term:
        """Return the scale, or how far apart places are, in float32."""
        return self.t.real(f"step{self.name}").to("float")

    @property
    def last(self) -> Term:
        """The last place in the image."""
        return self.t.w[f"image{self.name}"] - 1

    @property
    def count(self) -> Term:
        """How many places there are in what was resized."""
        return self.t.w[f"resized{self.name}"]

    # -- the nearest -----------------------------------------------------------------------------------------------

    def nearest(self, i: Term) -> Term:
        """Return the place that place i is taken from."""
        return _whole(_float(i) / self.step()).at_most(self.last)

    def from_nearest(self, p: Term) -> Span:
        """Return the places that may be taken from place p."""
        begin, end = (_whole(_float(one) * self.step()) for one in (p, p + 1))
        behind = p.equals(self.last).choose(self.count, end + 2)
        first = (begin - 2).at_least(0).at_most(self.count)
        return first, first.at_least(behind.at_most(self.count))

    # -- between two -----------------------------------------------------------------------------------------------

    def between(self, i: Term) -> tuple[tuple[Term, Term], tuple[Term, Term]]:
        """Return both neighbours of place i, with their weights."""
        at = _float(i) * self.step()
        low = _whole(at).at_most(self.last)
        behind = at - _float(low)
        return (low, 1.0 - behind), ((low + 1).at_most(self.last), behind)

    def from_between(self, p: Term) -> Span:
        """Return the places that may have place p as a neighbour; all where they are not apart."""
        step = self.step()
        apart = (step > 0.0).lane(0)
        safe = apart.choose(step, 1.0)
        begin = _whole(_float(p - 1) / safe)
        end = _whole(_float(p + 1) / safe)
        first = (begin - 2).at_least(0).at_most(self.count)
        behind = first.at_least((end + 3).at_most(self.count))
        return apart.choose(first, 0), apart.choose(behind, self.count)

    def weight(self, i: Term, p: Term) -> Term:
        """Return how much place p counts for place i."""
        total = self.t.single.constant(0.0)
        for place, weight in self.between(i):
            total += place.equals(p).choose(weight, 0.0)
        return total


def _nearest(t: Threads, i: Term) -> None:
    a, h, w, b = split_image(t, "resized", i)
    source = place_of(t, "image", (a, Axis(t, "H").nearest(h), Axis(t, "W").nearest(w), b))
    t.move(("X", source), ("Y", i), 4)


def _nearest_back(t: Threads, i: Term) -> None:
    a, h, w, b = split_image(t, "image", i)
    rows, columns = Axis(t, "H"), Axis(t, "W")

    def value(y: Term, x: Term) -> Term:
        taken = rows.nearest(y).equals(h) & columns.nearest(x).equals(w)
        return t.where(taken, lambda: t.load("dY", place_of(t, "resized", (a, y, x, b))), 0.0)

    t.store("dX", i, summed(t, rows.from_nearest(h), columns.from_nearest(w), value))


def _bilinear(t: Threads, i: Term) -> None:
    a, h, w, b = split_image(t, "resized", i)
    total = t.single.constant(0.0)
    for y, vertical in Axis(t, "H").between(h):
        for x, horizontal in Axis(t, "W").between(w):
            found = t.load("X", place_of(t, "image", (a, y, x, b)))
            total += found * (vertical * horizontal)
    t.store("Y", i, total)


def _bilinear_back(t: Threads, i: Term) -> None:
    a, h, w, b = split_image(t, "image", i)
    rows, columns = Axis(t, "H"), Axis(t, "W")

    def value(y: Term, x: Term) -> Term:
        weight = rows.weight(y, h) * columns.weight(x, w)
        return weight * t.load("dY", place_of(t, "resized", (a, y, x, b)))

    t.store("dX", i, summed(t, rows.from_between(h), columns.from_between(w), value))


def _steps(op: OpView, image: Images, resized: Images, *, nearest: bool) -> tuple[float, float]:
    """Return the scales, or how far apart places are in the image, as the definition rounds them."""
    if nearest:
        sh, sw = scales_of(op, None)
        return float(sh), float(sw)
    pairs = zip(image.image, resized.image, strict=True)
    h, w = (float(np.float32(n - 1) / np.float32(count - 1)) if count > 1 else 0.0 for n, count in pairs)
    return h, w


def _register(schema: OpSchema, write: Write, given: str, made: str, *, nearest: bool) -> None:
    @translated(schema, float32={given})
    def resize(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        if op.has_input("scales"):
            raise Unsupported("an input says the scales")
        back = given == "dY"
        image, resized = image_pair(specs, given, made, order_of(op))
        h, w = _steps(op, image, resized, nearest=nearest)
        words: dict[str, Word] = {**image.words("image"), **resized.words("resized")}
        words |= {f"resized{name}": n for name, n in zip("HW", resized.image, strict=True) if back}
        words |= {"stepH": float_word(h), "stepW": float_word(w), **addresses(given, made)}
        return each_launch(f"resized {write.__name__}", specs[made].size, words, write)


_register(RESIZE_NEAREST, _nearest, "X", "Y", nearest=True)
_register(RESIZE_NEAREST_GRADIENT, _nearest_back, "dY", "dX", nearest=True)
_register(UPSAMPLE_BILINEAR, _bilinear, "X", "Y", nearest=False)
_register(UPSAMPLE_BILINEAR_GRADIENT, _bilinear_back, "dY", "dX", nearest=False)
