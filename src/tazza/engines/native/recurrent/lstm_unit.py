"""LSTMUnit and its gradient, one sequence of the batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, all_float32
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.rows import ROWS, each_row, element, row_at, when
from tazza.codegen.vector import sigmoid, sigmoid_divisor, tanh, tanh_parts
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.recurrent.lstm_unit import FLOPS, LSTM_UNIT, LSTM_UNIT_GRADIENT
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

HEAD = Fields(doubles="forget_bias", addresses="timestep seq_lengths", after=ROWS)
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


def each_sequence(lines: Lines, ragged: bool, within: Callable[[str], None], beyond: Callable[[str], None]) -> None:
    """Run `within(n)` for sequences that this step belongs to, `beyond(n)` for those that have ended."""
    if not ragged:
        each_row(lines, within)
        return
    at = HEAD.read(lines)
    step, lengths = lines.let(f"load i32, ptr {at.timestep}"), at.seq_lengths

    def row(n: str) -> None:
        length = lines.let(f"load i32, ptr {element(lines, lengths, n, 'i32')}")
        on = lines.let(f"icmp slt i32 {step}, {length}")
        when(lines, on, lambda: within(n), lambda: beyond(n))

    each_row(lines, row)


class Gates:
    """The gates of one sequence: `kind(k)` is where those of one of so many kinds begin."""

    def __init__(self, v: Vector, pointer: str, n: str, units: str, kinds: int = 4) -> None:
        """Find the row."""
        lines = v.lines
        self._v, self._units = v, units
        self._row = row_at(lines, pointer, n, lines.let(f"mul i64 {units}, {kinds}"))

    def kind(self, k: int) -> str:
        """Return the address of those of kind k."""
        return self._v.lines.let(
            f"getelementptr float, ptr {self._row}, i64 {self._v.lines.let(f'mul i64 {self._units}, {k}')}"
        )


def cell(v: Vector, gates: Sequence[str], bias: str, c_prev: str) -> tuple[str, str]:
    """Return C and H of the four gates, before their functions, of a unit; `bias` is that of forgetting.

    With 1 / s for a sigmoid and t / u for a tanh, i * g = t / (s u): divisions take longer than all else.
    """
    c = v.fma(sigmoid(v, v.add(gates[1], bias)), c_prev, _passed(v, gates[0], gates[3]))  # C = f * C_prev + i * g
    return c, _passed(v, gates[2], c)


def _passed(v: Vector, gate: str, x: str) -> str:
    """Return sigmoid(gate) * tanh(x)."""
    t, u = tanh_parts(v, x)
    return v.div(t, v.mul(sigmoid_divisor(v, gate), u))


def _forward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, at = lanes_of(lines), BLOCK.read(lines)
    units, H_prev, C_prev, gates, H, C = at.D, at.H_prev, at.C_prev, at.gates, at.H, at.C
    bias = v.of_double(at.forget_bias)

    def within(n: str) -> None:
        c_prev, h, c = (row_at(lines, one, n, units) for one in (C_prev, H, C))
        four = Gates(v, gates, n, units)
        quarters = [four.kind(k) for k in range(4)]

        def unit(k: str, mask: str | None) -> None:
            gates_here = [v.load(one, k, mask) for one in quarters]
            new_c, new_h = cell(v, gates_here, bias, v.load(c_prev, k, mask))
            v.store(new_c, c, k, mask)
            v.store(new_h, h, k, mask)

        each_vector(v, "0", units, unit)

    def beyond(n: str) -> None:
        for source, target in ((C_prev, C), (H_prev, H)):
            keep(v, row_at(lines, source, n, units), row_at(lines, target, n, units), units, drop)

    each_sequence(lines, ragged, within, beyond)


def keep(v: Vector, source: str, target: str, count: str, drop: bool) -> None:
    """Copy elements, or write zeros."""

    def copy(k: str, mask: str | None) -> None:
        v.store(v.constant(0.0) if drop else v.load(source, k, mask), target, k, mask)

    each_vector(v, "0", count, copy)


def _backward(lines: Lines, *, ragged: bool, drop: bool) -> None:
    v, words = lanes_of(lines), GRADIENT_BLOCK.read(lines)
    units, gates, dgates, bias = words.D, words.gates, words.dgates, v.of_double(words.forget_bias)
    C_prev, C, dH, dC, dH_prev, dC_prev = words.C_prev, words.C, words.dH, words.dC, words.dH_prev, words.dC_prev

    def within(n: str) -> None:
        rows = (row_at(lines, one, n, units) for one in (C_prev, C, dH, dC, dH_prev, dC_prev))
        c_prev, c, dh, dc, dh_prev, dc_prev = rows
        four, slopes = Gates(v, gates, n, units), Gates(v, dgates, n, units)
        at = [four.kind(k) for k in range(4)]
        to = [slopes.kind(k) for k in range(4)]

        def unit(k: str, mask: str | None) -> None:
            i, o = sigmoid(v, v.load(at[0], k, mask)), sigmoid(v, v.load(at[2], k, mask))
            f = sigmoid(v, v.add(v.load(at[1], k, mask), bias))
            g, T = tanh(v, v.load(at[3], k, mask)), tanh(v, v.load(c, k, mask))
            slope = v.load(dh, k, mask)
            # e = dC + dH * o * (1 - T^2)
            e = v.fma(v.mul(slope, o), _less_square(v, T), v.load(dc, k, mask))
            v.store(v.mul(e, f), dc_prev, k, mask)
            v.store(v.constant(0.0), dh_prev, k, mask)
            quarters = (
                v.mul(v.mul(e, g), _bell(v, i)),
                v.mul(v.mul(e, v.load(c_prev, k, mask)), _bell(v, f)),
                v.mul(v.mul(slope, T), _bell(v, o)),
                v.mul(v.mul(e, i), _less_square(v, g)),
            )
            for quarter, pointer in zip(quarters, to, strict=True):
                v.store(quarter, pointer, k, mask)

        each_vector(v, "0", units, unit)

    def beyond(n: str) -> None:
        for source, target in ((dC, dC_prev), (dH, dH_prev)):
            keep(v, row_at(lines, source, n, units), row_at(lines, target, n, units), units, drop)
        four = lines.let(f"mul i64 {units}, 4")
        row = row_at(lines, dgates, n, four)
        keep(v, row, row, four, drop=True)

    each_sequence(lines, ragged, within, beyond)


def _bell(v: Vector, x: str) -> str:
    """Return x * (1 - x), the slope of a sigmoid of value x."""
    return v.mul(x, v.sub(v.constant(1.0), x))


def _less_square(v: Vector, x: str) -> str:
    """Return 1 - x * x, the slope of a tanh of value x."""
    return v.sub(v.constant(1.0), v.mul(x, x))
