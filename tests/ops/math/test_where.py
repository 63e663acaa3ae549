"""Where, Conditional: against a choice element by element; rows, text, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
ROWS: dict[str, Any] = {"broadcast_on_rows": 1}

C = np.arange(30).reshape(2, 3, 5) % 3 > 0
X = np.arange(30, dtype=np.float32).reshape(2, 3, 5)
PICK = np.array([False, True])
TEXT = np.array([b"a", b"bc", b"d"], object)


def chosen(C: Array, X: Array, Y: Array) -> Array:
    """Return Y, and over it X at the places of C."""
    found = Y.copy()
    found[C] = X[C]
    return found


CASES = [
    Case("Where", [C, X, -X], chosen, batched=(0, 1, 2)),
    Case("Where", [C[0, 0, 1], X[0, 0, 1], X[0, 0, 2]], np.float32(1), id="rank 0"),
    *(Case("Where", [C, X.astype(t), (7 - X).astype(t)], chosen, id=np.dtype(t).name) for t in "dil?"),
    Case("Where", [np.array([True, False]), X, -X], chosen, ROWS, id="rows"),
    Case("Where", [C[0, 0], X[0, 0], -X[0, 0]], chosen, ROWS, id="rows of one element"),
    Case("Where", [np.array([False, True, False]), TEXT, TEXT[::-1].copy()], TEXT[[2, 1, 0]], id="text"),
    *(
        Case("Conditional", [PICK, X.astype(t), (7 - X).astype(t)], chosen, batched=(0, 1, 2), id=np.dtype(t).name)
        for t in "fdeilbB?"
    ),
    Case("Conditional", [C[0, 0], X[0, 0], -X[0, 0]], chosen, id="a list"),
    Case("Conditional", [np.array([False, True, False]), TEXT, TEXT[::-1].copy()], TEXT[[2, 1, 0]], id="rows of text"),
    Case("Conditional", [PICK, X[:, :0].copy(), X[:, :0].copy()], X[:, :0], id="rows of nothing"),
]


@on_all_engines(CASES)
def test_where(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([C, X, X[:1]], {}, ShapeError, "Y"),
    ([C[:1], X, X], {}, ShapeError, r"C has the shape \(1, 3, 5\), X has \(2, 3, 5\)"),
    ([C[0, :, 0], X, X], ROWS, ShapeError, r"C has the shape \(3\), X has \(2, 3, 5\)"),
    ([C, X, X], ROWS, ShapeError, "it must have one dimension"),
    ([C[0, 0], X[0, 0, 0], X[0, 0, 0]], ROWS, ShapeError, r"X has \(\)"),
    ([C.astype("i"), X, X], {}, DTypeError, "C is int32, it must be bool"),
    ([C, X.astype(np.int8), X.astype(np.int8)], {}, DTypeError, "X is int8"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Where", *inputs, **args)


REFUSED_ROWS: list[tuple[list[Any], type[Exception], str]] = [
    ([PICK, X, X[:, :2]], ShapeError, "Y"),
    ([PICK[:1], X, X], ShapeError, "N"),
    ([C[:, 0], X, X], ShapeError, "C"),
    ([np.array([True]), X[0, 0, 0], X[0, 0, 0]], ShapeError, "X"),
    ([PICK.astype("i"), X, X], DTypeError, "C is int32, it must be bool"),
    ([PICK, X, X.astype("i")], DTypeError, "Y is int32"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED_ROWS)
def test_refused_rows(inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Conditional", *inputs)
