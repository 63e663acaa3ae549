"""Adagrad fused with the gradient of segments: index after index, and as the operators that it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tests.check import engines_of, run

Array = NDArray[Any]
TYPES = [
    "SparseAdagradFusedWithSparseLengthsSumGradient",
    "SparseAdagradFusedWithSparseLengthsSumGradientApprox",
    "SparseAdagradFusedWithSparseLengthsMeanGradient",
    "SparseAdagradFusedWithSparseLengthsMeanGradientApprox",
    "SparseAdagradFusedWithSparseLengthsWeightedSumGradient",
    "SparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox",
    "RowWiseSparseAdagradFusedWithSparseLengthsSumGradient",
    "RowWiseSparseAdagradFusedWithSparseLengthsSumGradientApprox",
    "RowWiseSparseAdagradFusedWithSparseLengthsMeanGradient",
    "RowWiseSparseAdagradFusedWithSparseLengthsMeanGradientApprox",
    "RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradient",
    "RowWiseSparseAdagradFusedWithSparseLengthsWeightedSumGradientApprox",
]
ROWS, LENGTHS = np.array([4, 0, 4, 4, 6]), np.array([3, 0, 2], np.int32)
RATE = np.array([-0.3], np.float32)


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def given(type: str, width: tuple[int, ...] = (3,)) -> dict[str, Array]:
    """Return inputs by letter: 7 rows, 5 indices of 3 segments."""
    state = (7,) if type.startswith("RowWise") else (7, *width)
    found = {"W": values(7, *width), "M": values(*state, seed=1) ** 2}
    found |= {"weights": values(4, seed=2)} if "Weighted" in type else {}
    return found | {"indices": ROWS, "dY": values(3, *width, seed=3), "lr": RATE, "LENGTHS": LENGTHS}


def update(type: str, inputs: dict[str, Array], engine: str | None = None, **arguments: Any) -> list[Array]:
    """Run an operator on copies."""
    outputs = ["W", "M", *(["dw"] if "weights" in inputs else [])]
    copies = [np.array(value) for value in inputs.values()]
    return run(operator_def(type, list(inputs), outputs, **arguments), copies, engine)[0]


def by_hand(type: str, inputs: dict[str, Array], epsilon: float, weight_decay: float) -> list[Array]:
    """Update row after row, in float64."""
    W, M = inputs["W"].astype(np.float64), inputs["M"].astype(np.float64)
    before, products, at = W.copy(), np.zeros(ROWS.size), 0
    for dy, length in zip(inputs["dY"].astype(np.float64), LENGTHS, strict=True):
        for place in range(length):
            row = ROWS[at]
            products[at] = np.sum(dy * (W if type.endswith("Approx") else before)[row])
            factor = 1 / length if "Mean" in type else float(inputs["weights"][place]) if "Weighted" in type else 1
            g = factor * dy + weight_decay * W[row]
            M[row] += np.mean(g**2) if type.startswith("RowWise") else g**2
            W[row] += float(RATE[0]) / (np.sqrt(M[row]) + epsilon) * g
            at += 1
    return [W, M, *([products] if "weights" in inputs else [])]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("width", [(), (3,), (2, 5)])
def test_row_after_row(type: str, width: tuple[int, ...]) -> None:
    inputs = given(type, width)
    for epsilon, weight_decay in ((0.1, 0.0), (0.01, 0.25)):
        wanted = by_hand(type, inputs, epsilon, weight_decay)
        for engine in engines_of(type):
            found = update(type, inputs, engine, epsilon=epsilon, weight_decay=weight_decay)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("type", [type for type in TYPES if "Weighted" not in type])
def test_it_is_the_gradient_and_the_update_behind_each_other(type: str) -> None:
    inputs = given(type)
    update_type, _, rest = type.removesuffix("Approx").partition("FusedWith")
    dW = run_op(rest, inputs["dY"], LENGTHS)
    alone = {letter: inputs[letter] for letter in ("W", "M", "indices")} | {"dW": dW, "lr": RATE}
    for one, other in zip(update(type, inputs), update(update_type, alone), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("type", TYPES)
def test_nothing_is_picked(type: str) -> None:
    inputs = given(type) | {"indices": ROWS[:0].astype(np.int32), "LENGTHS": 0 * LENGTHS}
    found = update(type, inputs)
    np.testing.assert_array_equal(found[0], inputs["W"])
    np.testing.assert_array_equal(found[1], inputs["M"])
    assert [one.shape for one in found[2:]] == [(0,)] * ("weights" in inputs)


REFUSED: list[tuple[str, Any, type[TazzaError], str]] = [
    ("indices", ROWS + 3, NumericError, r"indices\[0\] is 7, not in \[0, 7\)"),
    ("indices", ROWS - 1, NumericError, r"indices\[1\] is -1"),
    ("indices", ROWS[:4], NumericError, r"LENGTHS\[2\] = 2 ends at 5, and there are 4 indices"),
    ("LENGTHS", LENGTHS - np.array([1, 0, 0], np.int32), NumericError, "LENGTHS add up to 4, and there are 5 indices"),
    ("LENGTHS", np.array([6, -3, 2], np.int32), NumericError, r"LENGTHS\[1\] is -3"),
    ("LENGTHS", LENGTHS[:2], ShapeError, "dY has 3 rows, there are 2 LENGTHS"),
    ("dY", values(3, 4), ShapeError, "a row of dY has 4 elements, one of W has 3"),
    ("dY", np.array(1, np.float32), ShapeError, "dY has rank 0"),
    ("M", values(6), ShapeError, r"M has"),
    ("lr", values(2), ShapeError, r"lr has the shape \(2\), it must have 1 element"),
    ("weights", values(2), ShapeError, "weights has 2 elements, the longest segment 3"),
]


@pytest.mark.parametrize(("letter", "value", "error", "text"), REFUSED)
@pytest.mark.parametrize("type", [type for type in TYPES if "Weighted" in type])
def test_refused(type: str, letter: str, value: Any, error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        update(type, given(type) | {letter: value})


@pytest.mark.parametrize("type", TYPES)
def test_what_is_not_said_so(type: str) -> None:
    with pytest.raises(ArgumentError, match="decay"):
        update(type, given(type), decay=0.5)
    inputs = given(type)
    outputs = ["other", "M", *(["dw"] if "weights" in inputs else [])]
    with pytest.raises(SchemaError, match="output W_next = 'other' must be in place of input W = 'W'"):
        run(operator_def(type, list(inputs), outputs), list(inputs.values()))
