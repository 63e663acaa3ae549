"""Rows of tables in few bits, and what is looked up in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema, OpView, run_op
from tazza.ops.embedding.lookup import lookups
from tazza.ops.embedding.row_conversion import decodings, encodings
from tazza.ops.embedding.row_format import EIGHT, RowFormat
from tests.check import evaluate
from tests.judge.condition import Factor, steps_of, wide
from tests.judge.families.segment import lengths_of, picked
from tests.judge.hand import Array, Hand, Sketch, draws


def table(hand: Hand, format: RowFormat, rows: int) -> Array:
    """Return the bytes of rows whose numbers are around 0."""
    columns = format.in_byte * hand.integer(1, 5)
    return format.encode(hand.rng.standard_normal((rows, columns)).astype(np.float32))


@draws(*encodings)
def encoding(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw rows of whole codes with both bounds among them, so that none lies halfway between two."""
    row = encodings.rows[schema.type]
    X = hand.rng.integers(0, row.format.top + 1, (hand.integer(0, 5), row.format.in_byte * hand.integer(3, 9)))
    X[:, :2] = 0, row.format.top
    return Sketch({}, values={"X": X.astype(row.dtype.numpy)})


@draws(*decodings)
def decoding(hand: Hand, schema: OpSchema) -> Sketch:
    return Sketch({}, values={"X": table(hand, decodings.rows[schema.type].format, hand.integer(0, 5))})


@draws("GatherFused8BitRowwise")
def gathering(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    V = hand.integer(1, 6)
    return Sketch({}, values={"DATA": table(hand, EIGHT, V), "INDICES": picked(hand, V, hand.integer(0, 7))})


@draws("FloatToRowwiseQuantized8Bits", "FloatToFusedRandRowwiseQuantized")
def whole_codes(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw rows as `encoding` does."""
    bits = hand.pick((1, 2, 4, 8)) if schema.args else 8
    X = hand.rng.integers(0, 2**bits, (hand.integer(0, 5), hand.integer(2, 9)))
    X[:, :2] = 0, 2**bits - 1
    return Sketch({"bitwidth": bits, "random": 0} if schema.args else {}, values={"X": X.astype(np.float32)})


@draws("Rowwise8BitQuantizedToFloat")
def beside_scales(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.shape("X", 1, 3)
    return Sketch({}, {"scale_bias": (X[0], 2)}, {"X": hand.rng.integers(0, 256, X).astype(np.uint8)})


@draws("FusedRandRowwiseQuantizedToFloat")
def by_chance(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.rng.standard_normal((hand.integer(1, 5), hand.integer(0, 9))).astype(np.float32)
    bits = hand.pick((1, 2, 4, 8))
    return Sketch({}, values={"X": run_op("FloatToFusedRandRowwiseQuantized", X, bitwidth=bits, random=0)})


@draws(*lookups)
def looking_up(hand: Hand, schema: OpSchema) -> Sketch:
    rows = lookups.rows[schema.type].rows
    V, count = hand.integer(1, 6), hand.integer(0, 9)
    values: dict[str, Any] = {"INDICES": picked(hand, V, count), "LENGTHS": lengths_of(hand, count)}
    shapes: dict[str, Any] = {"WEIGHTS": (count,)} if "WEIGHTS" in schema.inputs_by_letter else {}
    if rows.format is None:
        values["DATA"] = hand.rng.integers(0, 256, (V, *hand.dims(0, 2))).astype(np.uint8)
        shapes["scale_bias"] = (V, 2)
    else:
        values["DATA"] = table(hand, rows.format, V)
    if rows.pruned:
        values["MAPPING"] = hand.rng.integers(-1, V, V).astype(np.int32)
    return Sketch({}, shapes, values)


@draws("SparseLengthsSumSparseLookup")
def pruning(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    V, count = hand.integer(1, 6), hand.integer(0, 9)
    values = {
        "INDICES": picked(hand, V, count),
        "LENGTHS": lengths_of(hand, count),
        "MAPPING": hand.rng.integers(-1, V, V).astype(np.int32),
    }
    return (
        Sketch({}, {"WEIGHTS": (count,)}, values, outputs=3) if hand.chance(0.5) else Sketch({}, {}, values, outputs=2)
    )


def sizes_of(format: RowFormat, rows: Array) -> Array:
    """Return code times scale and bias of rows of bytes, each without its sign: what their sum is rounded by."""
    codes = rows.copy()
    codes[..., : -format.behind] = 0
    whole, bias = (format.decode(one).astype(np.float64) for one in (rows, codes))
    return np.abs(whole - bias) + np.abs(bias)


@steps_of(*decodings)
def decoded_rows(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """Code times scale and bias are rounded, however small their sum is."""
    (plain,) = evaluate(op, inputs)
    moved = sizes_of(decodings.rows[op.type].format, inputs[0]).reshape(plain.shape)
    return [plain.astype(np.float64) + moved * (factor(plain.shape, 2.0) - 1)]


@steps_of(*(type for type in lookups if lookups.rows[type].rows.format is not None))
def rows_of_bytes(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """What is added up is code times scale, and bias: both are rounded, and neither is an input that can be moved."""
    (plain,) = evaluate(op, [wide(x) for x in inputs])
    given = dict(zip(op.input_letters, inputs, strict=True))
    row = lookups.rows[op.type]
    assert row.rows.format is not None
    sizes = sizes_of(row.rows.format, given["DATA"])
    picked_rows = given["INDICES"]
    if row.rows.pruned:
        picked_rows = given["MAPPING"][picked_rows]
    terms = np.where(picked_rows[:, None] < 0, 0.0, sizes[picked_rows])
    if "WEIGHTS" in given:
        terms = terms * np.abs(given["WEIGHTS"].astype(np.float64))[:, None]
    ends = np.cumsum(given["LENGTHS"])
    totals = [terms[end - length : end].sum(axis=0) for end, length in zip(ends, given["LENGTHS"], strict=True)]
    if row.reducer.name == "Mean":
        totals = [total / max(1, length) for total, length in zip(totals, given["LENGTHS"], strict=True)]
    moved = np.array(totals).reshape(plain.shape)
    return [plain + moved * (factor(plain.shape, 4.0) - 1)]
