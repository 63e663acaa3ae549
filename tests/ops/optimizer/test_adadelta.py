"""Adadelta: element after element; of rows: as whole parameters, row after row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, SchemaError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run
from tests.ops.optimizer.of_rows import check_rows

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def by_hand(
    W: Array, M: Array, D: Array, dW: Array, lr: Array, *, epsilon: float = 1e-5, decay: float = 0.95
) -> tuple[Array, ...]:
    """Update one element after the other."""
    results = tuple(np.zeros(one.shape, np.float32) for one in (W, M, D))
    for place in range(dW.size):
        w, m, d, g = (float(one.flat[place]) for one in (W, M, D, dW))
        m = decay * m + (1 - decay) * g * g
        step = (d + epsilon) ** 0.5 / (m + epsilon) ** 0.5 * g
        for result, value in zip(
            results, (w + float(lr.flat[0]) * step, m, decay * d + (1 - decay) * step * step), strict=True
        ):
            result.flat[place] = value
    return results


RATE = np.array([-0.3], np.float32)
GIVEN = [values(3, 5), values(3, 5, seed=1) ** 2, values(3, 5, seed=2) ** 2, values(3, 5, seed=3), RATE]
SHAPES = [GIVEN[0], GIVEN[1].ravel(), GIVEN[2].reshape(5, 3), GIVEN[3].reshape(5, 3), RATE.reshape(1, 1)]
OTHER: dict[str, Any] = {"decay": 0.5, "epsilon": 0.1}


def other(*given: Array) -> tuple[Array, ...]:
    """Update with the other arguments."""
    return by_hand(*given, **OTHER)


CASES = [
    Case("Adadelta", GIVEN, by_hand, outputs=3),
    Case("Adadelta", GIVEN, other, OTHER, 3, id="other decay"),
    Case("Adadelta", SHAPES, other, OTHER, 3, id="as many elements in other shapes"),
    Case("Adadelta", [*(one[:0] for one in GIVEN[:4]), RATE], by_hand, outputs=3, id="empty"),
]


@on_all_engines(CASES)
def test_adadelta(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.slow
def test_it_descends() -> None:
    """The minimum of (W - 3)^2 is found from 0, all state in place."""
    state = [np.zeros(1, np.float32)] * 3
    definition = operator_def("Adadelta", ["W", "M", "D", "dW", "lr"], ["W", "M", "D"], epsilon=0.01)
    for _ in range(300):
        state, _ = run(definition, [*(one.copy() for one in state), 2 * (state[0] - 3), np.array([-1.0], "f")])
    assert abs(state[0].item() - 3) < 0.05


def test_rows() -> None:
    check_rows("SparseAdadelta", "Adadelta", decay=0.5, epsilon=0.1)


def test_an_index_of_no_row() -> None:
    definition = operator_def("SparseAdadelta", ["W", "M", "D", "i", "dW", "lr"], ["W", "M", "D"])
    with pytest.raises(NumericError, match="indices"):
        run(definition, [*(np.array(one) for one in GIVEN[:3]), np.array([3]), GIVEN[3][:1], RATE])


REFUSED: list[tuple[list[Array], type[TazzaError], str]] = [
    ([*GIVEN[:3], GIVEN[3][:2], RATE], ShapeError, r"W has the shape \(3, 5\), dW \(2, 5\)"),
    ([GIVEN[0], GIVEN[1][:2], *GIVEN[2:]], ShapeError, r"M has the shape \(2, 5\), dW \(3, 5\)"),
    ([*GIVEN[:2], GIVEN[2][:2], *GIVEN[3:]], ShapeError, r"D has the shape \(2, 5\), dW \(3, 5\)"),
    ([*GIVEN[:4], np.ones(2, "f")], ShapeError, r"lr has the shape \(2\), it must have 1 element"),
    (GIVEN[:4], SchemaError, "4 inputs"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Array], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Adadelta", *inputs)
