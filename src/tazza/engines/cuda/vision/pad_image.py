"""PadImage and its gradient: a thread for each element that is written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from tazza.codegen.block import Word, float_word
from tazza.engines.cuda.threads import Threads, Write, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.engines.cuda.vision.image import Span, image_pair, place_of, split_image, summed
from tazza.operator import Launch, OpSchema, OpView
from tazza.ops.vision.pad_image import PAD_IMAGE, PAD_IMAGE_GRADIENT, pads_of
from tazza.tensor import TensorSpec


def _absolute(t: Threads, i: str) -> str:
    t.lines.declare("i64 @llvm.abs.i64(i64, i1)")
    return t.lines.let(f"call i64 @llvm.abs.i64(i64 {i}, i1 false)")


def _source(t: Threads, mode: str, name: str, i: str) -> str:
    """Return the place in the image that place i of Y shows; of `constant` it may lie outside."""
    place, last = t.two("sub", i, t.word(f"head{name}")), t.two("sub", t.word(f"image{name}"), 1)
    if mode == "reflect":
        return t.two("sub", last, _absolute(t, t.two("sub", last, _absolute(t, place))))
    return t.least(t.most(place, 0), last) if mode == "edge" else place


def _forward(mode: str) -> Write:
    def write(t: Threads, i: str) -> None:
        v = t.single
        a, h, w, b = split_image(t, "padded", i)
        y, x = (_source(t, mode, name, one) for name, one in (("H", h), ("W", w)))
        inside = t.lines.let(f"and i1 {t.below(y, t.word('imageH'))}, {t.below(x, t.word('imageW'))}")
        value = t.narrow(t.real("value"))
        t.store("Y", i, t.where(inside, lambda: t.load("X", place_of(t, "image", (a, y, x, b))), value, v.type))

    return write


def _spans(t: Threads, mode: str, name: str, p: str) -> list[Span]:
    """Return the places of Y that show place p of the image, as spans."""
    count, last = t.word(f"padded{name}"), t.two("sub", t.word(f"image{name}"), 1)
    own = t.add(p, t.word(f"head{name}"))

    def clipped(begin: str, end: str) -> Span:
        first = t.least(t.most(begin, 0), count)
        return first, t.most(first, t.least(end, count))

    if mode == "edge":
        begin = t.select(t.compare("eq", p, 0), "0", own)
        return [clipped(begin, t.select(t.compare("eq", p, last), count, t.add(own, 1)))]
    spans = [clipped(own, t.add(own, 1))]
    if mode == "reflect":
        before = t.two("sub", t.word(f"head{name}"), p)
        behind = t.add(own, t.mul(t.two("sub", last, p), 2))
        for mirror, one in ((before, t.compare("sgt", p, 0)), (behind, t.compare("slt", p, last))):
            spans.append(clipped(t.select(one, mirror, -1), t.select(one, t.add(mirror, 1), -1)))
    return spans


def _backward(mode: str) -> Write:
    def write(t: Threads, i: str) -> None:
        a, h, w, b = split_image(t, "image", i)
        v, total = t.single, t.single.constant(0.0)

        def value(y: str, x: str) -> str:
            return t.load("dY", place_of(t, "padded", (a, y, x, b)))

        for rows, columns in itertools.product(_spans(t, mode, "H", h), _spans(t, mode, "W", w)):
            total = v.add(total, summed(t, rows, columns, value))
        t.store("dX", i, total)

    return write


def _register(schema: OpSchema, write: Callable[[str], Write], given: str, made: str) -> None:
    @translated(schema, float32={given})
    def pad_image(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        back = given == "dY"
        image, padded = image_pair(specs, given, made, op.order)
        words: dict[str, Word] = {**image.words("image"), **padded.words("padded"), **addresses(given, made)}
        for name, n, (head, _) in zip("HW", image.image, pads_of(op), strict=True):
            words |= {f"head{name}": head, **({} if back else {f"image{name}": n})}
        if not back:
            words["value"] = float_word(op.value)
        return each_launch(f"padded {op.mode} {back}", specs[made].size, words, write(op.mode))


_register(PAD_IMAGE, _forward, "X", "Y")
_register(PAD_IMAGE_GRADIENT, _backward, "dY", "dX")
