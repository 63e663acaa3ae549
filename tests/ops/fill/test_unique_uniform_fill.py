"""UniqueUniformFill: what Caffe2 drew; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tazza.proto import DeviceOption
from tests.check import run

FIVE = np.array([5])


def drawn(*inputs: Any, **arguments: Any) -> Any:
    """Return what comes with the seed 7."""
    names = ["X", "avoid"][: len(inputs)]
    device = DeviceOption(random_seed=7)
    (Y,), _ = run(operator_def("UniqueUniformFill", names, ["Y"], device=device, **arguments), list(inputs))
    return Y


def test_equal_to_caffe2() -> None:
    ten = [5, 2, 1, 6, 3, 7, 9, 8, 0, 4]
    assert drawn(shape=[10], min=0, max=9).tolist() == ten
    wide = drawn(shape=[2, 2], min=0, max=9, dtype=10)
    assert (wide.dtype, wide.tolist()) == (np.dtype(np.int64), [ten[:2], ten[2:4]])
    avoid = np.array([1, 2, 3], np.int32)
    assert drawn(FIVE, avoid, input_as_shape=1, min=0, max=7).tolist() == [7, 4, 6, 0, 5]


REFUSED: list[tuple[list[Any], dict[str, Any], type[TazzaError], str]] = [
    ([], {"shape": [3]}, ArgumentError, "min"),
    ([], {"shape": [3], "min": 5, "max": 4}, ArgumentError, "min is below max"),
    ([], {"shape": [3], "min": 0, "max": 2**31}, ArgumentError, "are no range of int32"),
    ([], {"shape": [11], "min": 0, "max": 9}, ShapeError, "and there are 10 different integers"),
    ([FIVE, np.array([1, 1], "i")], {"min": 0, "max": 9}, NumericError, "avoid has 2 elements, of which 1"),
    ([FIVE, np.array([1, 2])], {"min": 0, "max": 9}, ShapeError, "avoid is int64, Y is int32"),
]


@pytest.mark.parametrize(("inputs", "arguments", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("UniqueUniformFill", *inputs, **arguments)
