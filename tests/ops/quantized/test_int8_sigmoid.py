"""Int8Sigmoid against the logistic function of the numbers that the bytes stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized, real

X = octets(2, 3, 5)


def logistic(scale: float, point: int = 0) -> Callable[[Int8Tensor], Int8Tensor]:
    return lambda x: quantized((np.tanh(real(x) / 2) + 1) / 2, scale, point)


CASES = [
    Case("Int8Sigmoid", (X,), logistic(1 / 256), batched=(0,), id="as it stands"),
    Case("Int8Sigmoid", (X,), logistic(0.01, 20), {"Y_scale": 0.01, "Y_zero_point": 20}, id="other scale"),
    Case("Int8Sigmoid", (octets(4, 7, scale=2.0),), logistic(1 / 256), id="far from 0"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)
