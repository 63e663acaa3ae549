"""ConstantFill, and how fills get their shape: against recorded runs, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, BlobTypeError, ShapeError
from tazza.operator import run_op
from tazza.tensor import DataType
from tests.check import Case, check_op, on_all_engines

X = np.zeros((2, 3), np.int16)
SIZES = np.array([2, 0, 5])

CASES = [
    Case("ConstantFill", [], np.float32(0), id="nothing"),
    Case("ConstantFill", [X], np.full((2, 3), 2.5, np.float32), {"value": 2.5}, batched=(0,)),
    Case("ConstantFill", [X], np.full((2, 3, 5, 7), 9), {"value": 9, "extra_shape": [5, 7]}, batched=(0,), id="extra"),
    Case("ConstantFill", [SIZES], np.zeros((2, 0, 5, 7)), {"input_as_shape": 1, "extra_shape": [7]}, id="as-shape"),
    Case("ConstantFill", [X, np.array([7])], np.full((2, 3), 7), {"dtype": 10, "value": 1}, id="value-blob"),
    Case("ConstantFill", [X, np.float32(7)], np.full((2, 3), 7.0), id="value-blob-rank-0"),
]


@on_all_engines(CASES)
def test_constant_fill(case: Case, engine: str) -> None:
    check_op(case, engine)


TYPES: list[tuple[dict[str, Any], str, Any]] = [
    ({}, "float32", 0),
    ({"value": 3}, "int64", 3),
    ({"value": True}, "int64", 1),
    ({"value": 3.0}, "float32", 3),
    ({"value": 3, "dtype": 2}, "int32", 3),
    ({"value": 3, "dtype": 5}, "bool", True),
    ({"value": -3, "dtype": 7}, "int8", -3),
    ({"value": 3, "dtype": 6}, "uint8", 3),
    ({"value": 3, "dtype": 8}, "uint16", 3),
    ({"value": 3, "dtype": 9}, "int16", 3),
    ({"value": 2**62, "dtype": 10}, "int64", 2**62),
    ({"value": 0.5, "dtype": 13}, "float64", 0.5),
    ({"value": "zz", "dtype": 4}, "object", b"zz"),
    ({"dtype": 4}, "object", b""),
    ({"dtype": 5}, "bool", False),
]


@pytest.mark.parametrize(("args", "dtype", "value"), TYPES)
def test_element_type_follows_dtype_or_the_python_type_of_the_value(
    args: dict[str, Any], dtype: str, value: Any
) -> None:
    Y = run_op("ConstantFill", shape=[2], **args)
    assert Y.dtype == dtype
    assert Y.tolist() == [value, value]


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([], {"value": 2.5, "dtype": 2}, ArgumentError, "value = 2.5 is of type float, int32 needs int"),
    ([], {"value": 2, "dtype": 1}, ArgumentError, "value = 2 is of type int, float32 needs float"),
    ([], {"value": "ab"}, ArgumentError, "value = b'ab' is of type bytes, float32 needs float"),
    ([], {"value": [1, 2]}, ArgumentError, "'value' wants float .* or int .* or bytes .*, it is stored as ints"),
    ([], {"value": 300, "dtype": 6}, ArgumentError, "value = 300 is not between 0 and 255, which uint8 holds"),
    ([], {"dtype": 12}, ArgumentError, "'dtype' = 12 is not one of"),
    ([], {"shape": [-1]}, ArgumentError, "'shape' = -1 is below its minimum 0"),
    ([], {"extra_shape": [2]}, ArgumentError, r"extra_shape = \[2\] needs an input"),
    ([], {"input_as_shape": 1}, ArgumentError, "input_as_shape = True needs an input"),
    ([X], {"shape": [2]}, ArgumentError, r"shape = \[2\] is given, and an input too"),
    ([X], {"input_as_shape": 1}, ShapeError, "X must be int64, it is int16"),
    ([np.zeros((1, 2), np.int64)], {"input_as_shape": 1}, ShapeError, "X must be a list of sizes"),
    ([np.zeros(0, np.int64)], {"input_as_shape": 1}, ShapeError, "X must be a list of sizes"),
    ([np.array([2, -3])], {"input_as_shape": 1}, ShapeError, r"X holds the shape \[2, -3\]"),
    ([X, np.zeros(2, np.float32)], {}, ShapeError, "V has 2 elements, it must have 1"),
    ([X, np.zeros(1, np.int32)], {}, ShapeError, "V is int32, Y is float32"),
    ([X, np.array([b"q"])], {"dtype": 4}, ArgumentError, "text cannot be taken from V"),
    ([b"text"], {}, BlobTypeError, "holds a std::string, ConstantFill needs a Tensor"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("ConstantFill", *inputs, **args)


def test_dtypes_are_those_of_the_format() -> None:
    for number in (1, 2, 4, 5, 6, 7, 8, 9, 10, 13):
        assert DataType.of(run_op("ConstantFill", dtype=number)) is DataType.from_proto(number)
