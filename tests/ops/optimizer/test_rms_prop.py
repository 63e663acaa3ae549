"""RMSProp: element after element, in any shapes that have as many elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import SchemaError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def by_hand(
    dW: Array, S: Array, M: Array, lr: Array, *, decay: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-5
) -> tuple[Array, ...]:
    """Update one element after the other."""
    results = np.zeros(dW.size, np.float32), np.zeros(S.shape, np.float32), np.zeros(M.shape, np.float32)
    for place in range(dW.size):
        g, square = float(dW.flat[place]), float(S.flat[place])
        square = decay * square + (1 - decay) * g * g
        step = momentum * float(M.flat[place]) + float(lr.flat[0]) * g / (square + epsilon) ** 0.5
        for result, value in zip(results, (step, square, step), strict=True):
            result.flat[place] = value
    return results[0].reshape(dW.shape), results[1], results[2]


RATE = np.array([0.3], np.float32)
GIVEN = [values(3, 5), values(3, 5, seed=1) ** 2, values(3, 5, seed=2), RATE]
SHAPES = [GIVEN[0], GIVEN[1].ravel(), GIVEN[2].reshape(5, 3), RATE.reshape(1, 1)]
OTHER: dict[str, Any] = {"decay": 0.5, "momentum": 0.75, "epsilon": 0.1}


def other(*given: Array) -> tuple[Array, ...]:
    """Update with the other arguments."""
    return by_hand(*given, **OTHER)


CASES = [
    Case("RmsProp", GIVEN, by_hand, outputs=3),
    Case("RmsProp", GIVEN, other, OTHER, 3, id="momentum"),
    Case("RmsProp", SHAPES, other, OTHER, 3, id="as many elements in other shapes"),
    Case("RmsProp", [*(one[:0] for one in GIVEN[:3]), RATE], by_hand, outputs=3, id="empty"),
]


@on_all_engines(CASES)
def test_rms_prop(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.slow
def test_it_descends() -> None:
    """The minimum of (w - 3)^2 is found from 0, all state in place, where the step is taken off."""
    w, state = np.zeros(1, np.float32), [np.ones(1, np.float32), np.zeros(1, np.float32)]
    definition = operator_def("RmsProp", ["dW", "S", "M", "lr"], ["dW", "S", "M"], momentum=0.5)
    for _ in range(200):
        (step, *state), _ = run(definition, [2 * (w - 3), *(one.copy() for one in state), np.array([0.05], "f")])
        w = w - step
    assert abs(w.item() - 3) < 0.1


REFUSED: list[tuple[list[Array], type[TazzaError], str]] = [
    ([GIVEN[0], GIVEN[1][:2], *GIVEN[2:]], ShapeError, r"S has the shape \(2, 5\), dW \(3, 5\)"),
    ([*GIVEN[:2], GIVEN[2][:2], RATE], ShapeError, r"M has the shape \(2, 5\), dW \(3, 5\)"),
    ([*GIVEN[:3], np.ones(2, "f")], ShapeError, r"lr has the shape \(2\), it must have 1 element"),
    (GIVEN[:3], SchemaError, "3 inputs"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Array], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("RmsProp", *inputs)
