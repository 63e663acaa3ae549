"""Adam: against the algorithm as the paper first writes it, with corrected moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, SchemaError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run
from tests.ops.optimizer.of_rows import check_rows

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def as_written(beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-5, outputs: int = 4) -> Any:
    """Return the function that gives W, M, V and the step, with epsilon moved to where the paper has it."""
    beta1, beta2, epsilon = (float(np.float32(value)) for value in (beta1, beta2, epsilon))

    def function(W: Array, M: Array, V: Array, dW: Array, lr: Array, iter: Array) -> tuple[Array, ...]:
        t, w, m, v, g = int(iter.reshape(())) + 1, *(one.ravel().astype(np.float64) for one in (W, M, V, dW))
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        corrected, root = m / (1 - beta1**t), np.sqrt(v / (1 - beta2**t))
        step = corrected / (root + epsilon / np.sqrt(1 - beta2**t))
        results = zip((w + lr.reshape(()) * step, m, v, step), (W, M, V, dW), strict=True)
        return tuple(result.reshape(like.shape) for result, like in results)[:outputs]

    return function


LR = np.array([-0.1], np.float32)
STATE = [values(3, 5), values(3, 5) * 2, np.abs(values(3, 5)) + 0.1, values(3, 5) + 1]
OTHER: dict[str, Any] = {"beta1": 0.5, "beta2": 0.9, "epsilon": 0.01}
CASES = [
    Case("Adam", [*STATE, LR, np.array([0])], as_written(outputs=3), batched=(0, 1, 2, 3), slack=2),
    Case("Adam", [*STATE, LR, np.array([7])], as_written(), outputs=4, slack=2, id="with the step"),
    Case("Adam", [*STATE, LR, np.array(1000)], as_written(**OTHER), OTHER, 4, slack=2, id="other decays"),
    Case(
        "Adam",
        [STATE[0], STATE[1].ravel(), STATE[2].T.copy(), STATE[3].reshape(5, 3), LR.reshape(()), np.array([[3]])],
        as_written(),
        outputs=4,
        slack=2,
        id="as many elements in other shapes",
    ),
]


@on_all_engines(CASES)
def test_adam(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.slow
def test_it_descends() -> None:
    """The minimum of (W - 3)^2 is found from 0, all state in place."""
    state = [np.zeros(1, np.float32)] * 3
    definition = operator_def("Adam", ["W", "M", "V", "dW", "lr", "iter"], ["W", "M", "V"])
    for iter in range(300):
        state, _ = run(definition, [*(one.copy() for one in state), 2 * (state[0] - 3), LR, np.array([iter])])
    assert abs(state[0].item() - 3) < 0.05


def test_no_gradient() -> None:
    definition = operator_def("Adam", ["W", "M", "V", "dW", "lr", "iter"], ["W", "M", "V"])
    with pytest.raises(GradientError, match="must not be asked for its gradient"):
        gradient_for_op(find_schema("Adam").view(definition), ["dW", None, None])


ITER = np.array([0])
REFUSED: list[tuple[list[Array], type[TazzaError], str]] = [
    ([*STATE[:3], STATE[3][:2], LR, ITER], ShapeError, r"W has the shape \(3, 5\), dW has 10 elements"),
    ([*STATE, np.ones(2, "f"), ITER], ShapeError, r"lr has the shape \(2\), it must have 1 element"),
    ([*STATE, LR, np.array([0, 1])], ShapeError, r"iter has the shape \(2\), it must have 1 element"),
    ([*STATE, LR, ITER.astype(np.int32)], DTypeError, "iter is int32, it must be int64"),
    ([*STATE, LR], SchemaError, "5 inputs"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Array], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Adam", *inputs)


def test_rows() -> None:
    check_rows("SparseAdam", "Adam", beta1=0.5, epsilon=0.1)
