"""PrependDim and MergeDim: by reshaping; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(2).standard_normal((6, 3, 2)).astype(np.float32)
CASES = [
    Case("PrependDim", [X], X.reshape(2, 3, 3, 2), {"dim_size": 2}),
    Case("PrependDim", [X[:0]], X[:0].reshape(5, 0, 3, 2), {"dim_size": 5}, id="empty"),
    Case("MergeDim", [X], X.reshape(18, 2), gradient=False),  # Caffe2 has none
    Case("MergeDim", [X[:0]], np.zeros((0, 2), "f"), gradient=False, id="empty"),
    Case("MergeDim", [np.array([[b"a", b"b"]], object)], np.array([b"a", b"b"], object), gradient=False, id="text"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("PrependDim", [X], {}, ArgumentError, "dim_size"),
    ("PrependDim", [X], {"dim_size": 0}, ArgumentError, "dim_size"),
    ("PrependDim", [X], {"dim_size": 4}, ShapeError, "the first extent must be a multiple"),
    ("PrependDim", [X[0, 0, 0]], {"dim_size": 1}, ShapeError, "X"),
    ("MergeDim", [X[0, 0]], {}, ShapeError, "X"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
