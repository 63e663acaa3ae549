"""Adagrad: element after element; of rows: row after row, also where an index stands there several times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, SchemaError, ShapeError
from tazza.operator import SCHEMAS, operator_def, run_op
from tazza.proto import OperatorDef
from tests.check import Case, check_op, engines_of, on_all_engines, run
from tests.judge.draw import compute, draw
from tests.ops.optimizer.of_rows import check_rows

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def by_hand(W: Array, M: Array, dW: Array, lr: Array, args: dict[str, float]) -> tuple[Array, ...]:
    """Update one element after the other."""
    results = tuple(np.zeros(dW.shape, np.float32) for _ in range(4))
    for place in np.ndindex(*dW.shape):
        g = float(dW[place]) + args.get("weight_decay", 0) * float(W[place])
        square = args.get("decay", 1) * float(M[place]) + g * g
        rate = float(lr.reshape(())) / (square**0.5 + args.get("epsilon", 1e-5))
        for result, value in zip(results, (W[place] + rate * g, square, rate, rate * g), strict=True):
            result[place] = value
    return results


RATE = np.array([-0.3], np.float32)
CASES = [
    Case("Adagrad", inputs, by_hand(*inputs, args)[:outputs], args, outputs=outputs)
    for shape in ((7,), (2, 3, 5))
    for inputs in [(values(*shape), values(*shape, seed=1) ** 2, values(*shape, seed=2), RATE)]
    for args, outputs in (({}, 2), ({"epsilon": 0.1, "decay": 0.5, "weight_decay": 0.2}, 4))
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def update(inputs: list[Array], engine: str = "", **args: Any) -> list[Array]:
    """Run SparseAdagrad on copies."""
    names = ["W", "M", "i", "dW", "lr"]
    copies = [np.array(value) for value in inputs]
    return run(operator_def("SparseAdagrad", names, ["W", "M"], **args), copies, engine if engine else None)[0]


@pytest.mark.parametrize("engine", engines_of("SparseAdagrad"))
@pytest.mark.parametrize("shape", [(7,), (7, 3), (7, 2, 5)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_one_after_the_other(shape: tuple[int, ...], dtype: Any, engine: str) -> None:
    W, M, rows = values(*shape), values(*shape, seed=1) ** 2, np.array([4, 0, 4, 6, 4], dtype)
    dW = values(5, *shape[1:], seed=2)
    wanted_W, wanted_M = W.copy(), M.copy()
    for row, g in zip(rows, dW, strict=True):
        found = by_hand(wanted_W[row : row + 1], wanted_M[row : row + 1], g[None], RATE, {"epsilon": 0.1})
        wanted_W[row : row + 1], wanted_M[row : row + 1] = found[:2]
    got = update([W, M, rows, dW, RATE], engine, epsilon=0.1)
    np.testing.assert_allclose(got[0], wanted_W, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got[1], wanted_M, rtol=1e-5, atol=1e-6)


def test_shapes_of_indices_do_not_matter() -> None:
    W, M, dW = values(7, 3), values(7, 3, seed=1) ** 2, values(4, 3, seed=2)
    plain = update([W, M, np.array([1, 2, 5, 0]), dW, RATE])
    square = update([W, M, np.array([[1, 2], [5, 0]]), dW.reshape(2, 2, 3), RATE])
    np.testing.assert_array_equal(plain[0], square[0])
    none = update([W, M, np.zeros(0, np.int64), dW[:0], RATE])
    np.testing.assert_array_equal(none[0], W)


@pytest.mark.parametrize("index", [7, -1])
def test_a_row_that_is_none_is_named(index: int) -> None:
    with pytest.raises(NumericError, match=rf"indices\[1\] is {index}, not in \[0, 7\)"):
        update([values(7, 3), values(7, 3), np.array([2, index]), values(2, 3), RATE])


@pytest.mark.parametrize(
    ("position", "value", "text"),
    [
        (1, values(6, 3), r"M has the shape \(6, 3\), W has \(7, 3\)"),
        (3, values(2, 4), "dW has 8 elements, the rows of W that indices pick have 6"),
        (4, values(2), r"lr has the shape \(2\), not 1 element"),
    ],
)
def test_shapes_that_do_not_fit(position: int, value: Array, text: str) -> None:
    inputs = [values(7, 3), values(7, 3), np.array([2, 5]), values(2, 3), RATE]
    inputs[position] = value
    with pytest.raises(ShapeError, match=text):
        update(inputs)


def test_rows_are_updated_in_place() -> None:
    inputs = [values(7, 3), values(7, 3), np.array([2]), values(1, 3), RATE]
    with pytest.raises(SchemaError, match="output W_next = 'other' must be in place of input W = 'W'"):
        run(operator_def("SparseAdagrad", ["W", "M", "i", "dW", "lr"], ["other", "M"]), inputs)
    assert run_op("SparseAdagrad", *inputs)[0].shape == (7, 3)


def test_rows() -> None:
    check_rows("SparseAdagrad", "Adagrad", epsilon=0.1)


DECAYED = sorted(type for type in SCHEMAS.keys() if {"weight_decay", "epsilon"} <= SCHEMAS[type].args.keys())


@pytest.mark.parametrize("type", DECAYED)
def test_without_decay_a_weight_has_no_part_in_its_moment(type: str) -> None:
    """On all engines; 0 times infinity would be NaN."""
    problem = draw(type, 3)
    weights = problem.inputs["W"]
    weights[...] = np.inf
    definition = OperatorDef.FromString(problem.definition.SerializeToString())
    for argument in definition.arg:
        if argument.name == "weight_decay":
            argument.f = 0
    one = replace(problem, definition=definition)
    for engine in engines_of(type):
        found = compute(one, engine)
        assert not any(np.isnan(value).any() for name, value in found.items() if name.startswith("M")), engine
        assert np.isinf(next(iter(found.values()))).all(), engine
