"""PadImage and its gradient: a thread for each element that is written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from functools import partial

from tazza.codegen.block import Word, float_word
from tazza.codegen.term import Term
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.engines.cuda.vision.image import Span, image_pair, place_of, split_image, summed
from tazza.operator import Launch, OpSchema, OpView
from tazza.ops.vision.pad_image import PAD_IMAGE, PAD_IMAGE_GRADIENT, pads_of
from tazza.tensor import TensorSpec


def _absolute(i: Term) -> Term:
    return i.lines.call("i64", "llvm.abs.i64", i, i.lines.number(False, "i1"))


def _source(t: Threads, mode: str, name: str, i: Term) -> Term:
    """Return the place in the image that place i of Y shows; of `constant` it may lie outside."""
    place, last = i - t.w[f"head{name}"], t.w[f"image{name}"] - 1
    if mode == "reflect":
        return last - _absolute(last - _absolute(place))
    return place.at_least(0).at_most(last) if mode == "edge" else place


def _forward(mode: str, t: Threads, i: Term) -> None:
    a, h, w, b = split_image(t, "padded", i)
    y, x = (_source(t, mode, name, one) for name, one in (("H", h), ("W", w)))
    inside, value = y.below(t.w.imageH) & x.below(t.w.imageW), t.real("value").to("float")
    t.store("Y", i, t.where(inside, lambda: t.load("X", place_of(t, "image", (a, y, x, b))), value))


def _spans(t: Threads, mode: str, name: str, p: Term) -> list[Span]:
    """Return the places of Y that show place p of the image, as spans."""
    count, last = t.w[f"padded{name}"], t.w[f"image{name}"] - 1
    own = p + t.w[f"head{name}"]

    def clipped(begin: Term, end: Term) -> Span:
        first = begin.at_least(0).at_most(count)
        return first, first.at_least(end.at_most(count))

    if mode == "edge":
        return [clipped(p.equals(0).choose(0, own), p.equals(last).choose(count, own + 1))]
    spans = [clipped(own, own + 1)]
    if mode == "reflect":
        before = t.w[f"head{name}"] - p
        behind = own + (last - p) * 2
        for mirror, one in ((before, p > 0), (behind, p < last)):
            spans.append(clipped(one.choose(mirror, -1), one.choose(mirror + 1, -1)))
    return spans


def _backward(mode: str, t: Threads, i: Term) -> None:
    a, h, w, b = split_image(t, "image", i)
    total = t.single.constant(0.0)

    def value(y: Term, x: Term) -> Term:
        return t.load("dY", place_of(t, "padded", (a, y, x, b)))

    for rows, columns in itertools.product(_spans(t, mode, "H", h), _spans(t, mode, "W", w)):
        total += summed(t, rows, columns, value)
    t.store("dX", i, total)


def _register(schema: OpSchema, write: Callable[[str, Threads, Term], None], given: str, made: str) -> None:
    @translated(schema, float32={given})
    def pad_image(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        back = given == "dY"
        image, padded = image_pair(specs, given, made, op.order)
        words: dict[str, Word] = {**image.words("image"), **padded.words("padded"), **addresses(given, made)}
        for name, n, (head, _) in zip("HW", image.image, pads_of(op), strict=True):
            words |= {f"head{name}": head, **({} if back else {f"image{name}": n})}
        if not back:
            words["value"] = float_word(op.value)
        return each_launch(f"padded {op.mode} {back}", specs[made].size, words, partial(write, op.mode))


_register(PAD_IMAGE, _forward, "X", "Y")
_register(PAD_IMAGE_GRADIENT, _backward, "dY", "dX")
