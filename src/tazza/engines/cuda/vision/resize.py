"""ResizeNearest, UpsampleBilinear and gradients: a thread for each element that is written.

Places are computed in float32, as the definition does. A thread of a gradient goes over the elements of dY that may be
made of its own, a few more than are, and adds up those that are, in their order. How many more: where a place i comes
from is off by one rounding of i / scale, or of i * step, so by less than 2^-23 of it; below 2^22 places that is less
than a half of one, and where the span begins and ends, a product or quotient as well, by as much. The fractions that
are cut off make it one more at either side.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tazza.codegen.block import Word, float_word
from tazza.data_class import dataclass
from tazza.engines.cuda.threads import Threads, each_launch
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


@dataclass(frozen=True, slots=True)
class Axis:
    """Writes where places of one dimension, `H` or `W`, of what was resized come from."""

    t: Threads
    name: str

    def step(self) -> str:
        """Return the scale, or how far apart places are, in float32."""
        t = self.t
        return t.narrow(t.real(f"step{self.name}"))

    def float_of(self, i: str) -> str:
        """Return a whole number in float32."""
        return self.t.single.splat(self.t.lines.let(f"sitofp i64 {i} to float"))

    def whole_of(self, x: str) -> str:
        """Return a number without its fraction."""
        one = self.t.lines.let(f"extractelement {self.t.single.type} {x}, i32 0")
        return self.t.lines.let(f"fptosi float {one} to i64")

    @property
    def last(self) -> str:
        """The last place in the image."""
        return self.t.two("sub", self.t.word(f"image{self.name}"), 1)

    @property
    def count(self) -> str:
        """How many places there are in what was resized."""
        return self.t.word(f"resized{self.name}")

    # -- the nearest -----------------------------------------------------------------------------------------------

    def nearest(self, i: str) -> str:
        """Return the place that place i is taken from."""
        return self.t.least(self.whole_of(self.t.single.div(self.float_of(i), self.step())), self.last)

    def from_nearest(self, p: str) -> Span:
        """Return the places that may be taken from place p."""
        t, v = self.t, self.t.single
        begin, end = (self.whole_of(v.mul(self.float_of(one), self.step())) for one in (p, t.add(p, 1)))
        behind = t.select(t.compare("eq", p, self.last), self.count, t.add(end, 2))
        first = self.t.least(self.t.most(t.two("sub", begin, 2), 0), self.count)
        return first, self.t.most(first, self.t.least(behind, self.count))

    # -- between two -----------------------------------------------------------------------------------------------

    def between(self, i: str) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return both neighbours of place i, with their weights."""
        v = self.t.single
        at = v.mul(self.float_of(i), self.step())
        low = self.t.least(self.whole_of(at), self.last)
        behind = v.sub(at, self.float_of(low))
        return (low, v.sub(v.constant(1.0), behind)), (self.t.least(self.t.add(low, 1), self.last), behind)

    def from_between(self, p: str) -> Span:
        """Return the places that may have place p as a neighbour; all where they are not apart."""
        t, v = self.t, self.t.single
        step = self.step()
        apart = t.lines.let(f"extractelement {v.mask} {v.compare('ogt', step, v.constant(0.0))}, i32 0")
        safe = t.select(apart, step, v.constant(1.0), v.type)
        begin = self.whole_of(v.div(self.float_of(t.two("sub", p, 1)), safe))
        end = self.whole_of(v.div(self.float_of(t.add(p, 1)), safe))
        first = self.t.least(self.t.most(t.two("sub", begin, 2), 0), self.count)
        behind = self.t.most(first, self.t.least(t.add(end, 3), self.count))
        return t.select(apart, first, 0), t.select(apart, behind, self.count)

    def weight(self, i: str, p: str) -> str:
        """Return how much place p counts for place i."""
        t, v = self.t, self.t.single
        total = v.constant(0.0)
        for place, weight in self.between(i):
            own = t.select(t.compare("eq", place, p), weight, v.constant(0.0), v.type)
            total = v.add(total, own)
        return total


def _nearest(t: Threads, i: str) -> None:
    a, h, w, b = split_image(t, "resized", i)
    source = place_of(t, "image", (a, Axis(t, "H").nearest(h), Axis(t, "W").nearest(w), b))
    t.move(("X", source), ("Y", i), 4)


def _nearest_back(t: Threads, i: str) -> None:
    a, h, w, b = split_image(t, "image", i)
    rows, columns, v = Axis(t, "H"), Axis(t, "W"), t.single

    def value(y: str, x: str) -> str:
        taken = t.lines.let(f"and i1 {t.compare('eq', rows.nearest(y), h)}, {t.compare('eq', columns.nearest(x), w)}")
        return t.where(taken, lambda: t.load("dY", place_of(t, "resized", (a, y, x, b))), v.constant(0.0), v.type)

    t.store("dX", i, summed(t, rows.from_nearest(h), columns.from_nearest(w), value))


def _bilinear(t: Threads, i: str) -> None:
    a, h, w, b = split_image(t, "resized", i)
    v, total = t.single, t.single.constant(0.0)
    for y, vertical in Axis(t, "H").between(h):
        for x, horizontal in Axis(t, "W").between(w):
            found = t.load("X", place_of(t, "image", (a, y, x, b)))
            total = v.add(total, v.mul(found, v.mul(vertical, horizontal)))
    t.store("Y", i, total)


def _bilinear_back(t: Threads, i: str) -> None:
    a, h, w, b = split_image(t, "image", i)
    rows, columns, v = Axis(t, "H"), Axis(t, "W"), t.single

    def value(y: str, x: str) -> str:
        weight = v.mul(rows.weight(y, h), columns.weight(x, w))
        return v.mul(weight, t.load("dY", place_of(t, "resized", (a, y, x, b))))

    t.store("dX", i, summed(t, rows.from_between(h), columns.from_between(w), value))


def _steps(op: OpView, image: Images, resized: Images, *, nearest: bool) -> tuple[float, float]:
    """Return the scales, or how far apart places are in the image, as the definition rounds them."""
    if nearest:
        sh, sw = scales_of(op, None)
        return float(sh), float(sw)
    pairs = zip(image.image, resized.image, strict=True)
    h, w = (float(np.float32(n - 1) / np.float32(count - 1)) if count > 1 else 0.0 for n, count in pairs)
    return h, w


def _register(schema: OpSchema, write: Callable[[Threads, str], None], given: str, made: str, *, nearest: bool) -> None:
    @translated(schema, float32={given})
    def resize(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch | Unsupported:
        if op.has_input("scales"):
            return Unsupported("an input says the scales")
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
