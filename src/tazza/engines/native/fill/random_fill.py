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
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, each_vector, lanes_below, lanes_of, when
from tazza.codegen.term import Lines, Term
from tazza.codegen.twister import CHUNK, SCRATCH_BYTES, Twister
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.fill.random_fill import GAUSSIAN_FILL, UNIFORM_FILL, UNIFORM_INT_FILL, scaled_fills
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads count", doubles="start width", addresses="twister half_pair Y scratch")
"""Where numbers begin and how far they reach: the lowest one and how many, or a mean and a standard deviation."""
FRACTION = 24
"""Bits of an output that make a number between 0 and 1."""
LOW_BITS = (1 << FRACTION) - 1
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
def prepare_uniform_fill(op: OpView, Y: TensorSpec) -> Launch:
    """Compile UniformFill."""
    if op.has_input("low"):
        raise Unsupported("a range that is an input is not compiled")
    return _uniform_fill(Y, op.min, op.max)


@native(UNIFORM_INT_FILL, accepts=lambda letter, spec: True)
def prepare_uniform_int_fill(op: OpView, Y: TensorSpec) -> Launch:
    """Compile UniformIntFill."""
    if op.has_input("low"):
        raise Unsupported("a range that is an input is not compiled")
    return _prepared("integers", _integers, Y, op.min, op.max - op.min + 1)


@native(GAUSSIAN_FILL, accepts=lambda letter, spec: True)
def prepare_gaussian_fill(op: OpView, Y: TensorSpec) -> Launch:
    """Compile GaussianFill."""
    return _gaussian_fill(Y, op.mean, op.std)


@native(*scaled_fills.schemas, accepts=lambda letter, spec: True)
def prepare_scaled(op: OpView, Y: TensorSpec) -> Launch:
    """Compile a fill whose width follows from the shape."""
    row = scaled_fills.rows[op.type]
    s = row.scale(Y.shape)
    return _gaussian_fill(Y, 0.0, s) if row.gaussian else _uniform_fill(Y, -s, s)


# -- writing -----------------------------------------------------------------------------------------------------------


def _chunks(twister: Twister, count: Term, body: Callable[[Term, Term], None]) -> None:
    """Draw so many outputs; run `body(how many before, how many)` for those of each chunk."""

    def chunk(c: Term) -> None:
        done = c * CHUNK
        here = (count - done).at_most(CHUNK)
        twister.draw(here)
        body(done, here)

    count_loop(count.lines, 0, count.pieces(CHUNK), chunk)
    twister.end()


def _twister(lines: Lines) -> Twister:
    at = BLOCK.lazily(lines)
    return Twister.at(lines, at.twister, at.scratch)


def _words(v: Vector, twister: Twister, i: Term) -> Term:
    """Return outputs i, i + 1 ..."""
    return twister.outputs.at(i).of(v.integer).load(4)


def _each(lines: Lines, number: Callable[[Term], Term]) -> None:
    """Fill Y with what `number` makes of one output each."""
    v, twister, w = lanes_of(lines), _twister(lines), BLOCK.loaded(lines)

    def chunk(done: Term, here: Term) -> None:
        y = w.Y.at(done)
        each_vector(v, 0, here, lambda i, mask: v.store(number(_words(v, twister, i)), y, i, mask))

    _chunks(twister, w.count, chunk)


def _uniform(lines: Lines) -> None:
    """24 bits of an output / 2^24 * (high - low) + low."""
    at = BLOCK.lazily(lines)
    low, width = map(lanes_of(lines).full, (at.start, at.width))
    _each(lines, lambda words: (words & LOW_BITS).to("float") * 2.0**-FRACTION * width + low)


def _integers(lines: Lines) -> None:
    """Low + output mod span; the quotient in float64 is at most one off."""
    wide, at = Vector(lines, lanes_of(lines).count, DataType.DOUBLE), BLOCK.lazily(lines)
    low, span = wide.full(at.start), wide.full(at.width)
    inverse = 1.0 / span

    def number(words: Term) -> Term:
        output = words.to_unsigned("double")
        rest = output - (output * inverse).intrinsic("floor") * span
        rest = (rest < 0.0).choose(rest + span, rest)
        return ((rest >= span).choose(rest - span, rest) + low).to("i32").as_floats()

    _each(lines, number)


def _gaussian(lines: Lines) -> None:
    """The half pair that was kept, then pairs; the second half of a last one that nobody wants is kept."""
    v, twister, w = lanes_of(lines), _twister(lines), BLOCK.loaded(lines)
    mean, std = v.full(w.start), v.full(w.width)
    there = w.half_pair.of("i32")
    used = there.load().to("i64").at_most(w.count)
    half = w.half_pair.at(1)

    def scaled(z: Term) -> Term:
        return z * std + mean

    def take() -> None:
        v.store(scaled(v.full(half.load())), w.Y, 0, lanes_below(v, lines.number(1)))
        there.store(0)

    when(used > 0, take)
    rest = w.count - used
    odd = rest & 1
    Y_at = w.Y.at(used)

    def chunk(done: Term, here: Term) -> None:
        y = Y_at.at(done)
        wanted = (rest - done).at_most(here)

        def body(i: Term, mask: Term | None) -> None:
            z = _pairs(v, _words(v, twister, i))
            v.store(z, twister.outputs, i, None)
            v.store(scaled(z), y, i, mask)

        def keep() -> None:
            half.store(twister.outputs.of("float")[wanted])
            there.store(1)

        each_vector(v, 0, wanted, body)
        when(wanted < here, keep)

    _chunks(twister, rest + odd, chunk)


def _pairs(v: Vector, words: Term) -> Term:
    """Return the normal numbers of a vector of outputs: r cos(a), r sin(a) of each two of them."""
    count = v.count // 2
    whole = words & LOW_BITS

    def every_other(start: int) -> Term:
        return whole.shuffle(range(start, v.count, 2)).to("double")

    def rounded(value: Term) -> Term:
        return value.to("float").to("double")

    turn = float(np.float32(2 * math.pi)) * 2.0**-FRACTION
    left = (2.0**FRACTION - every_other(1)) * 2.0**-FRACTION
    radius = rounded((-2.0 * double.log(left)).intrinsic("sqrt"))
    angle = rounded(every_other(0) * turn)
    sine, cosine = double.sine_cosine(angle)
    cosines, sines = (_sure(radius, value, name, angle).to("float") for name, value in (("cos", cosine), ("sin", sine)))
    return cosines.shuffle([one for k in range(count) for one in (k, count + k)], sines)


def _sure(radius: Term, value: Term, name: str, angle: Term) -> Term:
    """Return radius * value; where float32 could round it either way, with the value of libm's function."""
    product = radius * value
    off = (product.as_bits() + (NEAR - (1 << 28))) & ((1 << 29) - 1)
    return off.compare("ule", 2 * NEAR).rarely(lambda: radius * angle.each(name), product)
