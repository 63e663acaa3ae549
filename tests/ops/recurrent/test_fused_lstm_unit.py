"""FusedLSTMUnit: the product in float64, and one unit after the other behind it."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines
from tests.ops.recurrent.test_lstm_unit import by_unit, values, whole

Array = NDArray[Any]


def by_hand(*given: Array, bias: float = 0.0, drop: bool = False) -> list[Array]:
    """Return gates, H and C."""
    X, W, b, rows, *rest = given
    x, w = X.reshape(-1, W[0].size).astype(np.float64), W.reshape(len(W), -1).astype(np.float64)
    gates = x @ w.T + b + rows
    return [gates, *by_unit(*rest[:2], gates, *rest[2:], bias=bias, drop=drop)]


def inputs(N: int, D: int, *K: int) -> list[Array]:
    """Return X, W, b, rows, H_prev and C_prev."""
    shapes = [(1, N, *K), (4 * D, *K), (4 * D,), (1, N, 4 * D), (1, N, D), (1, N, D)]
    return [values(*shape, seed=seed) / 2 for seed, shape in enumerate(shapes)]


STEP = whole(1)
CASES = [
    Case("FusedLSTMUnit", [*inputs(3, 5, 7), whole(0, 4, 2), STEP], by_hand, outputs=3),
    Case(
        "FusedLSTMUnit",
        [*inputs(2, 33, 3), whole(0, 4), STEP],
        partial(by_hand, drop=True, bias=0.5),
        {"drop_states": 1, "forget_bias": 0.5},
        outputs=3,
        id="states dropped",
    ),
    Case("FusedLSTMUnit", [*inputs(14, 6, 9), STEP], by_hand, {"sequence_lengths": 0}, outputs=3, id="two tiles"),
    Case("FusedLSTMUnit", [*inputs(2, 3, 2, 4), STEP], by_hand, {"sequence_lengths": 0}, outputs=3, id="W of rank 3"),
    Case("FusedLSTMUnit", [*inputs(0, 3, 2), STEP], by_hand, {"sequence_lengths": 0}, outputs=3, id="no sequences"),
]


@on_all_engines(CASES)
def test_fused_lstm_unit(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_inner_sizes_must_agree() -> None:
    X, W, *rest = inputs(2, 3, 5)
    with pytest.raises(ShapeError, match="has K = 4"):
        run_op("FusedLSTMUnit", X[:, :, :4], W, *rest, STEP, sequence_lengths=0, outputs=3)
