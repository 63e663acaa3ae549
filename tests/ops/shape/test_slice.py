"""Slice: against Python's slices; by arguments and by inputs; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def taken(*ranges: range) -> Any:
    """Return a function that takes these numbers along the first axes."""

    def function(X: Array, *_: Array) -> Array:
        rest = X
        for axis, numbers in enumerate(ranges):
            rest = rest.take(list(numbers), axis)
        return rest

    return function


X = values(3, 4, 5)


def box(starts: list[int], ends: list[int]) -> dict[str, Any]:
    """Return the box as arguments."""
    return {"starts": starts, "ends": ends}


CASES = [
    Case("Slice", [X], taken(range(3), range(1, 3)), box([0, 1], [-1, 3])),
    Case("Slice", [X], taken(range(1, 2)), box([1], [2]), id="fewer numbers than axes"),
    Case("Slice", [X], taken(range(1, 3), range(3), range(2, 4)), box([1, 0, -4], [9, -2, -2]), id="every axis"),
    Case("Slice", [X], taken(range(3), range(4), range(0)), box([0, 0, -1], [-1, -1, -1]), id="nothing"),
    Case("Slice", [X], taken(range(0)), box([7], [9]), id="behind the end"),
    Case("Slice", [X[0, 0, 0]], X[0, 0, 0], box([], []), id="rank 0"),
    Case("Slice", [X[:0]], taken(range(0), range(1, 2)), box([0, 1], [-1, 2]), id="empty"),
    Case("Slice", [X, np.array([1, 0]), np.array([2, -1])], taken(range(1, 2)), id="by inputs"),
    Case("Slice", [X, np.array([0, 2], "i"), np.array([-1, -1], "i")], taken(range(3), range(2, 4)), id="int32"),
    # What is no float has no derivative.
    Case("Slice", [np.array([b"a", b"b"], object)], taken(range(1, 2)), box([1], [2]), gradient=False, id="text"),
    Case("Slice", [X.astype("e")], taken(range(1, 2)), box([1], [2]), gradient=False, id="float16"),
]


@on_all_engines(CASES)
def test_slice(case: Case, engine: str) -> None:
    check_op(case, engine)


@settings(max_examples=30)
@given(st.integers(-6, 9), st.integers(-6, 9))
def test_numbers_below_0_count_from_behind_the_last(start: int, end: int) -> None:
    X = np.arange(5, dtype=np.float32)
    first, last = (min(n if n >= 0 else n + 6, 5) for n in (start, end))
    if first > last:
        with pytest.raises(ShapeError, match=f"ends at {last}, before it starts at {first}"):
            run_op("Slice", X, starts=[start], ends=[end])
    else:
        np.testing.assert_array_equal(run_op("Slice", X, starts=[start], ends=[end]), X[first:last])


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Slice", [X], box([0] * 4, [1] * 4), ShapeError, r"4 starts \[0, 0, 0, 0\] for X of 3 dimensions \(3, 4, 5\)"),
    ("Slice", [X], box([2], [1]), ShapeError, "axis 0 of 3 elements ends at 1, before it starts at 2"),
    ("Slice", [X], box([-5], [-1]), ShapeError, "-5 counts back beyond the first of 3 elements of axis 0"),
    ("Slice", [X], {}, ArgumentError, "starts = None, ends = None"),
    ("Slice", [X], {"starts": [0]}, ArgumentError, r"starts = \[0\], ends = None"),
    ("Slice", [X], box([0, 0], [1]), ArgumentError, r"2 starts \[0, 0\] for 1 ends \[1\]"),
    ("Slice", [X, np.array([0])], {}, ArgumentError, "an input for starts, none for ends"),
    ("Slice", [X, np.array([0]), np.array([0, 1])], {}, ShapeError, "1 starts for 2 ends"),
    (
        "Slice",
        [X, np.array([[0]]), np.array([[1]])],
        {},
        ShapeError,
        r"first has the shape \(1, 1\), it must be a list",
    ),
    ("Slice", [X, np.array([0], "i"), np.array([1])], {}, DTypeError, "behind is int64, it must be int32"),
    ("Slice", [X, np.array([0.0], "f"), np.array([1.0], "f")], {}, DTypeError, "first is float32"),
    ("SliceGradient", [X, X], box([0], [1]), ShapeError, r"dY has the shape \(3, 4, 5\), slicing X gives \(1, 4, 5\)"),
    ("SliceGradient", [X, np.array([0]), X], {}, SchemaError, "SliceGradient does not take 3 inputs"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize(
    ("inputs", "args", "wanted"), [("x", box([0], [1]), "x dy"), ("x s e", {}, "x s e dy")], ids=["arguments", "inputs"]
)
def test_emitted_gradients(inputs: str, args: dict[str, Any], wanted: str) -> None:
    op = find_schema("Slice").view(operator_def("Slice", inputs.split(), ["y"], **args))
    (emitted,), gradients = gradient_for_op(op, ["dy"])
    assert (emitted.type, list(emitted.input)) == ("SliceGradient", wanted.split())
    assert gradients == ["x_grad", *[None] * (len(inputs.split()) - 1)]


def test_unknown_dimensions() -> None:
    schema = find_schema("Slice")
    op = schema.view(operator_def("Slice", ["x"], ["y"], starts=[0, 1], ends=[-1, 3]))
    partly, nothing = TensorSpec((None, 4, 5), DataType.FLOAT), TensorSpec(None, DataType.FLOAT)
    assert schema.infer_specs(op, [partly]).specs == (TensorSpec((None, 2, 5), DataType.FLOAT),)
    assert schema.infer_specs(op, [nothing]).specs == (nothing,)
    op = schema.view(operator_def("Slice", ["x", "s", "e"], ["y"]))
    numbers = TensorSpec((2,), DataType.INT32)
    found = schema.infer_specs(op, [partly, numbers, numbers])
    assert (found.specs, found.reads) == ((TensorSpec((None,) * 3, DataType.FLOAT),), {"first", "behind"})
