"""LengthsSplit and LengthsToShape: by the division of ranges, by hand; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

LENGTHS = np.array([5, 0, 7, 3, 2], np.int32)


def split(n: int) -> Any:
    """Deal each length out, one after the other."""

    def made(lengths: Array, *_: Array) -> Array:
        return np.array([len(range(i, count, n)) for count in lengths.tolist() for i in range(n)], np.int32)

    return made


CASES = [
    Case("LengthsSplit", [LENGTHS], split(3), {"n_split": 3}),
    Case("LengthsSplit", [LENGTHS, np.array([4], np.int32)], split(4), id="an input"),
    Case("LengthsSplit", [LENGTHS, np.array([2])], split(2), {"n_split": 3}, id="the input wins"),
    Case("LengthsSplit", [LENGTHS[:0], np.array([3])], LENGTHS[:0], id="none"),
    Case("LengthsToShape", [np.array([4, 4, 4], np.int32)], np.array([3, 4], np.int32)),
    Case("LengthsToShape", [np.array([0], np.int32)], np.array([1, 0], np.int32), id="one that is empty"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("LengthsSplit", [LENGTHS], {}, SchemaError, "there is no n"),
    ("LengthsSplit", [LENGTHS], {"n_split": 0}, ArgumentError, "'n_split' = 0 is below 1"),
    ("LengthsSplit", [LENGTHS, [-1]], {}, NumericError, "n is -1"),
    ("LengthsSplit", [LENGTHS, [2, 3]], {}, ShapeError, "n must be a list of one element"),
    ("LengthsSplit", [[4, -2], [2]], {}, NumericError, r"lengths\[1\] is -2"),
    ("LengthsToShape", [[4, 4, 3]], {}, NumericError, r"lengths\[2\] is 3, and lengths\[0\] is 4"),
    ("LengthsToShape", [[-4]], {}, NumericError, r"lengths\[0\] is -4"),
    ("LengthsToShape", [LENGTHS[:0]], {}, ShapeError, "there are no lengths"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
