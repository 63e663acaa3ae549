"""Sums and means of rows of tables in few bits: as of the decoded table, by plain operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import NumericError, SchemaError, ShapeError
from tazza.operator import run_op
from tazza.ops.embedding.lookup import lookups
from tests.check import Case, check_op, on_all_engines

TYPES = {
    "Sum": [
        "SparseLengthsSum8BitsRowwise",
        "SparseLengthsSumFused8BitRowwise",
        "SparseLengthsSumFused4BitRowwise",
        "SparseLengthsSumFused2BitRowwise",
        "SparseLengthsSum8BitRowwiseSparse",
        "SparseLengthsSum4BitRowwiseSparse",
        "SparseLengthsSum2BitRowwiseSparse",
    ],
    "WeightedSum": [
        "SparseLengthsWeightedSum8BitsRowwise",
        "SparseLengthsWeightedSumFused8BitRowwise",
        "SparseLengthsWeightedSumFused4BitRowwise",
        "SparseLengthsWeightedSumFused2BitRowwise",
        "SparseLengthsWeightedSum8BitRowwiseSparse",
        "SparseLengthsWeightedSum4BitRowwiseSparse",
        "SparseLengthsWeightedSum2BitRowwiseSparse",
    ],
    "Mean": [
        "SparseLengthsMean8BitsRowwise",
        "SparseLengthsMeanFused8BitRowwise",
        "SparseLengthsMeanFused4BitRowwise",
        "SparseLengthsMeanFused2BitRowwise",
        "SparseLengthsMean8BitRowwiseSparse",
        "SparseLengthsMean4BitRowwiseSparse",
        "SparseLengthsMean2BitRowwiseSparse",
    ],
    "WeightedMean": ["SparseLengthsWeightedMean8BitsRowwise"],
}
INDICES, LENGTHS = np.array([4, 0, 2, 2, 1]), np.array([2, 0, 3], np.int32)
WEIGHTS = np.array([1, 2, 0.5, -1, 3], np.float32)
MAPPING = np.array([2, -1, 0, 3, 1], np.int32)
TABLE = np.random.default_rng(7).standard_normal((5, 8)).astype(np.float32)
PAIRS = np.array([[0.5, 1], [0.25, -2], [1, 0], [2, 3], [0.125, 4]], np.float32)
CODES = np.random.default_rng(8).integers(0, 256, (5, 8)).astype(np.uint8)


def given(type: str) -> tuple[list[Any], np.ndarray]:
    """Return the inputs of a lookup, and the rows of numbers that indices pick."""
    rows = lookups.rows[type].rows
    if rows.format is None:
        table, tail = CODES, [PAIRS]
        x = (CODES * PAIRS[:, :1] + PAIRS[:, 1:])[INDICES]
    else:
        table, tail = rows.format.encode(TABLE), [MAPPING] if rows.pruned else []
        numbers = rows.format.decode(table)
        x = np.where(MAPPING[:, None] < 0, 0, numbers[MAPPING])[INDICES] if rows.pruned else numbers[INDICES]
    return [table, *([WEIGHTS] if "Weighted" in type else []), INDICES, LENGTHS, *tail], x


def expected(name: str, x: np.ndarray) -> np.ndarray:
    """Return the reduction by a plain operator on rows in turn; the mean of weighted ones divides by how many."""
    if name == "WeightedMean":
        return run_op("LengthsMean", x * WEIGHTS[:, None], LENGTHS)
    weights = [WEIGHTS] if name == "WeightedSum" else []
    return run_op(f"Lengths{name}", x, *weights, LENGTHS)


CASES = [
    *(Case(type, given(type)[0], expected(name, given(type)[1])) for name, types in TYPES.items() for type in types),
    Case(
        "SparseLengthsSumSparseLookup",
        [INDICES, LENGTHS, MAPPING, WEIGHTS],
        (np.array([1, 2, 0, 0]), np.array([2, 0, 2], np.int32), WEIGHTS[:4]),
        outputs=3,
    ),
    Case(
        "SparseLengthsSumSparseLookup",
        [INDICES, LENGTHS[:1], MAPPING],
        (np.array([1, 2]), np.array([2], np.int32)),
        id="some indices are left",
    ),
]


@on_all_engines(CASES)
def test_rows_that_are_picked(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_all_lookups_are_tested() -> None:
    assert {type for types in TYPES.values() for type in types} == set(lookups.rows)


@pytest.mark.parametrize("type", [type for type, row in lookups.rows.items() if row.rows.pruned])
def test_a_mapping_of_0_alone_says_that_nothing_was_left_out(type: str) -> None:
    plain = type.replace("BitRowwiseSparse", "BitRowwise").replace("Sum", "SumFused").replace("Mean", "MeanFused")
    *inputs, _ = given(type)[0]
    np.testing.assert_allclose(run_op(type, *inputs, np.zeros(1, np.int32)), run_op(plain, *inputs), rtol=1e-6)


@pytest.mark.parametrize("type", list(lookups.rows))
def test_wrong_indices_and_lengths(type: str) -> None:
    inputs, _ = given(type)
    at = 2 if "Weighted" in type else 1
    for place, value, message in (
        (at, np.array([4, 0, 2, 5, 1]), r"INDICES\[3\] is 5"),
        (at, np.array([4, 0, 2, -1, 1]), r"INDICES\[3\] is -1"),
        (at + 1, np.array([2, 0, 1], np.int32), "add up to 3"),
        (at + 1, np.array([3, -1, 3], np.int32), r"LENGTHS\[1\] is -1"),
    ):
        wrong = [*inputs]
        wrong[place] = value
        with pytest.raises(NumericError, match=message):
            run_op(type, *wrong)


def test_a_mapping_to_no_row() -> None:
    *inputs, _ = given("SparseLengthsSum4BitRowwiseSparse")[0]
    for wrong in (7, -2):
        mapping = np.array([2, wrong, 0, 1, 4], np.int32)
        with pytest.raises(NumericError, match=rf"MAPPING\[1\] is {wrong}"):
            run_op("SparseLengthsSum4BitRowwiseSparse", *inputs, mapping)


def test_all_rows_left_out_and_no_indices() -> None:
    table = np.zeros((0, 8), np.uint8)
    none = np.full(5, -1, np.int32)
    assert (run_op("SparseLengthsSum4BitRowwiseSparse", table, INDICES, LENGTHS, none) == np.zeros((3, 8))).all()
    empty = np.zeros(0, np.int64)
    assert run_op("SparseLengthsMeanFused4BitRowwise", table, empty, np.zeros(2, np.int32)).tolist() == [[0.0] * 8] * 2


@pytest.mark.parametrize("name", ["WeightedSum", "WeightedMean"])
def test_weights_behind_those_of_the_rows_count_for_nothing(name: str) -> None:
    table, weights, *others = given(f"SparseLengths{name}8BitsRowwise")[0]
    type, more = f"SparseLengths{name}8BitsRowwise", np.append(weights, np.float32(9))
    assert (run_op(type, table, more, *others) == run_op(type, table, weights, *others)).all()
    with pytest.raises(ShapeError, match="5 INDICES and 3 WEIGHTS"):
        run_op(type, table, weights[:3], *others)


def test_what_is_refused() -> None:
    with pytest.raises(ShapeError, match="3 bytes"):
        run_op("SparseLengthsSumFused4BitRowwise", np.zeros((2, 3), np.uint8), [0], [1])
    with pytest.raises(ShapeError, match="3 numbers"):
        run_op("SparseLengthsSum8BitsRowwise", CODES, INDICES, LENGTHS, np.ones((5, 3), np.float32))
    with pytest.raises(SchemaError, match="weights"):
        run_op("SparseLengthsSumSparseLookup", INDICES, LENGTHS, MAPPING, WEIGHTS, outputs=2)
    with pytest.raises(NumericError, match=r"INDICES\[0\] is 4"):
        run_op("SparseLengthsSumSparseLookup", INDICES, LENGTHS, MAPPING[:2], outputs=2)
