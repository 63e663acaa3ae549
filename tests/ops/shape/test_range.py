"""Range: by hand, and where it differs from NumPy; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def of(*values: float, dtype: Any = np.int32) -> list[Array]:
    """Return inputs of one element."""
    return [np.array([value], dtype) for value in values]


CASES = [
    Case("Range", of(4), np.arange(4), gradient=False),
    Case("Range", [np.array(4)], np.arange(4), gradient=False, id="rank 0"),
    Case("Range", of(-4), np.zeros(0), gradient=False, id="nothing"),
    Case("Range", of(2, 9, 3), np.array([2, 5, 8]), gradient=False),
    Case("Range", of(5, 1, -2, dtype=np.int64), np.array([5, 3]), gradient=False, id="down"),
    Case("Range", of(7, 0, -3), np.array([7, 4]), gradient=False, id="the last one is missing, as in Caffe2"),
    Case("Range", of(0, 1, -3), np.array([0]), gradient=False, id="one too many, as in Caffe2"),
    Case("Range", of(1.5, dtype="f"), np.array([0, 1]), gradient=False, id="to a fraction"),
    Case("Range", of(1, 2, 0.25, dtype="d"), np.arange(1, 2, 0.25), gradient=False, id="fractions"),
    Case("Range", of(2, 1, -0.3, dtype="f"), np.array([2, 1.7, 1.4, 1.1]), gradient=False, id="fractions, down"),
    Case("Range", of(float("nan"), dtype="f"), np.zeros(0), gradient=False, id="NaN"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("Range", of(1, 5, 0), {}, NumericError, "Step size cannot be 0"),
    ("Range", [np.array([1, 2])], {}, ShapeError, "start has the shape"),
    ("Range", [np.array([1]), *of(5)], {}, DTypeError, "stop"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
