"""MomentumSGD, MomentumSGDUpdate, those with decay: against the recurrence in float64, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines
from tests.ops.optimizer.of_rows import check_rows

Array = NDArray[Any]


def values(*shape: int) -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def expected(momentum: float, nesterov: bool) -> Any:
    """Return the update as the velocity form says it: v = W - W', with the look-ahead of Nesterov written out."""

    def update(dW: Array, M: Array, lr: Array, *W: Array) -> tuple[Array, ...]:
        g, m, rate = dW.astype(np.float64), M.astype(np.float64), float(lr.reshape(()))
        velocity = momentum * m.reshape(g.shape) + rate * g
        step = momentum * velocity + rate * g if nesterov else velocity
        return (step, velocity.reshape(M.shape), *(w - step.reshape(w.shape) for w in W))

    return update


LR = np.array([0.1], np.float32)
CASES = [
    Case("MomentumSGD", [values(2, 3), values(3, 2), LR], expected(0.0, False), id="plain"),
    Case("MomentumSGD", [values(4, 3), values(4, 3) + 1, LR], expected(0.9, False), {"momentum": 0.9}, batched=(0, 1)),
    Case("MomentumSGD", [values(5), values(5) + 1, LR[0]], expected(0.9, True), {"momentum": 0.9, "nesterov": 1}),
    Case(
        "MomentumSGDUpdate",
        [values(4, 3), values(4, 3) + 1, LR, values(4, 3) - 1],
        expected(0.9, False),
        {"momentum": 0.9},
    ),
    Case(
        "MomentumSGDUpdate",
        [values(4, 3), values(4, 3) + 1, LR, values(4, 3) - 1],
        expected(0.75, True),
        {"momentum": 0.75, "nesterov": 1},
        batched=(0, 1, 3),
        id="nesterov",
    ),
    Case(
        "MomentumSGDUpdate",
        [values(6), values(2, 3), LR, values(3, 2)],
        expected(0.5, False),
        {"momentum": 0.5},
        id="shapes",
    ),
]


def decayed(momentum: float, nesterov: bool, decay: float) -> Any:
    """Return the update of which the gradient is that of W^2 decay / 2 too."""
    plain = expected(momentum, nesterov)

    def update(dW: Array, M: Array, lr: Array, W: Array) -> tuple[Array, ...]:
        return plain(dW.astype(np.float64) + decay * W.reshape(dW.shape), M, lr, W.astype(np.float64))

    return update


def halves(*arrays: Array) -> list[Array]:
    """Return float16 numbers."""
    return [array.astype(np.float16) for array in arrays]


DECAYED = {"momentum": 0.75, "weight_decay": 0.25}
FULL = [values(4, 3), values(4, 3) + 1, LR, values(4, 3) - 1]
WITH_DECAY = [
    Case("FP32MomentumSGDUpdate", FULL, decayed(0.75, False, 0.25), DECAYED, batched=(0, 1, 3)),
    Case("FP32MomentumSGDUpdate", FULL, decayed(0.75, True, 0.25), DECAYED | {"nesterov": 1}, id="nesterov"),
    Case(
        "FP32MomentumSGDUpdate",
        [values(6), values(2, 3), LR, values(3, 2)],
        decayed(0.0, False, 0.5),
        {"weight_decay": 0.5},
        id="shapes",
    ),
    *(
        Case(
            "FP16MomentumSGDUpdate",
            [*halves(*FULL[:2]), LR, *halves(FULL[3])],
            decayed(0.75, bool(nesterov), 0.25),
            DECAYED | {"nesterov": nesterov, "fp32_update": 1 - nesterov},
            id=f"nesterov {nesterov}",
        )
        for nesterov in (0, 1)
    ),
]


@on_all_engines([*CASES, *WITH_DECAY])
def test_momentum_sgd(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(("nesterov", "wanted"), [(0, [9.2, 9.2, -4.2]), (1, [8.48, 9.2, -3.48])])
def test_it_subtracts_and_the_rate_is_inside_of_the_momentum(nesterov: int, wanted: list[float]) -> None:
    g, m, lr, p = (np.array([x], np.float32) for x in (2, 10, 0.1, 5))
    results = run_op("MomentumSGDUpdate", g, m, lr, p, momentum=0.9, nesterov=nesterov)
    np.testing.assert_allclose(np.concatenate(results), wanted, rtol=1e-6)


REFUSED: list[tuple[list[Any], type[Exception], str]] = [
    ([values(2), values(3), LR, values(2)], ShapeError, r"M has the shape \(3\), dW \(2\)"),
    ([values(2), values(2), LR, values(3)], ShapeError, r"W has the shape \(3\), dW \(2\)"),
    ([values(2), values(2), values(2), values(2)], ShapeError, r"lr has the shape \(2\), it must have 1 element"),
    ([values(2), values(2), values(0), values(2)], ShapeError, r"lr has the shape \(0\), it must have 1 element"),
    ([np.zeros(2), values(2), LR, values(2)], DTypeError, "dW is float64, it must be float32"),
]


def test_halves_and_floats_are_not_mixed() -> None:
    with pytest.raises(DTypeError, match="M is float32, it must be float16"):
        run_op("FP16MomentumSGDUpdate", *halves(values(2)), values(2), LR, *halves(values(2)))
    with pytest.raises(DTypeError, match="W is float16, it must be float32"):
        run_op("FP32MomentumSGDUpdate", values(2), values(2), LR, *halves(values(2)))


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("MomentumSGDUpdate", *inputs)


def test_no_gradient() -> None:
    op = find_schema("MomentumSGD").view(operator_def("MomentumSGD", ["g", "m", "lr"], ["g", "m"]))
    with pytest.raises(GradientError, match="must not be asked for its gradient"):
        gradient_for_op(op, ["g_grad", "m_grad"])


def test_rows() -> None:
    check_rows("SparseMomentumSGDUpdate", "MomentumSGDUpdate", momentum=0.75)
