"""Segments of rows, rows that indices pick, and updates of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Array, Hand, Shape, Sketch, draws


def lengths_of(hand: Hand, rows: int, segments: int | None = None) -> Array:
    """Return lengths of segments, empty ones among them, that add up to a number of rows."""
    count = (hand.integer(1, 6) if rows else hand.integer(0, 2)) if segments is None else segments
    borders = np.sort(hand.rng.integers(0, rows, max(count - 1, 0), endpoint=True))
    return np.diff(borders, prepend=0, append=rows)[:count].astype(np.int32)


def picked(hand: Hand, rows: int, count: int) -> Array:
    """Return indices of some of the rows, equal ones among them."""
    return hand.rng.integers(0, max(rows, 1), count if rows else 0).astype(hand.pick((np.int32, np.int64)))


@draws("LengthsSum")
def lengths(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    DATA = hand.shape("DATA", 1, 4)
    return Sketch({}, {"DATA": DATA}, {"LENGTHS": lengths_of(hand, DATA[0])})


@draws("SparseLengthsSum")
def sparse_lengths(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    DATA = hand.shape("DATA", 1, 4)
    indices = picked(hand, DATA[0], hand.integer(0, 12))
    return Sketch({}, {"DATA": DATA}, {"INDICES": indices, "LENGTHS": lengths_of(hand, indices.size)})


@draws("LengthsSumGradient", "SparseLengthsSumGradient")
def bare_gradient(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    dY: Shape = hand.shape("dY", 1, 4)
    return Sketch({}, {"dY": dY}, {"LENGTHS": lengths_of(hand, hand.integer(0, 9) if dY[0] else 0, dY[0])})


def rows_of(hand: Hand, letter: str) -> tuple[Shape, Array, dict[str, Any]]:
    """Return the shape of a table, indices of some of its rows, and their gradient's shape."""
    table = hand.shape(letter, 1, 3)
    indices = picked(hand, table[0], hand.integer(0, 7))
    return table, indices, {"dW": (indices.size, *table[1:])}


@draws("SparseAdagrad", "SparseMomentumSGDUpdate", "SparseAdam")
def update_of_rows(hand: Hand, schema: OpSchema) -> Sketch:
    table, indices, shapes = rows_of(hand, "W")
    found = hand.some({"momentum": hand.real(0, 1), "epsilon": 0.1}, 0.7)
    values: dict[str, Any] = {"indices": indices, "M": hand.rng.uniform(0.01, 2.0, table).astype(np.float32)}
    if "V" in schema.inputs_by_letter:
        values |= {"V": values["M"] + 1, "iter": np.array([hand.integer(0, 200)])}
    known = {name: value for name, value in found.items() if name in schema.args}
    return Sketch(known, {**shapes, "W": table, "lr": (1,)}, values)


@draws("Adagrad")
def adagrad(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    shape = hand.given.get("W", hand.dims())
    found = hand.some({"epsilon": 0.1, "decay": hand.real(0.5, 1), "weight_decay": hand.real(0, 0.5)})
    values: dict[str, Any] = {"M": hand.rng.uniform(0.01, 2.0, shape).astype(np.float32)}
    return Sketch(found, {"W": shape, "dW": shape, "lr": (1,)}, values, hand.integer(2, 4))
