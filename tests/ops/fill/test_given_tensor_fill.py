"""Fills with given values: element types, shapes, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import Case, check_op, on_all_engines

X = np.zeros((3, 2), np.float32)
SIX = [1.0, 2.5, 3.0, -4.0, 5.0, 6.0]

CASES = [
    Case("GivenTensorFill", [], np.float32(7), {"values": [7.0]}, id="rank-0"),
    Case("GivenTensorFill", [], np.zeros((0, 3)), {"values": [], "shape": [0, 3]}, id="empty"),
    Case("GivenTensorFill", [X], np.reshape(SIX, (3, 2)), {"values": SIX}),
    Case("GivenTensorFill", [X[0]], np.reshape(SIX, (2, 3)), {"values": SIX, "extra_shape": [3]}, id="extra"),
    Case("GivenTensorFill", [np.array([1, 6])], np.array([SIX]), {"values": SIX, "input_as_shape": 1}, id="as-shape"),
]


@on_all_engines(CASES)
def test_given_tensor_fill(case: Case, engine: str) -> None:
    check_op(case, engine)


TYPES: list[tuple[str, dict[str, Any], str, list[Any]]] = [
    ("GivenTensorFill", {"values": [1.0, 2.5], "dtype": 1}, "float32", [1, 2.5]),
    ("GivenTensorFill", {"values": [1, 300], "dtype": 2}, "int32", [1, 300]),
    ("GivenTensorFill", {"values": ["ab", "c"], "dtype": 4}, "object", [b"ab", b"c"]),
    ("GivenTensorFill", {"values": [0, 300], "dtype": 5}, "bool", [False, True]),
    ("GivenTensorFill", {"values": [1, 300], "dtype": 9}, "int16", [1, 300]),
    ("GivenTensorFill", {"values": [1, 2**40], "dtype": 10}, "int64", [1, 2**40]),
    ("GivenTensorFill", {"values": [1.0, 2.5], "dtype": 13}, "float64", [1, 2.5]),
    ("GivenTensorDoubleFill", {"values": [1.0, 2.5]}, "float64", [1, 2.5]),
    ("GivenTensorIntFill", {"values": [-1, 70000]}, "int32", [-1, 70000]),
    ("GivenTensorInt64Fill", {"values": [-1, 2**62]}, "int64", [-1, 2**62]),
    ("GivenTensorInt16Fill", {"values": [-1, 300]}, "int16", [-1, 300]),
    ("GivenTensorBoolFill", {"values": [-1, 0]}, "bool", [True, False]),
    ("GivenTensorStringFill", {"values": [b"\xff\x00", ""]}, "object", [b"\xff\x00", b""]),
    ("GivenTensorByteStringToUInt8Fill", {"values": [b"\xff\x00"]}, "uint8", [255, 0]),
]


@pytest.mark.parametrize(("type", "args", "dtype", "values"), TYPES)
def test_element_types(type: str, args: dict[str, Any], dtype: str, values: list[Any]) -> None:
    Y = run_op(type, shape=[2], **args)
    assert Y.dtype == dtype
    assert Y.tolist() == values


REFUSED: list[tuple[str, dict[str, Any], type[Exception], str]] = [
    ("GivenTensorFill", {"values": [1, 2]}, ArgumentError, "values are of type int, float32 needs float"),
    ("GivenTensorFill", {"values": [1.0, 2.0], "dtype": 2}, ArgumentError, "values are of type float, int32 needs int"),
    ("GivenTensorFill", {"values": [1.0, 2.0], "dtype": 6}, ArgumentError, "'dtype' = 6 is not one of"),
    ("GivenTensorDoubleFill", {"values": [1, 2]}, ArgumentError, "'values' wants floats .* stored as ints"),
    (
        "GivenTensorInt16Fill",
        {"values": [-1, 70000]},
        ArgumentError,
        "70000 among the values is out of the range of int16",
    ),
    ("GivenTensorIntFill", {"values": [1, 2**40]}, ArgumentError, "1099511627776 among the values"),
    ("GivenTensorFill", {"values": [1.0]}, ShapeError, r"1 values are given for the 2 elements of shape \(2,\)"),
    ("GivenTensorFill", {}, ArgumentError, "needs the argument 'values'"),
    (
        "GivenTensorByteStringToUInt8Fill",
        {"values": ["a", "b"]},
        ArgumentError,
        "values holds 2 strings, it must hold 1",
    ),
    ("GivenTensorByteStringToUInt8Fill", {"values": ["abc"]}, ShapeError, "3 values are given for the 2 elements"),
]


@pytest.mark.parametrize(("type", "args", "error", "text"), REFUSED)
def test_refused(type: str, args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, shape=[2], **args)


def test_a_shape_held_by_a_blob_is_read_anew_in_every_run() -> None:
    ws = Workspace()
    ws.feed("sizes", np.array([2, 3]))
    fill = operator_def("GivenTensorFill", ["sizes"], ["y"], values=SIX, input_as_shape=1)
    ws.create_net(NetDef(name="fill", op=[fill]))
    shapes: list[tuple[int, ...]] = []
    for sizes in ([2, 3], [6, 1], [3, 2]):
        ws.feed("sizes", np.array(sizes))
        ws.run_net("fill")
        shapes.append(ws.fetch("y").shape)
    assert shapes == [(2, 3), (6, 1), (3, 2)]
