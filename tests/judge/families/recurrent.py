"""Units of recurrent nets: one step of several sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema, OpView
from tests.check import evaluate
from tests.judge.condition import Factor, steps_of, wide
from tests.judge.families.segment import lengths_of
from tests.judge.hand import Array, Hand, Sketch, draws


def step_of(hand: Hand, N: int) -> dict[str, Array]:
    """Return lengths of N sequences and the number of a step: some of them are at their end already."""
    return {
        "seq_lengths": hand.rng.integers(0, 6, N).astype(np.int32),
        "timestep": np.array([hand.integer(0, 3)], np.int32),
    }


@draws("LSTMUnit", "GRUUnit", "GRUUnitGradient")
def unit(hand: Hand, schema: OpSchema) -> Sketch:
    """A step of N sequences."""
    N, D = hand.shape("H_prev", 2, 2) if "H_prev" not in hand.given else hand.given["H_prev"][1:]
    found: dict[str, Any] = hand.some({"forget_bias": hand.real(-1, 1), "drop_states": hand.integer(0, 1)})
    gates = 4 if "C_prev" in schema.inputs_by_letter else 3
    states = {letter: (1, N, D) for letter in ("H_prev", "C_prev", "H", "dH") if letter in schema.inputs_by_letter}
    return Sketch(found, {**states, "gates": (1, N, gates * D)}, step_of(hand, N))


@draws("FusedLSTMUnit")
def fused_unit(hand: Hand, schema: OpSchema) -> Sketch:
    """The product of a step, and its unit: of another inner size than the state has."""
    del schema
    _, N, K = hand.shape("X", 3, 3)
    D = hand.integer(1, 20)
    found: dict[str, Any] = hand.some({"forget_bias": hand.real(-1, 1), "drop_states": hand.integer(0, 1)})
    states = dict.fromkeys(("H_prev", "C_prev"), (1, N, D))
    shapes = {"X": (1, N, K), "W": (4 * D, K), "b": (4 * D,), "rows": (1, N, 4 * D), **states}
    return Sketch(found, shapes, step_of(hand, N))


@draws("InferenceLSTM")
def stack(hand: Hand, schema: OpSchema) -> Sketch:
    """Layers of one or two directions, with biases or without."""
    del schema
    T, B, F = hand.shape("X", 3, 3)
    H, L, D, biases = hand.integer(1, 4), hand.integer(1, 3), hand.integer(1, 2), hand.integer(0, 1)
    first = hand.integer(0, 1)
    found = {"num_layers": L, "has_biases": biases, "bidirectional": D - 1, "batch_first": first}
    parts = [[(4 * H, D * H if layer else F), (4 * H, H), *[(4 * H,)] * (2 * biases)] for layer in range(L)]
    every = [shape for layer in parts for _ in range(D) for shape in layer]
    states = (L * D, B, H)
    return Sketch(found, {"X": (B, T, F) if first else (T, B, F), "hidden": states, "cell": states, "W": every})


@draws("PackRNNSequence")
def packed(hand: Hand, schema: OpSchema) -> Sketch:
    """Lengths count all rows: of those that they leave out, the gradient has none."""
    del schema
    rows = hand.shape("rows", 2, 4)
    return Sketch({}, {"rows": rows}, {"lengths": lengths_of(hand, rows[0])})


@draws("UnpackRNNSequence")
def unpacked(hand: Hand, schema: OpSchema) -> Sketch:
    """Some sequence has all steps: of those behind the longest one, the gradient has none."""
    del schema
    T, N, *row = hand.shape("steps", 3, 5)
    lengths = hand.rng.integers(0, T, N, endpoint=True).astype(np.int32)
    lengths[:1] = T
    return Sketch({}, {"steps": (T if N else 0, N, *row)}, {"lengths": lengths})


@steps_of("LSTMUnitGradient")
def lstm_unit_gradient(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """The functions of the gates are rounded, of which one minus their squares is taken then."""
    plain = evaluate(op, [wide(x) for x in inputs])
    given = dict(zip(op.input_letters, (wide(x) for x in inputs), strict=True))

    def rounded(x: Array) -> Array:
        return x * factor(x.shape, 1.0)

    gates = np.split(given["gates"], 4, axis=2)
    i, f, o = (
        rounded(1 / (1 + np.exp(-(gate + bias)))) for gate, bias in zip(gates, (0, op.forget_bias, 0), strict=False)
    )
    g, c, dH = rounded(np.tanh(gates[3])), rounded(np.tanh(given["C"])), given["dH"]
    dC = given["dC"] + dH * o * rounded(1 - c * c)
    sides = (dC * g * i * rounded(1 - i), dC * given["C_prev"] * f * rounded(1 - f), dH * c * o * rounded(1 - o))
    found = {"dC_prev": dC * f, "dgates": np.concatenate([*sides, dC * i * rounded(1 - g * g)], axis=2)}
    runs = np.ones(dH.shape[1], bool)
    if "seq_lengths" in given:
        runs = given["timestep"].reshape(()) < given["seq_lengths"].reshape(-1)
    letters = op.output_letters
    return [np.where(runs[None, :, None], found.get(letter, y), y) for letter, y in zip(letters, plain, strict=True)]


@steps_of("GRUUnitGradient")
def gru_unit_gradient(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """As of LSTMUnitGradient: one minus what is rounded, and minus its square, are taken."""
    plain = evaluate(op, [wide(x) for x in inputs])
    given = dict(zip(op.input_letters, (wide(x) for x in inputs), strict=True))
    _, update, output = np.split(given["gates"], 3, axis=2)
    u, T = (y * factor(y.shape, 1.0) for y in (1 / (1 + np.exp(-update)), np.tanh(output)))
    dH = given["dH"]
    thirds = np.zeros_like(u), dH * (given["H_prev"] - T) * u * (1 - u), dH * (1 - u) * (1 - T * T)
    runs = np.array(True)
    if "seq_lengths" in given:
        runs = given["timestep"].reshape(()) < given["seq_lengths"].reshape(1, -1, 1)
    found = {"dH_prev": dH * u, "dgates": np.concatenate(thirds, axis=2)}
    return [np.where(runs, found[letter], y) for letter, y in zip(op.output_letters, plain, strict=True)]
