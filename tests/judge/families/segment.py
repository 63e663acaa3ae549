"""Segments of rows, rows that indices pick, and updates of these."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema, OpView
from tazza.ops.optimizer.fused_adagrad import fused_updates
from tazza.ops.sparse.reducer import LOG_MEAN_EXP, LOG_SUM_EXP, NOTHING, SegmentRows
from tazza.ops.sparse.segment import Division
from tazza.ops.sparse.segment_reduction import segment_gradients, segment_reductions
from tests.check import evaluate
from tests.judge.condition import Factor, steps_of, wide
from tests.judge.families.update import number
from tests.judge.hand import Array, Hand, Shape, Sketch, draws


@steps_of(*(type for type, row in segment_reductions.rows.items() if row.reducer in (LOG_SUM_EXP, LOG_MEAN_EXP)))
def logarithms_of_sums(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """Y = max + log(sum of exp(x - max)): where the sum is rounded, the logarithm moves by as much, whatever Y is."""
    plain = evaluate(op, [wide(x) for x in inputs])
    return [y + (factor(y.shape, 1.0) - 1) for y in plain]


@steps_of("Storm", "SparseStorm")
def running_gradients(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """M' = dW + (1 - a) (M - dW): what is rounded is as large as dW and M, however small their sum may be."""
    plain = evaluate(op, [wide(x) for x in inputs])
    given = dict(zip(op.input_letters, (wide(x) for x in inputs), strict=True))
    size = max(np.abs(given[letter]).max(initial=0) for letter in ("M", "dW"))
    return [y + size * (factor(y.shape, 1.0) - 1) for y in plain]


@steps_of("Ftrl", "GFtrl", "SparseFtrl")
def leaders(op: OpView, inputs: list[Array], factor: Factor) -> list[Array]:
    """The roots of n are rounded before they are taken from each other, z before its threshold is."""
    given = dict(zip(op.input_letters, (wide(x) for x in inputs), strict=True))
    alpha = float(given["alpha"].reshape(())) if "alpha" in given else op.alpha
    W, dW = given["W"], given["dW"]
    nz = given["nz"].reshape(*W.shape, 2)

    def rounded(value: Array, terms: float = 1.0) -> Array:
        return value * factor(value.shape, terms)

    def follow(W: Array, nz: Array, dW: Array) -> tuple[Array, Array]:
        n, z = nz[..., 0], nz[..., 1]
        more = rounded(n + dW**2)
        z = rounded(z + dW - (rounded(np.sqrt(more)) - rounded(np.sqrt(n))) / alpha * W)
        threshold, length = op.lambda1, np.abs(z)
        if op.type == "GFtrl":
            threshold = threshold * np.sqrt(len(W))
            length = rounded(np.sqrt((z**2).sum(axis=0, keepdims=True)), len(W))
        with np.errstate(all="ignore"):
            share = np.where(length > threshold, 1 - rounded(threshold / length), 0)
        return -z * share / ((op.beta + np.sqrt(more)) / alpha + op.lambda2), np.stack([more, z], axis=-1)

    if "indices" in given:
        moved, state = W.copy(), nz.copy()
        rows = dW.reshape(given["indices"].size, *W.shape[1:])
        for place, row in enumerate(given["indices"].reshape(-1).astype(int)):
            moved[row], state[row] = follow(moved[row], state[row], rows[place])
    else:
        moved, state = follow(W, nz, dW.reshape(W.shape))
    return [moved, state.reshape(given["nz"].shape)]


def lengths_of(hand: Hand, rows: int, segments: int | None = None) -> Array:
    """Return lengths of segments, empty ones among them, that add up to a number of rows."""
    count = (hand.integer(1, 6) if rows else hand.integer(0, 2)) if segments is None else segments
    borders = np.sort(hand.rng.integers(0, rows, max(count - 1, 0), endpoint=True))
    return np.diff(borders, prepend=0, append=rows)[:count].astype(np.int32)


def picked(hand: Hand, rows: int, count: int) -> Array:
    """Return indices of some of the rows, equal ones among them."""
    return hand.rng.integers(0, max(rows, 1), count if rows else 0).astype(hand.pick((np.int32, np.int64)))


def ids_of(hand: Hand, rows: int, *, is_sorted: bool) -> Array:
    """Return the segment of each row; sorted ones leave none out."""
    if not is_sorted:
        return hand.rng.integers(0, hand.integer(1, 6), rows).astype(np.int32)
    return np.cumsum(hand.rng.integers(0, 2, rows) * (np.arange(rows) > 0)).astype(np.int32)


def dividing(hand: Hand, division: Division, rows: int) -> tuple[Array, int]:
    """Return what divides so many rows, and how many segments there are."""
    if not division.counted:
        found = lengths_of(hand, rows)
        return found, len(found)
    ids = ids_of(hand, rows, is_sorted=not division.args)
    return ids, int(ids.max(initial=-1)) + 1


@draws(*segment_reductions)
def segments(hand: Hand, schema: OpSchema) -> Sketch:
    one = segment_reductions.rows[schema.type]
    DATA = hand.shape("DATA", 1, 4)
    values: dict[str, Any] = {}
    rows = DATA[0]
    if one.kind.gathered:
        values["INDICES"] = picked(hand, DATA[0], hand.integer(0, 12))
        rows = values["INDICES"].size
    by, count = dividing(hand, one.kind.division, rows)
    values[one.kind.division.letter] = by
    given = {"num_segments": count + hand.integer(0, 3)} if "num_segments" in schema.args else {}
    scalars: dict[str, Shape] = {"SCALARS": (rows,)} if one.reducer.weighted else {}
    return Sketch(hand.some(given), {"DATA": DATA, **scalars}, values)


@draws(*segment_gradients)
def gradients_of_segments(hand: Hand, schema: OpSchema) -> Sketch:
    one = segment_gradients.rows[schema.type]
    letters, division = one.letters.split(), one.division
    row = hand.given["dY"][1:] if "dY" in hand.given else hand.dims(0, 3)
    rows = hand.integer(0, 9)
    by, count = dividing(hand, division, rows)
    shapes: dict[str, Shape] = {"dY": (count, *row), "SCALARS": (rows,), "DATA": (rows, *row)}
    values: dict[str, Any] = {division.letter: by, "INDICES": hand.rng.integers(0, max(rows, 1), rows)}
    if "Y" in letters:
        data = hand.rng.standard_normal((rows, *row)).astype(np.float32)
        Y: Any = np.zeros((count, *row), np.float32)
        ids = np.repeat(np.arange(count), by) if not division.counted else by
        for m in range(count):
            mine = data[ids == m]
            if len(mine):
                Y[m] = one.reducer.reduce(SegmentRows(len(mine), mine, NOTHING, NOTHING, NOTHING))
        values |= {"DATA": data, "Y": Y}
    known = {letter: shape for letter, shape in shapes.items() if letter in letters and letter not in values}
    return Sketch({}, known, {letter: value for letter, value in values.items() if letter in letters})


@draws("ReduceFrontWeightedSum", "ReduceFrontWeightedSumGradient")
def all_rows(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw rows, some with more scalars than there are rows."""
    if "dims" not in schema.inputs_by_letter:
        DATA = hand.shape("DATA", 1, 4)
        return Sketch({}, {"DATA": DATA, "SCALARS": (DATA[0] + hand.integer(0, 2),)})
    row, rows = hand.shape("dY", 0, 3), hand.integer(0, 9)
    shapes: dict[str, Any] = {"dY": row, "SCALARS": (rows + hand.integer(0, 2),)}
    return Sketch({}, shapes, {"dims": np.array([rows, *row])})


def rows_of(hand: Hand, letter: str) -> tuple[Shape, Array, dict[str, Any]]:
    """Return the shape of a table, indices of some of its rows, and their gradient's shape."""
    table = hand.shape(letter, 1, 3)
    indices = picked(hand, table[0], hand.integer(0, 7))
    return table, indices, {"dW": (indices.size, *table[1:])}


@draws("SparseAdagrad", "SparseMomentumSGDUpdate", "SparseAdam", "SparseAdadelta")
def update_of_rows(hand: Hand, schema: OpSchema) -> Sketch:
    table, indices, shapes = rows_of(hand, "W")
    found = hand.some({"momentum": hand.real(0, 1), "epsilon": 0.1}, 0.7)
    values: dict[str, Any] = {"indices": indices, "M": hand.rng.uniform(0.01, 2.0, table).astype(np.float32)}
    if "V" in schema.inputs_by_letter:
        values |= {"V": values["M"] + 1, "iter": np.array([hand.integer(0, 200)])}
    if "D" in schema.inputs_by_letter:
        values["D"] = values["M"] + 1
    known = {name: value for name, value in found.items() if name in schema.args}
    return Sketch(known, {**shapes, "W": table, "lr": (1,)}, values)


@draws("PackSegments", "UnpackSegments")
def packed_segments(hand: Hand, schema: OpSchema) -> Sketch:
    """All rows are packed: of those that are cut off, the gradient has none. Some segment is as long as any can be.

    `pad_minf` pads float32 alone, and what is compared with is computed in float64.
    """
    if schema.type == "PackSegments":
        rows = hand.shape("DATA", 1, 4)
        lengths = lengths_of(hand, rows[0])
        longer = {"max_length": int(lengths.max(initial=0)) + hand.integer(0, 2)}
        return Sketch(hand.some(longer), {"DATA": rows}, {"LENGTHS": lengths})
    N, T, *row = hand.shape("packed", 2, 4)
    lengths = hand.rng.integers(0, T, N, endpoint=True).astype(np.int64)
    lengths[:1] = T
    return Sketch(hand.some({"max_length": T if N else 0}), {"packed": (N, T if N else 0, *row)}, {"LENGTHS": lengths})


@draws("SparseWngrad", "SparseStorm")
def shared_step_of_rows(hand: Hand, schema: OpSchema) -> Sketch:
    """What the length of a step comes from stays away from 0."""
    table, indices, shapes = rows_of(hand, "W")
    found = hand.some({"epsilon": 0.1, "momentum": hand.real(0, 2), "beta": hand.real(0.1, 1)}, 0.7)
    known = {name: value for name, value in found.items() if name in schema.args}
    states = {letter: (1,) for letter in ("b", "s") if letter in schema.inputs_by_letter}
    values: dict[str, Any] = {"indices": indices}
    values |= {letter: number(hand, 0.5, 4) for letter in states}
    moments = {"M": table} if "M" in schema.inputs_by_letter else {}
    return Sketch(known, {**shapes, **moments, "W": table, "lr": (1,)}, values)


@draws("RowWiseSparseAdagrad", "RowWiseSparseAdam", "SparseFtrl")
def number_for_each_row(hand: Hand, schema: OpSchema) -> Sketch:
    table, indices, shapes = rows_of(hand, "W")
    found = hand.some({"epsilon": 0.1, "weight_decay": hand.real(0, 1), "alpha": 0.5, "lambda1": hand.real(0, 1)}, 0.7)
    known = {name: value for name, value in found.items() if name in schema.args}
    extents = {"M": table if "V" in schema.inputs_by_letter else table[:1], "V": table[:1], "nz": (*table, 2)}
    squares = {"V", "nz"} if "V" in schema.inputs_by_letter else {"M", "nz"}
    here = extents.keys() & schema.inputs_by_letter.keys()
    values = {letter: hand.rng.uniform(0.1, 2, extents[letter]).astype(np.float32) for letter in here & squares}
    if "iter" in schema.inputs_by_letter:
        values["iter"] = np.array([hand.integer(0, 20)])
    known, rates = rate(hand, schema, known)
    given = {letter: extents[letter] for letter in here - squares}
    alone = {"lr": (1,)} if "lr" in schema.inputs_by_letter else {}
    return Sketch(known, {**shapes, **given, **alone, "W": table}, {**values, **rates, "indices": indices})


def rate(hand: Hand, schema: OpSchema, found: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return arguments without their rate, and that as an input; some of those that may say it so do."""
    if "alpha" not in schema.inputs_by_letter or hand.chance(0.7):
        return found, {}
    return {name: value for name, value in found.items() if name != "alpha"}, {"alpha": number(hand, 0.1, 1)}


@draws("Ftrl", "GFtrl")
def leader(hand: Hand, schema: OpSchema) -> Sketch:
    table = hand.shape("W", 1, 3)
    found = hand.some({"alpha": 0.5, "lambda1": hand.real(0, 1), "lambda2": hand.real(0, 1)}, 0.7)
    found, rates = rate(hand, schema, found)
    nz = hand.rng.uniform(0.1, 2, (*table, 2)).astype(np.float32)
    return Sketch(found, {"W": table, "dW": table}, {"nz": nz, **rates})


@draws("RowWiseCounter")
def counter(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    (R, *_), indices, _ = rows_of(hand, "last")
    times, counts = hand.rng.integers(0, 9, R), hand.rng.uniform(0, 5, R)
    values = {"last": times, "count": counts, "indices": indices, "iter": np.array([hand.integer(0, 12)])}
    return Sketch(hand.some({"counter_halflife": hand.integer(-1, 4)}, 0.8), {}, values)


@draws("EnsureClipped")
def clipped(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw parameters whole, or rows of them, which are clipped in place."""
    del schema
    found = hand.some({"min": hand.real(-1, 0), "max": hand.real(0, 1)}, 0.8)
    table, indices, shapes = rows_of(hand, "W")
    if hand.chance(0.5):
        return Sketch(found, {"W": table})
    return Sketch(found, {**shapes, "W": table}, {"indices": indices}, over={"W_next": "W"})


@draws("SparseNormalize", "SparseLpRegularizer")
def constraint_of_rows(hand: Hand, schema: OpSchema) -> Sketch:
    table, indices, shapes = rows_of(hand, "W")
    found = hand.some({"norm": hand.real(0, 2), "p": hand.integer(1, 2) * 1.0, "reg_lambda": hand.real(0.1, 0.9)}, 0.7)
    known = {name: value for name, value in found.items() if name in schema.args}
    return Sketch(known, {**shapes, "W": table}, {"indices": indices})


@draws("Adadelta", "RmsProp")
def moving_means(hand: Hand, schema: OpSchema) -> Sketch:
    shape = hand.given.get("dW", hand.dims())
    found = hand.some({"epsilon": 0.1, "decay": hand.real(0.1, 0.95), "momentum": hand.real(0, 1)})
    letters = [letter for letter in schema.inputs_by_letter if letter != "lr"]
    means = {letter: hand.rng.uniform(0.01, 2.0, shape).astype(np.float32) for letter in letters if letter in "SMD"}
    known = {name: value for name, value in found.items() if name in schema.args}
    return Sketch(known, {**dict.fromkeys(letters, shape), "lr": (1,)}, means)


@draws("Adagrad")
def adagrad(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    shape = hand.given.get("W", hand.dims())
    found = hand.some({"epsilon": 0.1, "decay": hand.real(0.5, 1), "weight_decay": hand.real(0, 0.5)})
    values: dict[str, Any] = {"M": hand.rng.uniform(0.01, 2.0, shape).astype(np.float32)}
    return Sketch(found, {"W": shape, "dW": shape, "lr": (1,)}, values, hand.integer(2, 4))


@draws(
    "LengthsToRanges",
    "LengthsToOffsets",
    "LengthsToSegmentIds",
    "LengthsRangeFill",
    "LengthsToWeights",
    "SegmentIdsToLengths",
    "SegmentIdsToRanges",
)
def said_in_other_ways(hand: Hand, schema: OpSchema) -> Sketch:
    if "ids" in schema.inputs_by_letter:
        ids = np.sort(picked(hand, 9, hand.integer(0, 12)))
        return Sketch(
            {}, {"like": (int(ids.max(initial=-1)) + 1 + hand.integer(0, 2),)} if hand.chance(0.5) else {}, {"ids": ids}
        )
    numbers = {"include_last_offset": hand.integer(0, 1), "power": hand.real(0, 2)}
    known = {name: value for name, value in numbers.items() if name in schema.args}
    return Sketch(hand.some(known), {}, {"LENGTHS": lengths_of(hand, hand.integer(0, 20))})


@draws(*fused_updates)
def fused_update(hand: Hand, schema: OpSchema) -> Sketch:
    W, S = hand.shape("W", 1, 3), hand.integer(0, 4)
    lengths = hand.rng.integers(0, 4, S).astype(np.int32) * bool(W[0])
    rows = hand.rng.integers(0, max(W[0], 1), int(lengths.sum())).astype(hand.pick((np.int32, np.int64)))
    state = W[:1] if schema.type.startswith("RowWise") else W
    shapes: dict[str, Any] = {"W": W, "dY": (S, *W[1:]), "lr": (1,), "weights": (int(lengths.max(initial=0)),)}
    values = {"M": hand.rng.uniform(0.1, 2.0, state).astype(np.float32), "indices": rows, "LENGTHS": lengths}
    shapes = {letter: shape for letter, shape in shapes.items() if letter in schema.inputs_by_letter}
    return Sketch(hand.some({"epsilon": hand.real(0.01, 0.5), "weight_decay": hand.real(0, 0.5)}), shapes, values)
