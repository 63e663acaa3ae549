"""Rows of numbers to bytes and back, rows picked from bytes; the bytes themselves are tested in `test_row_format`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import NumericError, ShapeError
from tazza.operator import run_op
from tazza.ops.embedding.row_conversion import SEARCH, decodings, encodings
from tazza.ops.embedding.row_format import EIGHT
from tests.check import Case, check_op, on_all_engines

THERE_AND_BACK = [
    ("FloatToFused8BitRowwiseQuantized", "Fused8BitRowwiseQuantizedToFloat"),
    ("FloatToFused8BitRowwiseQuantizedHalfScaleBias", "Fused8BitRowwiseQuantizedHalfScaleBiasToFloat"),
    ("HalfFloatToFused8BitRowwiseQuantized", "Fused8BitRowwiseQuantizedToHalfFloat"),
    ("HalfFloatToFused8BitRowwiseQuantizedHalfScaleBias", "Fused8BitRowwiseQuantizedHalfScaleBiasToHalfFloat"),
    ("FloatToFused4BitRowwiseQuantized", "Fused4BitRowwiseQuantizedToFloat"),
    ("FloatToFused2BitRowwiseQuantized", "Fused2BitRowwiseQuantizedToFloat"),
    ("HalfToFused4BitRowwiseQuantized", "Fused4BitRowwiseQuantizedToHalf"),
    ("HalfToFused2BitRowwiseQuantized", "Fused2BitRowwiseQuantizedToHalf"),
    ("FloatToFused4BitFakeRowwiseQuantized", "Fused8BitRowwiseQuantizedToFloat"),
    ("FloatToFused2BitFakeRowwiseQuantized", "Fused8BitRowwiseQuantizedToFloat"),
    ("HalfToFused4BitFakeRowwiseQuantized", "Fused8BitRowwiseQuantizedToHalfFloat"),
    ("HalfToFused2BitFakeRowwiseQuantized", "Fused8BitRowwiseQuantizedToHalfFloat"),
]
SEARCHED = [type for type, row in encodings.rows.items() if row.searches]


def steps(type: str) -> np.ndarray:
    """Return rows of whole codes from 0 to the largest, as a format without an error has them."""
    row = encodings.rows[type]
    codes = np.random.default_rng(3).integers(0, row.format.top + 1, (3, 8))
    codes[:, :2] = 0, row.format.top
    return codes.astype(row.dtype.numpy)


CASES = [
    *(
        Case(there, [X := steps(there)], encodings.rows[there].format.encode(X.astype(np.float32)))
        for there, _ in THERE_AND_BACK
    ),
    *(
        Case(
            back,
            [encodings.rows[there].format.encode(steps(there).astype(np.float32))],
            steps(there).astype(decodings.rows[back].dtype.numpy),
            id=there,
        )
        for there, back in THERE_AND_BACK
    ),
    Case("GatherFused8BitRowwise", [EIGHT.encode(x := np.eye(5, 3, dtype=np.float32)), [4, 0, 0]], x[[4, 0, 0]]),
    Case("GatherFused8BitRowwise", [EIGHT.encode(x[:0]), np.zeros(0, np.int64)], x[:0], id="nothing of nothing"),
]


@on_all_engines(CASES)
def test_rows_and_bytes(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", [there for there, _ in THERE_AND_BACK if not encodings.rows[there].format.mimics])
def test_any_rank(type: str) -> None:
    X = steps(type)
    whole = run_op(type, X)
    assert (run_op(type, X[None]) == whole[None]).all()
    assert (run_op(type, X[0]) == whole[0]).all()
    with pytest.raises(ShapeError, match="rank 0"):
        run_op(type, X[0, 0])


@pytest.mark.parametrize("type", SEARCHED)
def test_the_engine_that_is_a_search(type: str) -> None:
    x = np.random.default_rng(5).standard_normal((4, 40)).astype(encodings.rows[type].dtype.numpy)
    found = {engine: run_op(type, x, engine=engine) for engine in ("", SEARCH, "EIGEN")}
    format = encodings.rows[type].format
    assert (found[SEARCH] == format.encode(x.astype(np.float32), search=True)).all()
    assert (found[""] == found["EIGEN"]).all()
    assert (found[""] != found[SEARCH]).any()


@pytest.mark.parametrize(
    ("type", "inputs", "message"),
    [
        ("FloatToFused4BitRowwiseQuantized", [np.zeros((2, 3), np.float32)], "3 numbers"),
        ("FloatToFused2BitRowwiseQuantized", [np.zeros((2, 6), np.float32)], "6 numbers"),
        ("FloatToFused4BitFakeRowwiseQuantized", [np.zeros((1, 2, 4), np.float32)], "rank 3"),
        ("FloatToFused4BitFakeRowwiseQuantized", [np.zeros((2, 0), np.float32)], "no numbers"),
        ("Fused8BitRowwiseQuantizedToFloat", [np.zeros((2, 7), np.uint8)], "7 bytes"),
        ("Fused4BitRowwiseQuantizedToFloat", [np.zeros((2, 3), np.uint8)], "3 bytes"),
        ("GatherFused8BitRowwise", [np.zeros((2, 7), np.uint8), [0]], "7 bytes"),
    ],
)
def test_wrong_extents(type: str, inputs: list[Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        run_op(type, *inputs)


def test_an_index_of_no_row() -> None:
    with pytest.raises(NumericError, match=r"INDICES\[1\] is 2, not in \[0, 2\)"):
        run_op("GatherFused8BitRowwise", np.zeros((2, 9), np.uint8), [0, 2])


def test_a_row_without_numbers_keeps_what_bounds_begin_with() -> None:
    """As in Caffe2: the largest numbers of float32, and less than all."""
    scale, bias = run_op("FloatToFused8BitRowwiseQuantized", np.zeros((1, 0), np.float32)).view(np.float32)[0]
    assert (scale, bias) == (-np.inf, np.finfo(np.float32).max)
