"""BooleanMask, BooleanMaskLengths and BooleanUnmask: by NumPy and by hand; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(1).standard_normal((4, 3, 2)).astype(np.float32)
MASK = np.array([True, False, True, False])
NONE = np.zeros(4, bool)
LENGTHS = np.array([1, 0, 3], np.int32)


def back(mask: Array, dY: Array) -> Array:
    """Return the rows of dY where the mask is true."""
    rows = iter(dY)
    return np.stack([next(rows) if picked else np.zeros_like(dY[0]) for picked in mask])


CASES = [
    Case("BooleanMask", [X, MASK], (X[[0, 2]], np.array([0, 2])), outputs=2),
    Case("BooleanMask", [X, MASK], (X[MASK],), outputs=1, id="without places"),
    Case("BooleanMask", [X, NONE], (X[:0], np.zeros(0, np.int64)), outputs=2, id="none"),
    Case("BooleanMask", [X[:0], NONE[:0]], (X[:0], np.zeros(0, np.int64)), outputs=2, id="nothing"),
    Case(
        "BooleanMask",
        [np.array([b"a", b"bc"], object), MASK[:2]],
        (np.array([b"a"], object), np.array([0])),
        outputs=2,
        gradient=False,  # text has none
        id="text",
    ),
    Case("BooleanMaskGradient", [MASK, X[:2, 0, 0].copy()], back),
    Case("BooleanMaskGradient", [MASK, X[:2]], back, id="rows"),  # Caffe2 gives back a list
    Case("BooleanMaskGradient", [MASK, X], back, id="more than are picked"),
    Case("BooleanMaskGradient", [NONE, X[:0]], np.zeros_like(X), id="none"),
    Case("BooleanMaskLengths", [LENGTHS, MASK], np.array([1, 0, 1]), gradient=False),
    Case("BooleanMaskLengths", [LENGTHS[:0].astype(np.int64), NONE[:0]], np.zeros(0), gradient=False, id="nothing"),
    Case("BooleanUnmask", [MASK, X[:2, 0, 0].copy(), ~MASK, X[2:, 0, 0].copy()], X[[0, 2, 1, 3], 0, 0], gradient=False),
    Case(
        "BooleanUnmask",
        [MASK, np.array([5, 7]), ~NONE, np.array([6, 8])],
        np.array([5, 6, 7, 8]),
        gradient=False,
        id="the first that is true",
    ),
    Case(
        "BooleanUnmask",
        [MASK[:2], np.array([b"a"], object), ~MASK, np.array([b"b"], object)],
        np.array([b"a", b"b"], object),
        gradient=False,
        id="text, and a longer mask",
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("BooleanMask", [X, MASK[:3]], {}, ShapeError, "mask"),
    ("BooleanMask", [X, MASK.reshape(2, 2)], {}, ShapeError, "mask"),
    ("BooleanMaskGradient", [MASK, X[:1]], {}, NumericError, "mask picks 2 rows, and dY has 1"),
    ("BooleanMaskLengths", [LENGTHS, MASK[:3]], {}, NumericError, r"lengths\[2\] = 3 ends at 4"),
    ("BooleanMaskLengths", [np.array([5, -1], "i"), MASK], {}, NumericError, r"lengths\[1\] is -1"),
    ("BooleanUnmask", [MASK, X[:2, 0, 0]], {}, NumericError, "no mask is true at 1"),
    ("BooleanUnmask", [MASK, X[:1, 0, 0]], {}, NumericError, "2 elements are taken from X0"),
    ("BooleanUnmask", [MASK, X[:2, 0, 0], ~NONE[:2], X[:1, 0, 0]], {}, ShapeError, "mask1 has 2 elements, mask0 has 4"),
    ("BooleanUnmask", [MASK, X[:2, 0, 0], ~MASK, np.array([1, 2])], {}, DTypeError, "X1 is int64, X0 is float32"),
    ("BooleanUnmask", [MASK, X[:2, 0]], {}, ShapeError, "X0 has the shape"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
