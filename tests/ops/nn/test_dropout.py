"""Dropout and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.proto import DeviceOption
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]

X = np.random.default_rng(0).standard_normal((5, 7, 3)).astype(np.float32)
MASK = np.random.default_rng(1).random((5, 7, 3)) < 0.3


CASES = [
    Case("Dropout", [X], X, {"is_test": 1}, batched=(0,), gradient=False),
    Case(
        "Dropout",
        [X],
        (X, np.ones(X.shape, np.bool_)),
        {"is_test": 1, "ratio": 0.2},
        2,
        gradient=False,
        id="test, with mask",
    ),
    Case(
        "Dropout",
        [X],
        (X, np.ones(X.shape, np.bool_)),
        {"is_test": 0, "ratio": 0.0},
        2,
        (0,),
        gradient=False,
        id="ratio 0",
    ),
    Case("DropoutGrad", [X, MASK], np.where(MASK, 4 * X, 0), {"ratio": 0.75}, batched=(0, 1)),
    Case("DropoutGrad", [X, MASK.reshape(7, 15)], np.where(MASK, 2 * X, 0), id="mask of another shape"),
    Case("DropoutGrad", [X], X, {"is_test": 1}, id="test"),
    Case("DropoutGrad", [X, MASK], X, {"is_test": 1, "ratio": 0.75}, id="test, with mask"),
]
"""The central difference runs kernels without a generator, which Dropout has: its gradient has cases of its own."""


@on_all_engines(CASES)
def test_dropout(case: Case, engine: str) -> None:
    check_op(case, engine)


def train(ratio: float, *, names: tuple[str, str] = ("Y", "mask"), seed: int | None = None) -> tuple[Array, Array]:
    """Run a training step on 10000 ones."""
    device = DeviceOption() if seed is None else DeviceOption(random_seed=seed)
    definition = operator_def("Dropout", ["X"], list(names), device=device, ratio=ratio, is_test=0)
    (Y, mask), _ = run(definition, [np.ones((100, 100), np.float32)])
    return Y, mask


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.9])
def test_training_keeps_the_mean(ratio: float) -> None:
    Y, mask = train(ratio, seed=3)
    np.testing.assert_array_equal(Y, mask * (np.float32(1) / (np.float32(1) - np.float32(ratio))))
    assert abs(mask.mean() - (1 - ratio)) < 0.02
    assert abs(Y.mean() - 1) < 0.1


def test_in_place_and_by_seed() -> None:
    Y, mask = train(0.5, seed=3)
    again, same = train(0.5, names=("X", "mask"), seed=3)
    np.testing.assert_array_equal(Y, again)
    np.testing.assert_array_equal(mask, same)
    assert not np.array_equal(mask, train(0.5)[1])


def test_the_gradient_takes_the_mask_only_in_training() -> None:
    for is_test, inputs in ((0, ["Y_grad", "mask"]), (1, ["Y_grad"])):
        definition = operator_def("Dropout", ["X"], ["Y", "mask"], ratio=0.3, is_test=is_test)
        emitted, gradients = gradient_for_op(find_schema("Dropout").view(definition), ["Y_grad", None])
        assert [(one.type, list(one.input), list(one.output)) for one in emitted] == [
            ("DropoutGrad", inputs, ["X_grad"])
        ]
        assert gradients == ["X_grad"]


REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("Dropout", [X], {}, ArgumentError, "needs the argument 'is_test'"),
    ("Dropout", [X], {"is_test": 0}, SchemaError, "1 output with is_test = 0, it takes 2"),
    ("Dropout", [X], {"is_test": 1, "ratio": 1.0}, ArgumentError, "'ratio' = 1.0 is not below 1"),
    ("Dropout", [X], {"is_test": 1, "ratio": -0.5}, ArgumentError, "'ratio' = -0.5 is below its minimum 0"),
    ("Dropout", [X.astype("d")], {"is_test": 1}, DTypeError, "X is float64"),
    ("DropoutGrad", [X], {}, SchemaError, "1 input with is_test = 0, it takes 2"),
    ("DropoutGrad", [X, MASK[:2]], {}, ShapeError, "mask has 42 elements, dY has 105"),
    ("DropoutGrad", [X, X], {}, DTypeError, "mask is float32, it must be bool"),
    ("DropoutGrad", [X, MASK], {"ratio": 1.0}, ArgumentError, "'ratio' = 1.0 is not below 1"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
