"""LSTMUnit, GRUUnit and their gradients, one sequence of the batch after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission, sigmoid, sigmoid_divisor, tanh_parts
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import each_vector, lanes_of, when
from tazza.codegen.rows import ROWS, each_row
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Expression, Launch, OpSchema, OpView
from tazza.ops.recurrent.gru_unit import GRU_UNITS
from tazza.ops.recurrent.lstm_unit import FLOPS, GATES, LSTM_UNIT, LSTM_UNITS
from tazza.ops.recurrent.step_unit import Unit
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

HEAD = Fields(doubles="bias", addresses="timestep:i32 seq_lengths:i32 gates", after=ROWS)
"""N sequences of D units; the address of `seq_lengths` is 0 where there are none."""


def register_unit(schema: OpSchema, unit: Unit) -> None:
    """Register the kernel of an operator that computes a unit."""
    slopes = ("dgates",) if "dgates" in schema.outputs_by_letter else ()
    block = Fields(addresses=" ".join((*unit.read, *unit.written, *slopes)), after=HEAD)

    @native(schema, float32={unit.read[-1]})
    def prepare(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        state, ragged, drop = specs[unit.read[-1]], op.has_input("seq_lengths"), bool(op.drop_states)
        _, rows, units = state.shape
        threads = threads_for(min(thread_count(), max(rows, 1)), state.size, FLOPS, 32)
        lengths = Slot("seq_lengths") if ragged else 0
        write = partial(_write, unit=unit, block=block, ragged=ragged, drop=drop, by_hand=schema is LSTM_UNIT)
        address = SOURCES.compiled(f"{unit}, {ragged=}, {drop=}", write)
        words = block.words(threads=threads, N=rows, D=units, bias=op.forget_bias, seq_lengths=lengths)
        return BlockLaunch(address, words)


def _write(lines: Lines, *, unit: Unit, block: Fields, ragged: bool, drop: bool, by_hand: bool) -> None:
    """Compute the units of sequences, or hand their states on."""
    v, at = lanes_of(lines), block.loaded(lines)
    bias = v.full(at.bias)

    def places(n: Term, letters: Sequence[str], gates: str, name: str) -> dict[str, Term]:
        found = {letter: at[letter].at(n * at.D) for letter in letters}
        if gates in block:
            row = at[gates].at(n * (at.D * len(unit.gates)))
            found |= {name.format(gate): row.at(at.D * q) for q, gate in enumerate(unit.gates)}
        return found

    def written(n: Term) -> dict[str, Term]:
        return places(n, unit.written, "dgates", "d{}")

    def within(n: Term) -> None:
        sources, targets = places(n, unit.read, "gates", "{}"), written(n)

        def some(k: Term, mask: Term | None) -> None:
            values = {name: v.load(source, k, mask) for name, source in sources.items()} | {"bias": bias}
            values = _cell_of(values) if by_hand else _computed(v, unit, values)
            for name, target in targets.items():
                v.store(values[name], target, k, mask)

        each_vector(v, 0, at.D, some)

    def beyond(n: Term) -> None:
        for name, target in written(n).items():
            _keep(v, at[unit.kept[name]].at(n * at.D) if name in unit.kept and not drop else None, target, at.D)

    _each_sequence(lines, ragged, within, beyond)


def _each_sequence(lines: Lines, ragged: bool, within: Callable[[Term], None], beyond: Callable[[Term], None]) -> None:
    """Run `within(n)` for sequences that this step belongs to, `beyond(n)` for those that have ended."""
    if not ragged:
        each_row(lines, within)
        return
    at = HEAD.lazily(lines)
    step, lengths = at.timestep.load(), at.seq_lengths
    each_row(lines, lambda n: when(step < lengths[n], partial(within, n), partial(beyond, n)))


def _computed(v: Vector, unit: Unit, values: Mapping[str, Term]) -> dict[str, Term]:
    found = {**values}
    for name, text in unit.texts.items():
        found[name] = Emission(v, found).write(Expression.parse(text))
    return found


def _keep(v: Vector, source: Term | None, target: Term, count: Term) -> None:
    """Copy elements, or write zeros."""

    def copy(k: Term, mask: Term | None) -> None:
        v.store(v.constant(0.0) if source is None else v.load(source, k, mask), target, k, mask)

    each_vector(v, 0, count, copy)


def _cell_of(values: Mapping[str, Term]) -> dict[str, Term]:
    """Return what an LSTM's unit writes: by hand, since the texts take an eighth longer."""
    C, H = cell([values[gate] for gate in GATES], values["bias"], values["C_prev"])
    return {"C": C, "H": H}


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


for _schema, _unit in (*LSTM_UNITS, *GRU_UNITS):
    register_unit(_schema, _unit)
