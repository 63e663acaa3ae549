"""LSTMUnit and its gradient: a thread for each unit of each sequence.

The number of the step lies on the host, and stands in the block when the kernel is launched; lengths lie on the device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from tazza.codegen.block import Slot, Word, accepts_rows_but, float_word
from tazza.codegen.rows import when
from tazza.codegen.vector import Emission
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.launch import Held
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.operator import Expression, Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.recurrent.lstm_unit import LSTM_UNIT, LSTM_UNIT_GRADIENT
from tazza.tensor import DataType, TensorSpec

GATES = ("i", "f", "o", "g")
FORWARD = {
    "C": "sigmoid(f + bias) * C_prev + sigmoid(i) * tanh(g)",
    "H": "sigmoid(o) * tanh(C)",
}
OPEN = {"si": "sigmoid(i)", "sf": "sigmoid(f + bias)", "so": "sigmoid(o)", "tg": "tanh(g)", "T": "tanh(C)"}
BACKWARD = {
    **OPEN,
    "e": "dC + dH * so * (1 - T * T)",
    "dC_prev": "e * sf",
    "dH_prev": "0",
    "di": "e * tg * si * (1 - si)",
    "df": "e * C_prev * sf * (1 - sf)",
    "do": "dH * T * so * (1 - so)",
    "dg": "e * si * (1 - tg * tg)",
}
KEPT = {"C": "C_prev", "H": "H_prev", "dC_prev": "dC", "dH_prev": "dH"}
"""What an ended sequence hands on as it is."""


def _computed(t: Threads, texts: Mapping[str, str], values: dict[str, str]) -> dict[str, str]:
    for name, text in texts.items():
        values[name] = Emission(t.single, values).write(Expression.parse(text))
    return values


def _write(
    t: Threads,
    k: str,
    texts: Mapping[str, str],
    read: Sequence[str],
    written: Sequence[str],
    *,
    ragged: bool,
    drop: bool,
) -> None:
    """Compute a unit, or hand its state on where its sequence has ended."""
    n, d = t.split(k, t.word("units"))
    first = t.add(t.mul(t.mul(n, 4), t.word("units")), d)
    places = [t.add(first, t.mul(t.word("units"), q)) for q in range(len(GATES))]

    def within() -> None:
        values = {letter: t.load(letter, k) for letter in read}
        values |= {gate: t.load("gates", place) for gate, place in zip(GATES, places, strict=True)}
        bias = t.lines.let(f"fptrunc {t.wide.type} {t.real('bias')} to {t.single.type}")
        found = _computed(t, texts, {**values, "bias": bias})
        for letter in written:
            t.store(letter, k, found[letter])
        if "dgates" in t.names:
            for gate, place in zip(GATES, places, strict=True):
                t.store("dgates", place, found[f"d{gate}"])

    def beyond() -> None:
        zero = t.single.constant(0.0)
        for letter in written:
            t.store(letter, k, zero if drop else t.load(KEPT[letter], k))
        if "dgates" in t.names:
            for place in places:
                t.store("dgates", place, zero)

    if not ragged:
        within()
        return
    when(t.lines, t.compare("slt", t.word("timestep"), t.index("seq_lengths", n, 32)), within, beyond)


def unit_launch(
    op: OpView, inputs: Sequence[Spec], texts: Mapping[str, str], read: Sequence[str], written: Sequence[str]
) -> Launch | Unsupported:
    """Return the launch of a unit that reads and writes these letters beside its gates."""
    specs = dict(zip(op.input_letters, cast("Sequence[TensorSpec]", inputs), strict=True))
    state = specs["C_prev"]
    if state.dtype is not DataType.FLOAT:
        return Unsupported(f"it computes in float32, not {state.dtype.label}")
    ragged, drop = op.has_input("seq_lengths"), bool(op.drop_states)
    words: dict[str, Word | Held] = {"units": max(1, state.shape[2]), "bias": float_word(op.forget_bias)}
    words |= {"timestep": Held(Slot("timestep"))} | ({"seq_lengths": Slot("seq_lengths")} if ragged else {})
    back = ("dgates",) if op.has_output("dgates") else ()
    words |= {letter: Slot(letter) for letter in dict.fromkeys(("gates", *read, *written, *back))}

    def write(t: Threads, k: str) -> None:
        _write(t, k, texts, read, written, ragged=ragged, drop=drop)

    return each_launch(f"{op.type} {ragged} {drop}", state.size, words, write)


@launcher(LSTM_UNIT, engine=KIND, device=KIND, accepts=accepts_rows_but({"timestep"}))
def prepare_lstm_unit(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile LSTMUnit."""
    del context, outputs
    return unit_launch(op, inputs, FORWARD, ("H_prev", "C_prev"), ("H", "C"))


@launcher(LSTM_UNIT_GRADIENT, engine=KIND, device=KIND, accepts=accepts_rows_but({"timestep"}))
def prepare_lstm_unit_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile LSTMUnitGradient."""
    del context, outputs
    return unit_launch(op, inputs, BACKWARD, ("C_prev", "C", "dH", "dC"), ("dH_prev", "dC_prev"))
