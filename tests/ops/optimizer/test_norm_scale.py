"""Lars and ClipTensorByScaling: by hand; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def of_one(value: float) -> Array:
    """Return a tensor of one element."""
    return np.array([value], np.float32)


W, DW = np.array([[3, 0, 4], [0, 0, 0]], np.float32), np.array([0, 6, 0, 8, 0, 0], np.float32)
"""Of the norms 5 and 10."""
TRUST = [of_one(0.5), of_one(6), of_one(10)]
X = np.array([[3, -4], [1, 2], [0, 5]], np.float32)
HALF = {"threshold": 2.0}
CASES = [
    Case("Lars", [W, DW, *TRUST], of_one(2)),
    Case("Lars", [W, DW, *TRUST], of_one(2.4), {"offset": 0.0}, id="no offset"),
    Case("Lars", [W, DW, *TRUST], of_one(7), {"lr_min": 7.0}, id="least rate"),
    Case("Lars", [W, DW, *TRUST[:2], of_one(1.5)], of_one(1.5), id="largest rate"),
    Case("Lars", [W, DW, *TRUST[:2], of_one(1.5)], of_one(7), {"lr_min": 7.0}, id="the least one wins"),
    Case("Lars", [0 * W, DW, *TRUST], of_one(1), id="parameters of zeros"),
    Case("Lars", [W, 0 * DW, *TRUST], of_one(6), id="no gradient"),
    Case("Lars", [W, 0 * DW, of_one(0), *TRUST[1:]], of_one(10), {"offset": 0.0}, id="division by 0"),
    Case("Lars", [W[:0], DW[:0], *TRUST], of_one(1), id="empty"),
    Case("ClipTensorByScaling", [X, of_one(4)], X / 2, HALF, batched=(0,)),
    Case("ClipTensorByScaling", [X, of_one(2)], X, HALF, id="just so long"),
    Case("ClipTensorByScaling", [X, of_one(-3)], X, HALF, id="a norm below 0"),
    Case("ClipTensorByScaling", [X, of_one(4), of_one(0.5)], X / 4, HALF, id="with a factor"),
    Case("ClipTensorByScaling", [X, of_one(4), of_one(3)], X, HALF, id="a factor that allows it"),
]


@on_all_engines(CASES)
def test_norm_scale(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("Lars", [W, DW[:5], *TRUST], {}, ShapeError, "dW has the shape"),
    ("Lars", [W, DW, W, *TRUST[1:]], {}, ShapeError, "decay has the shape"),
    ("ClipTensorByScaling", [X, X], HALF, ShapeError, "norm has the shape"),
    ("ClipTensorByScaling", [X, of_one(1), X], HALF, ShapeError, "factor has the shape"),
    ("ClipTensorByScaling", [X, of_one(1)], {"threshold": 0.0}, SchemaError, "threshold is 0"),
    ("ClipTensorByScaling", [X, of_one(1)], {}, ArgumentError, "threshold"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
