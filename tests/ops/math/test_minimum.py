"""Max, Min and their gradients: against sorting; ties, NaN, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import find_schema, formulas_of, operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


A, B, C = (values(2, 3, 5, seed=seed) for seed in range(3))
ODD = [np.array([1, np.nan, 3], "f"), np.array([2, 2, np.nan], "f")]
TIE, OTHER, DY = np.array([2, 1, 2], "f"), np.array([2, 2, 1], "f"), np.array([1, 2, 3], "f")


def largest(*tensors: Array) -> Array:
    """Return the last of each place when sorted."""
    return np.sort(np.stack(tensors), axis=0)[-1]


def smallest(*tensors: Array) -> Array:
    """Return the first of each place when sorted."""
    return np.sort(np.stack(tensors), axis=0)[0]


def shares(Y: Array, dY: Array, *tensors: Array) -> list[Array]:
    """Return dY for each tensor where it is Y."""
    return [np.where(np.isclose(x, Y, rtol=0, atol=0), dY, 0) for x in tensors]


CASES = [
    Case("Max", [A], A, batched=(0,), id="alone"),
    Case("Max", [A, B, C], largest, batched=(0, 1, 2)),
    Case("Max", [A[0, 0, 0], B[0, 0, 0]], largest, id="rank 0"),
    # Next to NaN there is no slope.
    Case("Max", ODD, np.array([2, np.nan, np.nan]), gradient=False, id="NaN"),
    Case("MaxGradient", [largest(A, B), C, A, B], shares, outputs=2, batched=(0, 1, 2, 3)),
    Case("MaxGradient", [largest(TIE, OTHER), DY, TIE, OTHER], [DY * [1, 0, 1], DY * [1, 1, 0]], outputs=2, id="ties"),
    Case("Min", [A, B, C], smallest, batched=(0, 1, 2)),
    Case("Min", ODD, np.array([1, np.nan, np.nan]), gradient=False, id="NaN"),
    Case("MinGradient", [smallest(A, B, C), A, A, B, C], shares, outputs=3, batched=(0, 1, 2, 3, 4)),
]


@on_all_engines(CASES)
def test_minimum(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    # Caffe2 reads beyond the end of the smaller one.
    ("Max", [A, A[:1]], {}, ShapeError, r"X1 has the shape \(1, 3, 5\), X0 has \(2, 3, 5\)"),
    ("Max", [A, A.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
    ("Min", [np.arange(3)], {}, DTypeError, "X is int64, it must be float32"),
    ("Min", [], {}, SchemaError, "Min has 0 inputs, it takes 1 or more"),
    ("MaxGradient", [A, A, A, A], {"outputs": 1}, SchemaError, "does not take 4 inputs with 1 outputs"),
    ("MaxGradient", [A[:1], A, A], {"outputs": 1}, ShapeError, r"Y has the shape \(1, 3, 5\), X0 has"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_only_the_first_input_is_overwritten() -> None:
    with pytest.raises(SchemaError, match="Max cannot write Y in place of X"):
        run(operator_def("Max", ["a", "b"], ["b"]), [A, B])


def test_a_thousand_inputs_have_a_formula() -> None:
    op = find_schema("Max").view(operator_def("Max", [f"x{i}" for i in range(1000)], ["y"]))
    assert formulas_of(op)["Y"].flops == 999
