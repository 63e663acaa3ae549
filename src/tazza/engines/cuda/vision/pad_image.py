"""PadImage and its gradient: a thread for each element that is written."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import cast

from tazza.codegen.block import Slot, Word, accepts_rows, float_word
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.threads import Threads, Write, each_launch
from tazza.engines.cuda.vision.image import Images, place_of, split_image, summed
from tazza.operator import Launch, OpSchema, OpView, Spec, Unsupported, launcher
from tazza.ops.vision.pad_image import PAD_IMAGE, PAD_IMAGE_GRADIENT, pads_of
from tazza.tensor import DataType, TensorSpec


def _absolute(t: Threads, i: str) -> str:
    t.lines.declare("i64 @llvm.abs.i64(i64, i1)")
    return t.lines.let(f"call i64 @llvm.abs.i64(i64 {i}, i1 false)")


def _extreme(t: Threads, name: str, a: str, b: str) -> str:
    t.lines.declare(f"i64 @llvm.{name}.i64(i64, i64)")
    return t.lines.let(f"call i64 @llvm.{name}.i64(i64 {a}, i64 {b})")


def _source(t: Threads, mode: str, name: str, i: str) -> str:
    """Return the place in the image that place i of Y shows; of `constant` it may lie outside."""
    place, last = t.two("sub", i, t.word(f"head{name}")), t.two("sub", t.word(f"image{name}"), 1)
    if mode == "reflect":
        return t.two("sub", last, _absolute(t, t.two("sub", last, _absolute(t, place))))
    return _extreme(t, "smin", _extreme(t, "smax", place, "0"), last) if mode == "edge" else place


def _forward(mode: str) -> Write:
    def write(t: Threads, i: str) -> None:
        v = t.single
        a, h, w, b = split_image(t, "padded", i)
        y, x = (_source(t, mode, name, one) for name, one in (("H", h), ("W", w)))
        inside = t.lines.let(f"and i1 {t.below(y, t.word('imageH'))}, {t.below(x, t.word('imageW'))}")
        value = t.lines.let(f"fptrunc {t.wide.type} {t.real('value')} to {v.type}")
        t.store("Y", i, t.where(inside, lambda: t.load("X", place_of(t, "image", (a, y, x, b))), value, v.type))

    return write


def _spans(t: Threads, mode: str, name: str, p: str) -> list[tuple[str, str]]:
    """Return the places of Y that show place p of the image, as spans."""
    count, last = t.word(f"padded{name}"), t.two("sub", t.word(f"image{name}"), 1)
    own = t.add(p, t.word(f"head{name}"))

    def clipped(begin: str, end: str) -> tuple[str, str]:
        first = _extreme(t, "smin", _extreme(t, "smax", begin, "0"), count)
        return first, _extreme(t, "smax", first, _extreme(t, "smin", end, count))

    def chosen(condition: str, yes: str, no: str) -> str:
        return t.lines.let(f"select i1 {condition}, i64 {yes}, i64 {no}")

    if mode == "edge":
        begin = chosen(t.compare("eq", p, 0), "0", own)
        return [clipped(begin, chosen(t.compare("eq", p, last), count, t.add(own, 1)))]
    spans = [clipped(own, t.add(own, 1))]
    if mode == "reflect":
        before = t.two("sub", t.word(f"head{name}"), p)
        behind = t.add(own, t.mul(t.two("sub", last, p), 2))
        for mirror, one in ((before, t.compare("sgt", p, 0)), (behind, t.compare("slt", p, last))):
            spans.append(clipped(chosen(one, mirror, "-1"), chosen(one, t.add(mirror, 1), "-1")))
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


def _register(schema: OpSchema, write: Callable[[str], Write], *, back: bool) -> None:
    @launcher(schema, engine=KIND, device=KIND, accepts=accepts_rows)
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context
        given, made = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
        if given.dtype is not DataType.FLOAT:
            return Unsupported(f"it is compiled for float32, not {given.dtype.label}")
        image, padded = (Images.of(one.shape, op.order) for one in ((made, given) if back else (given, made)))
        words: dict[str, Word] = {**image.words("image"), **padded.words("padded")}
        for name, n, (head, _) in zip("HW", image.image, pads_of(op), strict=True):
            words |= {f"head{name}": head, **({} if back else {f"image{name}": n})}
        words |= {letter: Slot(letter) for letter in (("dY", "dX") if back else ("X", "Y"))}
        if not back:
            words["value"] = float_word(op.value)
        return each_launch(f"padded {op.mode} {back}", made.size, words, write(op.mode))


_register(PAD_IMAGE, _forward, back=False)
_register(PAD_IMAGE_GRADIENT, _backward, back=True)
