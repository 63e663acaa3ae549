"""PackSegments and UnpackSegments: against one row after the other; and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

DATA = np.arange(1, 13, dtype=np.float32).reshape(6, 2)
LENGTHS = np.array([1, 0, 3, 2], np.int32)
TEXTS = np.array([b"a", b"b", b"c", b"d", b"e", b"f"], object)


def packed(lengths: Array, data: Array, T: int | None = None, pad: Any = 0) -> Array:
    """Return (N, T, *S)."""
    extent = int(max(lengths, default=0)) if T is None else T
    rows: Array = np.full((len(lengths), extent, *data.shape[1:]), pad, data.dtype)
    places = [(n, t) for n, length in enumerate(lengths) for t in range(length)]
    for row, (n, t) in zip(data, places, strict=True):
        if t < extent:
            rows[n, t] = row
    return rows


def unpacked(lengths: Array, rows: Array) -> Array:
    """Return the rows of all segments."""
    taken = [rows[n, t] for n, length in enumerate(lengths) for t in range(min(length, rows.shape[1]))]
    return np.array(taken, rows.dtype).reshape(-1, *rows.shape[2:])


def with_mask(lengths: Array, data: Array) -> tuple[Array, Array]:
    """Return the rows, and where they are."""
    return packed(lengths, data), MASK


MASK = np.arange(3) < LENGTHS[:, None]
CASES = [
    Case("PackSegments", [LENGTHS, DATA], packed),
    Case("PackSegments", [LENGTHS.astype(np.int64), DATA[:, 0]], packed, id="of numbers"),
    Case("PackSegments", [LENGTHS, DATA], partial(packed, T=5), {"max_length": 5}, id="longer"),
    Case("PackSegments", [LENGTHS, DATA], partial(packed, T=2), {"max_length": 2}, gradient=False, id="cut off"),
    Case("PackSegments", [LENGTHS, DATA], np.zeros((4, 0, 2)), {"max_length": 0}, gradient=False, id="to nothing"),
    Case("PackSegments", [LENGTHS, DATA], partial(packed, pad=-np.inf), {"pad_minf": 1}, gradient=False, id="minus"),
    Case("PackSegments", [LENGTHS, DATA.astype("i")], packed, {"pad_minf": 1}, gradient=False, id="whole numbers"),
    Case("PackSegments", [LENGTHS, TEXTS], partial(packed, pad=b""), gradient=False, id="texts"),
    Case("PackSegments", [LENGTHS, DATA], with_mask, {"return_presence_mask": 1}, 2, id="mask"),
    Case("PackSegments", [LENGTHS, DATA], with_mask, outputs=2, id="mask, not said"),
    Case("PackSegments", [0 * LENGTHS, DATA[:0]], np.zeros((4, 0, 2)), id="empty segments"),
    Case("PackSegments", [LENGTHS[:0], DATA[:0]], np.zeros((0, 0, 2)), id="no segments"),
    Case("UnpackSegments", [LENGTHS, packed(LENGTHS, DATA)], DATA),
    Case("UnpackSegments", [LENGTHS, packed(LENGTHS, TEXTS, pad=b"")], TEXTS, gradient=False, id="texts"),
    Case("UnpackSegments", [LENGTHS, packed(LENGTHS, DATA, 5)], DATA, {"max_length": 5}, id="longer"),
    Case(
        "UnpackSegments", [LENGTHS, packed(LENGTHS, DATA, 2)], unpacked, {"max_length": 2}, gradient=False, id="cut off"
    ),
    Case("UnpackSegments", [0 * LENGTHS, packed(LENGTHS, DATA)], DATA[:0], gradient=False, id="padding alone"),
]


@on_all_engines(CASES)
def test_pack_segments(case: Case, engine: str) -> None:
    check_op(case, engine)


PACKED = packed(LENGTHS, DATA)
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("PackSegments", [LENGTHS[:3], DATA], {}, NumericError, "add up to 4, and there are 6 rows of DATA"),
    ("PackSegments", [2 * LENGTHS, DATA], {}, NumericError, "there are 6 rows of DATA"),
    ("PackSegments", [LENGTHS - 1, DATA], {}, NumericError, r"LENGTHS\[1\] is -1"),
    ("PackSegments", [LENGTHS, DATA], {"max_length": -2}, ArgumentError, "max_length"),
    ("PackSegments", [LENGTHS, DATA], {"return_presence_mask": 1}, SchemaError, "no second output"),
    ("PackSegments", [LENGTHS, DATA.astype(np.float64)], {}, DTypeError, "DATA is float64"),
    ("PackSegments", [LENGTHS, np.float32(1)], {}, ShapeError, "DATA"),
    ("UnpackSegments", [LENGTHS + 1, PACKED], {}, NumericError, r"LENGTHS\[2\] is 4, not in \[0, 4\)"),
    ("UnpackSegments", [LENGTHS - 1, PACKED], {}, NumericError, r"LENGTHS\[1\] is -1"),
    ("UnpackSegments", [LENGTHS, PACKED], {"max_length": 2}, ShapeError, "packed has T = 3 rows a segment"),
    ("UnpackSegments", [LENGTHS[:3], PACKED], {}, ShapeError, "N is"),
    ("UnpackSegments", [LENGTHS, PACKED[:, 0, 0]], {}, ShapeError, "packed has rank 1"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
