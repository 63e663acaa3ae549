"""LSTMUnit, GRUUnit and their gradients: a thread for each unit of each sequence.

The number of the step lies on the host, and stands in the block when the kernel is launched; lengths lie on the device.
"""

from __future__ import annotations

from collections.abc import Mapping

from tazza.codegen.block import Slot, Word, float_word
from tazza.codegen.function import Emission
from tazza.codegen.loop import when
from tazza.codegen.term import Term
from tazza.engines.cuda.launch import Held
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Expression, Launch, OpSchema, OpView
from tazza.ops.recurrent.gru_unit import GRU_UNITS
from tazza.ops.recurrent.lstm_unit import LSTM_UNITS
from tazza.ops.recurrent.step_unit import Unit
from tazza.tensor import TensorSpec


def _write(t: Threads, k: Term, unit: Unit, *, ragged: bool, drop: bool) -> None:
    """Compute a unit, or hand its state on where its sequence has ended."""
    n, d = t.split(k, t.w.units)
    first = n * len(unit.gates) * t.w.units + d
    gates = {gate: first + t.w.units * q for q, gate in enumerate(unit.gates)}
    sources = {letter: (letter, k) for letter in unit.read} | {gate: ("gates", at) for gate, at in gates.items()}
    targets = {letter: (letter, k) for letter in unit.written}
    if "dgates" in t.fields:
        targets |= {f"d{gate}": ("dgates", at) for gate, at in gates.items()}

    def within() -> None:
        values = {name: t.load(*source) for name, source in sources.items()}
        values["bias"] = t.real("bias").to("float")
        for name, text in unit.texts.items():
            values[name] = Emission(t.single, values).write(Expression.parse(text))
        for name, target in targets.items():
            t.store(*target, values[name])

    def beyond() -> None:
        for name, target in targets.items():
            kept = name in unit.kept and not drop
            t.store(*target, t.load(unit.kept[name], k) if kept else t.single.constant(0.0))

    if not ragged:
        within()
        return
    when(t.w.timestep < t.index("seq_lengths", n, 32), within, beyond)


def register_unit(schema: OpSchema, unit: Unit) -> None:
    """Register the kernel of an operator that computes a unit."""

    @translated(schema, float32={unit.read[-1]})
    def prepare(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        state, ragged, drop = specs[unit.read[-1]], op.has_input("seq_lengths"), bool(op.drop_states)
        words: dict[str, Word | Held] = {"units": max(1, state.shape[2]), "bias": float_word(op.forget_bias)}
        words |= {"timestep": Held(Slot("timestep"))} | addresses(*("seq_lengths",) * ragged)
        words |= addresses("gates", *unit.read, *unit.written, *("dgates",) * op.has_output("dgates"))

        def write(t: Threads, k: Term) -> None:
            _write(t, k, unit, ragged=ragged, drop=drop)

        return each_launch(f"{unit} {ragged} {drop}", state.size, words, write)


for _schema, _unit in (*LSTM_UNITS, *GRU_UNITS):
    register_unit(_schema, _unit)
