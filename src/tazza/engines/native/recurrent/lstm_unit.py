"""LSTMUnit and its gradient, one sequence of the batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.function import sigmoid, sigmoid_divisor, tanh, tanh_parts
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import each_vector, lanes_of, when
from tazza.codegen.rows import ROWS, each_row
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.recurrent.lstm_unit import FLOPS, LSTM_UNIT, LSTM_UNIT_GRADIENT
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

HEAD = Fields(doubles="forget_bias", addresses="timestep:i32 seq_lengths:i32", after=ROWS)
"""N sequences of D units; the address of `seq_lengths` is 0 where there are none."""
BLOCK = Fields(addresses="H_prev C_prev gates H C", after=HEAD)
GRADIENT_BLOCK = Fields(addresses="C_prev gates C dH dC dH_prev dC_prev dgates", after=HEAD)


def unit_launch(op: OpView, inputs: Sequence[Spec], block: Fields, code: Callable[..., None]) -> Launch | Unsupported:
    """Return the launch of a unit; its block begins with HEAD."""
    by_letter = dict(zip(op.input_letters, inputs, strict=True))
    state = cast("TensorSpec", by_letter["H_prev"])
    if not all_float32(state):
        return Unsupported(f"it computes in float32, not {state}")
    ragged, drop = op.has_input("seq_lengths"), bool(op.drop_states)
    _, rows, units = state.shape
    threads = threads_for(min(thread_count(), max(rows, 1)), state.size, FLOPS, 32)
    bias = op.forget_bias if "forget_bias" in op.schema.args else 0.0
    lengths = Slot("seq_lengths") if ragged else 0
    address = SOURCES.compiled(f"{op.type}, {ragged=}, {drop=}", lambda lines: code(lines, ragged=ragged, drop=drop))
    return BlockLaunch(address, block.words(threads=threads, N=rows, D=units, forget_bias=bias, seq_lengths=lengths))


@launcher(LSTM_UNIT, engine="native", accepts=accepts_rows)
def prepare_lstm_unit(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile LSTMUnit."""
    del context, outputs
    return unit_launch(op, inputs, BLOCK, _forward)


@launcher(LSTM_UNIT_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_lstm_unit_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile LSTMUnitGradient."""
    del context, outputs
    return unit_launch(op, inputs, GRADIENT_BLOCK, _backward)


def each_sequence(lines: Lines, ragged: bool, within: Callable[[Term], None], beyond: Callable[[Term], None]) -> None:
    """Run `within(n)` for sequences that this step belongs to, `beyond(n)` for those that have ended."""
    if not ragged:
        each_row(lines, within)
        return
    at = HEAD.lazily(lines)
    step, lengths = at.timestep.load(), at.seq_lengths
    each_row(lines, lambda n: when(step < lengths[n], partial(within, n), partial(beyond, n)))


def cell(gates: Sequence[Term], bias: Term, c_prev: Term) -> tuple[Term, Term]:
    """Return C and H of the four gates, before their functions, of a unit; `bias` is that of forgetting.

    With 1 / s for a sigmoid and t / u for a tanh, i * g = t / (s u): divisions take longer than all else.
    """
    c = sigmoid(gates[1] + bias).fma(c_prev, _passed(gates[0], gates[3]))  # C = f * C_prev + i * g
    return c, _passed(gates[2], c)


def _passed(gate: Term, x: Term) -> Term:
    """Return sigmoid(gate) * tanh(x)."""
    t, u = tanh_parts(x)
    return t / (sigmoid_divisor(gate) * u)


def _forward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, at = lanes_of(lines), BLOCK.lazily(lines)
    units, H_prev, C_prev, gates, H, C = at.D, at.H_prev, at.C_prev, at.gates, at.H, at.C
    bias = v.full(at.forget_bias)

    def within(n: Term) -> None:
        c_prev, h, c = (one.at(n * units) for one in (C_prev, H, C))
        row = gates.at(n * (units * 4))
        quarters = [row.at(units * k) for k in range(4)]

        def unit(k: Term, mask: Term | None) -> None:
            four = [v.load(one, k, mask) for one in quarters]
            new_c, new_h = cell(four, bias, v.load(c_prev, k, mask))
            v.store(new_c, c, k, mask)
            v.store(new_h, h, k, mask)

        each_vector(v, 0, units, unit)

    def beyond(n: Term) -> None:
        for source, target in ((C_prev, C), (H_prev, H)):
            keep(v, source.at(n * units), target.at(n * units), units, drop)

    each_sequence(lines, ragged, within, beyond)


def keep(v: Vector, source: Term, target: Term, count: Term, drop: bool) -> None:
    """Copy elements, or write zeros."""

    def copy(k: Term, mask: Term | None) -> None:
        v.store(v.constant(0.0) if drop else v.load(source, k, mask), target, k, mask)

    each_vector(v, 0, count, copy)


def _backward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, words = lanes_of(lines), GRADIENT_BLOCK.lazily(lines)
    units, gates, dgates, bias = words.D, words.gates, words.dgates, v.full(words.forget_bias)
    C_prev, C, dH, dC, dH_prev, dC_prev = words.C_prev, words.C, words.dH, words.dC, words.dH_prev, words.dC_prev

    def within(n: Term) -> None:
        c_prev, c, dh, dc, dh_prev, dc_prev = (one.at(n * units) for one in (C_prev, C, dH, dC, dH_prev, dC_prev))
        rows = gates.at(n * (units * 4)), dgates.at(n * (units * 4))
        at, to = ([row.at(units * k) for k in range(4)] for row in rows)

        def unit(k: Term, mask: Term | None) -> None:
            i, o = sigmoid(v.load(at[0], k, mask)), sigmoid(v.load(at[2], k, mask))
            f = sigmoid(v.load(at[1], k, mask) + bias)
            g, T = tanh(v.load(at[3], k, mask)), tanh(v.load(c, k, mask))
            slope = v.load(dh, k, mask)
            # e = dC + dH * o * (1 - T^2)
            e = (slope * o).fma(_less_square(T), v.load(dc, k, mask))
            v.store(e * f, dc_prev, k, mask)
            v.store(v.constant(0.0), dh_prev, k, mask)
            quarters = (
                e * g * _bell(i),
                e * v.load(c_prev, k, mask) * _bell(f),
                slope * T * _bell(o),
                e * i * _less_square(g),
            )
            for quarter, pointer in zip(quarters, to, strict=True):
                v.store(quarter, pointer, k, mask)

        each_vector(v, 0, units, unit)

    def beyond(n: Term) -> None:
        for source, target in ((dC, dC_prev), (dH, dH_prev)):
            keep(v, source.at(n * units), target.at(n * units), units, drop)
        width = units * 4
        row = dgates.at(n * width)
        keep(v, row, row, width, drop=True)

    each_sequence(lines, ragged, within, beyond)


def _bell(x: Term) -> Term:
    """Return x * (1 - x), the slope of a sigmoid of value x."""
    return x * (1.0 - x)


def _less_square(x: Term) -> Term:
    """Return 1 - x * x, the slope of a tanh of value x."""
    return 1.0 - x * x
