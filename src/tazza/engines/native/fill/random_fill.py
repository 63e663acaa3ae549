"""Random fills: outputs of the operator's own twister, and what makes numbers of them, in one kernel.

The numbers are those of `tazza.device.Generator` to the last bit, and leave its state as it would. Of a Gaussian
product that lies so near to the middle between two float32 numbers that the last bit of sine or cosine decides, libm is
asked. One thread draws, since each output hangs on those before.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tazza.codegen import double
from tazza.codegen.block import BlockLaunch, Drawn
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, each_vector, lanes_below, lanes_of
from tazza.codegen.rows import element, when
from tazza.codegen.twister import CHUNK, SCRATCH_BYTES, Twister
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.fill.random_fill import GAUSSIAN_FILL, UNIFORM_FILL, UNIFORM_INT_FILL, scaled_fills
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads count", doubles="start width", addresses="twister half_pair Y scratch")
"""Where numbers begin and how far they reach: the lowest one and how many, or a mean and a standard deviation."""
FRACTION = 24
"""Bits of an output that make a number between 0 and 1."""
NEAR = 4
"""Units of float64 that a product may lie off the middle between two float32 numbers: more than it can be wrong by."""


def _prepared(kind: str, write: Callable[[Lines], None], Y: TensorSpec, start: float, width: float) -> BlockLaunch:
    drawn = {"twister": Drawn(), "half_pair": Drawn(half_pair=True)}
    words = BLOCK.words(threads=1, count=Y.size, start=start, width=width, **drawn)
    return BlockLaunch(SOURCES.compiled(f"random fill: {kind}", write), words, SCRATCH_BYTES)


def _uniform_fill(Y: TensorSpec, low: float, high: float) -> Launch:
    return _prepared("uniform", _uniform, Y, low, float(np.float32(np.float32(high) - np.float32(low))))


def _gaussian_fill(Y: TensorSpec, mean: float, std: float) -> Launch:
    return _prepared("gaussian", _gaussian, Y, mean, std)


@native(UNIFORM_FILL, accepts=lambda letter, spec: True)
def prepare_uniform_fill(op: OpView, Y: TensorSpec) -> Launch | Unsupported:
    """Compile UniformFill."""
    if op.has_input("low"):
        return Unsupported("a range that is an input is not compiled")
    return _uniform_fill(Y, op.min, op.max)


@native(UNIFORM_INT_FILL, accepts=lambda letter, spec: True)
def prepare_uniform_int_fill(op: OpView, Y: TensorSpec) -> Launch | Unsupported:
    """Compile UniformIntFill."""
    if op.has_input("low"):
        return Unsupported("a range that is an input is not compiled")
    return _prepared("integers", _integers, Y, op.min, op.max - op.min + 1)


@native(GAUSSIAN_FILL, accepts=lambda letter, spec: True)
def prepare_gaussian_fill(op: OpView, Y: TensorSpec) -> Launch | Unsupported:
    """Compile GaussianFill."""
    return _gaussian_fill(Y, op.mean, op.std)


@native(*scaled_fills.schemas, accepts=lambda letter, spec: True)
def prepare_scaled(op: OpView, Y: TensorSpec) -> Launch:
    """Compile a fill whose width follows from the shape."""
    row = scaled_fills.rows[op.type]
    s = row.scale(Y.shape)
    return _gaussian_fill(Y, 0.0, s) if row.gaussian else _uniform_fill(Y, -s, s)


# -- writing -----------------------------------------------------------------------------------------------------------


def _chunks(lines: Lines, twister: Twister, count: str, body: Callable[[str, str], None]) -> None:
    """Draw so many outputs; run `body(how many before, how many)` for those of each chunk."""
    chunks = lines.let(f"udiv i64 {lines.let(f'add i64 {count}, {CHUNK - 1}')}, {CHUNK}")

    def chunk(c: str) -> None:
        done = lines.let(f"mul i64 {c}, {CHUNK}")
        here = lines.least(lines.let(f"sub i64 {count}, {done}"), CHUNK)
        twister.draw(here)
        body(done, here)

    count_loop(lines, "0", chunks, chunk)
    twister.end()


def _twister(lines: Lines) -> Twister:
    at = BLOCK.read(lines)
    return Twister.at(lines, at.twister, at.scratch)


def _words(v: Vector, twister: Twister, i: str) -> str:
    """Return outputs i, i + 1 ..."""
    return v.lines.let(f"load {v.integer}, ptr {element(v.lines, twister.outputs, i, 'i32')}, align 4")


def _each(lines: Lines, number: Callable[[Vector, str], str]) -> None:
    """Fill Y with what `number` makes of one output each."""
    v, twister, w = lanes_of(lines), _twister(lines), BLOCK.load(lines)

    def chunk(done: str, here: str) -> None:
        y = element(lines, w.Y, done)

        def body(i: str, mask: str | None) -> None:
            v.store(number(v, _words(v, twister, i)), y, i, mask)

        each_vector(v, "0", here, body)

    _chunks(lines, twister, w.count, chunk)


def _uniform(lines: Lines) -> None:
    """24 bits of an output / 2^24 * (high - low) + low."""
    at = BLOCK.read(lines)
    low, width = map(lanes_of(lines).of_double, (at.start, at.width))

    def number(v: Vector, words: str) -> str:
        whole = v.lines.let(f"sitofp {v.integer} {v.int_op('and', words, v.whole((1 << FRACTION) - 1))} to {v.type}")
        return v.add(v.mul(v.mul(whole, v.constant(2.0**-FRACTION)), width), low)

    _each(lines, number)


def _integers(lines: Lines) -> None:
    """Low + output mod span; the quotient in float64 is at most one off."""
    wide, at = Vector(lines, lanes_of(lines).count, DataType.DOUBLE), BLOCK.read(lines)
    low, span = wide.of_double(at.start), wide.of_double(at.width)
    inverse = wide.div(wide.constant(1.0), span)

    def number(v: Vector, words: str) -> str:
        output = lines.let(f"uitofp {v.integer} {words} to {wide.type}")
        quotient = wide.intrinsic("floor", wide.mul(output, inverse))
        rest = wide.sub(output, wide.mul(quotient, span))
        rest = wide.select(wide.compare("olt", rest, wide.constant(0.0)), wide.add(rest, span), rest)
        rest = wide.select(wide.compare("oge", rest, span), wide.sub(rest, span), rest)
        return v.of_bits(lines.let(f"fptosi {wide.type} {wide.add(rest, low)} to {v.integer}"))

    _each(lines, number)


def _gaussian(lines: Lines) -> None:
    """The half pair that was kept, then pairs; the second half of a last one that nobody wants is kept."""
    v, twister, w = lanes_of(lines), _twister(lines), BLOCK.load(lines)
    mean, std = v.of_double(w.start), v.of_double(w.width)
    there = lines.let(f"sext i32 {lines.let(f'load i32, ptr {w.half_pair}')} to i64")
    used = lines.least(there, w.count)
    half = element(lines, w.half_pair, "1")

    def scaled(z: str) -> str:
        return v.add(v.mul(z, std), mean)

    def take() -> None:
        z = v.splat(lines.let(f"load float, ptr {half}"))
        v.store(scaled(z), w.Y, "0", lanes_below(v, "1"))
        lines.do(f"store i32 0, ptr {w.half_pair}")

    when(lines, lines.let(f"icmp sgt i64 {used}, 0"), take)
    rest = lines.let(f"sub i64 {w.count}, {used}")
    odd = lines.let(f"and i64 {rest}, 1")
    Y_at = element(lines, w.Y, used)

    def chunk(done: str, here: str) -> None:
        y = element(lines, Y_at, done)
        left = lines.let(f"sub i64 {rest}, {done}")
        wanted = lines.least(left, here)

        def body(i: str, mask: str | None) -> None:
            z = _pairs(v, _words(v, twister, i))
            v.store(z, twister.outputs, i, None)
            v.store(scaled(z), y, i, mask)

        each_vector(v, "0", wanted, body)
        more = lines.let(f"icmp slt i64 {wanted}, {here}")

        def keep() -> None:
            value = lines.let(f"load float, ptr {element(lines, twister.outputs, wanted)}")
            lines.do(f"store float {value}, ptr {half}")
            lines.do(f"store i32 1, ptr {w.half_pair}")

        when(lines, more, keep)

    _chunks(lines, twister, lines.let(f"add i64 {rest}, {odd}"), chunk)


def _pairs(v: Vector, words: str) -> str:
    """Return the normal numbers of a vector of outputs: r cos(a), r sin(a) of each two of them."""
    lines, count = v.lines, v.count // 2
    wide = Vector(lines, count, DataType.DOUBLE)
    whole = v.int_op("and", words, v.whole((1 << FRACTION) - 1))

    def every_other(start: int) -> str:
        half = lines.shuffle(v.integer, range(start, v.count, 2), whole)
        return lines.let(f"sitofp <{count} x i32> {half} to {wide.type}")

    def rounded(value: str) -> str:
        short = lines.let(f"fptrunc {wide.type} {value} to <{count} x float>")
        return lines.let(f"fpext <{count} x float> {short} to {wide.type}")

    turn = float(np.float32(2 * math.pi)) * 2.0**-FRACTION
    left = wide.mul(wide.sub(wide.constant(2.0**FRACTION), every_other(1)), wide.constant(2.0**-FRACTION))
    radius = rounded(wide.intrinsic("sqrt", wide.mul(wide.constant(-2.0), double.log(wide, left))))
    angle = rounded(wide.mul(every_other(0), wide.constant(turn)))
    sine, cosine = double.sine_cosine(wide, angle)
    halves = [
        lines.let(f"fptrunc {wide.type} {_sure(wide, radius, value, name, angle)} to <{count} x float>")
        for name, value in (("cos", cosine), ("sin", sine))
    ]
    return lines.shuffle(f"<{count} x float>", [one for k in range(count) for one in (k, count + k)], *halves)


def _sure(v: Vector, radius: str, value: str, name: str, angle: str) -> str:
    """Return radius * value; where float32 could round it either way, with the value of libm's function."""
    product = v.mul(radius, value)
    beyond = v.int_op("add", v.bits_of(product), v.whole(NEAR - (1 << 28)))
    off = v.int_op("and", beyond, v.whole((1 << 29) - 1))
    unsure = v.lines.let(f"icmp ule {v.integer} {off}, {v.whole(2 * NEAR)}")
    return v.rarely(unsure, product, lambda: v.mul(radius, v.each(name, angle)))
