"""Constraints on parameters: element after element, and row after row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, SchemaError, ShapeError
from tazza.operator import operator_def
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def clipped(least: float, largest: float) -> Any:
    """Return a function that keeps one element after the other in a range, in some rows or all."""

    def by_hand(W: Array, indices: Array | None = None, dW: Array | None = None) -> Array:
        result = W.copy()
        rows = range(len(W)) if indices is None else {int(row) for row in indices.flat}
        for row in rows:
            result[row] = [max(min(float(x), largest), least) for x in W[row].flat]
        return result

    return by_hand


def normalized(norm: float, longer: bool) -> Any:
    """Return a function that scales one row after the other."""

    def by_hand(W: Array, indices: Array, dW: Array | None = None) -> Array:
        result = W.astype(np.float64)
        for row in indices.flat:
            length = float((result[row] ** 2).sum()) ** 0.5
            if length > norm or (length > 0 and not longer):
                result[row] = result[row] / length * norm
        return result.astype(np.float32)

    return by_hand


def shrunk(p: int, by: float) -> Any:
    """Return a function that shrinks one row after the other."""

    def by_hand(W: Array, indices: Array, dW: Array | None = None) -> Array:
        result = W.astype(np.float64)
        for row in indices.flat:
            for place in np.ndindex(result[row].shape):
                x = result[(row, *place)]
                left = x * (1 - by) if p == 2 else max(x - by, 0) if x > 0 else min(x + by, 0)
                result[(row, *place)] = left
        return result.astype(np.float32)

    return by_hand


TABLE, TWICE = values(5, 3), np.array([3, 0, 3])
DEEP, AT = values(4, 2, 3), np.array([[1], [2]], np.int32)
RANGE: dict[str, Any] = {"min": -0.5, "max": 0.25}
CASES = [
    Case("EnsureClipped", [TABLE], clipped(-0.5, 0.25), RANGE),
    Case("EnsureClipped", [TABLE], clipped(0, 1e9), {"min": 0.0}, id="from below"),
    Case("EnsureClipped", [TABLE], clipped(-1e30, 1e30), id="without bounds"),
    Case("EnsureClipped", [TABLE[:0]], clipped(0, 1), {"min": 0.0}, id="empty"),
]


@on_all_engines(CASES)
def test_constraints(case: Case, engine: str) -> None:
    check_op(case, engine)


ROWS: list[tuple[str, dict[str, Any], Any]] = [
    ("SparseNormalize", {"norm": 0.5}, normalized(0.5, True)),
    ("SparseNormalize", {"norm": 2.0, "use_max_norm": 0}, normalized(2, False)),
    ("SparseLpRegularizer", {"p": 1.0, "reg_lambda": 0.25}, shrunk(1, 0.25)),
    ("SparseLpRegularizer", {"reg_lambda": 0.25}, shrunk(2, 0.25)),
]


@pytest.mark.parametrize(("type_name", "arguments", "by_hand"), ROWS)
@pytest.mark.parametrize(
    ("W", "indices"), [(TABLE, TWICE), (DEEP, AT), (TABLE, TWICE[:0])], ids=["twice", "deep", "no"]
)
@pytest.mark.parametrize("gradient", [False, True])
def test_rows(type_name: str, arguments: Any, by_hand: Any, W: Array, indices: Array, gradient: bool) -> None:
    beside = [np.ones((*indices.shape, *W.shape[1:]))] if gradient else []
    definition = operator_def(type_name, ["W", "i", "dW"][: 2 + gradient], ["W"], **arguments)
    (found,), _ = run(definition, [W.copy(), indices, *beside])
    np.testing.assert_allclose(found, by_hand(W, indices), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("indices", [TWICE, TWICE.astype(np.int32), TWICE.reshape(3, 1), TWICE[:0]])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_an_update_had_are_clipped(indices: Array, dtype: Any) -> None:
    definition = operator_def("EnsureClipped", ["W", "i", "dW"], ["W"], **RANGE)
    (found,), _ = run(definition, [TABLE.copy(), indices, np.ones((*indices.shape, 3), dtype)])
    np.testing.assert_array_equal(found, clipped(-0.5, 0.25)(TABLE, indices))


@pytest.mark.parametrize(("norm", "longer"), [(0.5, True), (2.0, False)])
def test_rows_of_16_bits_have_a_factor_of_16_bits(norm: float, longer: bool) -> None:
    W, rows = TABLE.astype(np.float16), TWICE[:2]
    definition = operator_def("Float16SparseNormalize", ["W", "i"], ["W"], norm=norm, use_max_norm=longer)
    (found,), _ = run(definition, [W.copy(), rows])
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, normalized(norm, longer)(W, rows), rtol=2e-3, atol=1e-4)
    again, _ = run(definition, [np.array([[60000, 60000]], np.float16), np.array([0])])
    np.testing.assert_allclose(again[0], norm * 0.5**0.5 * np.ones((1, 2)), rtol=2e-3)


def test_a_row_of_zeros_has_no_direction() -> None:
    definition = operator_def("SparseNormalize", ["W", "i"], ["W"], use_max_norm=0)
    (found,), _ = run(definition, [np.zeros((2, 3), np.float32), np.array([0])])
    assert not found.any()


def test_bounds_that_cross_and_what_is_no_number() -> None:
    definition = operator_def("EnsureClipped", ["W"], ["W"], min=2.0, max=1.0)
    (found,), _ = run(definition, [np.array([-3, np.nan, 5], np.float32)])
    np.testing.assert_array_equal(found, np.array([1, np.nan, 1], np.float32))


@pytest.mark.parametrize(
    ("type_name", "inputs", "arguments", "given", "error"),
    [
        ("EnsureClipped", 2, {}, [TABLE, TWICE], SchemaError),
        ("EnsureClipped", 3, {}, [TABLE, TWICE, TABLE[:3, :2]], ShapeError),
        ("EnsureClipped", 3, {}, [TABLE, np.array([5]), TABLE[:1]], NumericError),
        ("SparseNormalize", 2, {}, [TABLE, np.array([-1])], NumericError),
        ("SparseNormalize", 2, {}, [TABLE[0, 0], np.array([0])], ShapeError),
        ("SparseLpRegularizer", 2, {}, [TABLE, np.array([5])], NumericError),
        ("SparseLpRegularizer", 2, {"reg_lambda": 1.0}, [TABLE, TWICE], ArgumentError),
        ("SparseLpRegularizer", 2, {"reg_lambda": 0.0}, [TABLE, TWICE], ArgumentError),
    ],
)
def test_what_is_refused(type_name: str, inputs: int, arguments: Any, given: list[Array], error: Any) -> None:
    definition = operator_def(type_name, ["W", "i", "dW"][:inputs], ["W"], **arguments)
    with pytest.raises(error):
        run(definition, [np.array(one) for one in given])


def test_rows_are_clipped_in_place_alone() -> None:
    definition = operator_def("EnsureClipped", ["W", "i", "dW"], ["other"], **RANGE)
    with pytest.raises(SchemaError, match="must be in place of input W"):
        run(definition, [TABLE, TWICE, TABLE[:3]])
