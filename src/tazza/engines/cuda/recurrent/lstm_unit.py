"""LSTMUnit and its gradient: a thread for each unit of each sequence.

The number of the step lies on the host, and stands in the block when the kernel is launched; lengths lie on the device.
"""

from __future__ import annotations

from collections.abc import Mapping

from tazza.codegen.block import Slot, Word, float_word
from tazza.codegen.function import Emission
from tazza.codegen.loop import when
from tazza.codegen.term import Term
from tazza.data_class import dataclass
from tazza.engines.cuda.launch import Held
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.engines.cuda.translated import addresses, translated
from tazza.operator import Expression, Launch, OpSchema, OpView
from tazza.ops.recurrent.lstm_unit import LSTM_UNIT, LSTM_UNIT_GRADIENT
from tazza.tensor import TensorSpec

OPEN = {"si": "sigmoid(i)", "sf": "sigmoid(f + bias)", "so": "sigmoid(o)", "tg": "tanh(g)", "T": "tanh(C)"}


@dataclass(frozen=True, slots=True)
class Unit:
    """What a unit is written from: formulas over letters, gates and `bias`, one after the other.

    Attributes:
        gates: in their order; the gradient of gate x is called dx.
        texts: name -> formula, which may hang on names before it.
        read, written: letters, with one number for each unit.
        kept: letter that is written -> the one that an ended sequence hands on as it is.
    """

    gates: tuple[str, ...]
    texts: Mapping[str, str]
    read: tuple[str, ...]
    written: tuple[str, ...]
    kept: Mapping[str, str]


FORWARD = Unit(
    ("i", "f", "o", "g"),
    {"C": "sigmoid(f + bias) * C_prev + sigmoid(i) * tanh(g)", "H": "sigmoid(o) * tanh(C)"},
    ("H_prev", "C_prev"),
    ("H", "C"),
    {"C": "C_prev", "H": "H_prev"},
)
BACKWARD = Unit(
    FORWARD.gates,
    {
        **OPEN,
        "e": "dC + dH * so * (1 - T * T)",
        "dC_prev": "e * sf",
        "dH_prev": "0",
        "di": "e * tg * si * (1 - si)",
        "df": "e * C_prev * sf * (1 - sf)",
        "do": "dH * T * so * (1 - so)",
        "dg": "e * si * (1 - tg * tg)",
    },
    ("C_prev", "C", "dH", "dC"),
    ("dH_prev", "dC_prev"),
    {"dC_prev": "dC", "dH_prev": "dH"},
)


def _write(t: Threads, k: Term, unit: Unit, *, ragged: bool, drop: bool) -> None:
    """Compute a unit, or hand its state on where its sequence has ended."""
    n, d = t.split(k, t.w.units)
    first = n * len(unit.gates) * t.w.units + d
    places = {gate: first + t.w.units * q for q, gate in enumerate(unit.gates)}
    slopes = places if "dgates" in t.fields else {}

    def within() -> None:
        values = {letter: t.load(letter, k) for letter in unit.read}
        values |= {gate: t.load("gates", place) for gate, place in places.items()}
        values["bias"] = t.real("bias").to("float")
        for name, text in unit.texts.items():
            values[name] = Emission(t.single, values).write(Expression.parse(text))
        for letter in unit.written:
            t.store(letter, k, values[letter])
        for gate, place in slopes.items():
            t.store("dgates", place, values[f"d{gate}"])

    def beyond() -> None:
        zero = t.single.constant(0.0)
        for letter in unit.written:
            t.store(letter, k, zero if drop else t.load(unit.kept[letter], k))
        for place in slopes.values():
            t.store("dgates", place, zero)

    if not ragged:
        within()
        return
    when(t.w.timestep < t.index("seq_lengths", n, 32), within, beyond)


def register_unit(schema: OpSchema, unit: Unit, module: str) -> None:
    """Register the kernel of an operator that computes a unit, as one of a module."""
    letter = "C_prev" if "C_prev" in unit.read else "H_prev"

    def prepare(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        state = specs[letter]
        ragged, drop = op.has_input("seq_lengths"), bool(op.drop_states)
        bias = float_word(op.forget_bias if "forget_bias" in op.schema.args else 0.0)
        words: dict[str, Word | Held] = {"units": max(1, state.shape[2]), "bias": bias}
        words |= {"timestep": Held(Slot("timestep"))} | addresses(*("seq_lengths",) * ragged)
        back = ("dgates",) * op.has_output("dgates")
        words |= addresses(*dict.fromkeys(("gates", *unit.read, *unit.written, *back)))

        def write(t: Threads, k: Term) -> None:
            _write(t, k, unit, ragged=ragged, drop=drop)

        return each_launch(f"{op.type} {ragged} {drop}", state.size, words, write)

    prepare.__module__ = module
    translated(schema, float32={letter})(prepare)


register_unit(LSTM_UNIT, FORWARD, __name__)
register_unit(LSTM_UNIT_GRADIENT, BACKWARD, __name__)
