"""Int8Relu against the rectified numbers that the bytes stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized, real

X = octets(2, 3, 5)


def expected(scale: float, point: int) -> Callable[[Int8Tensor], Int8Tensor]:
    return lambda x: quantized(np.maximum(real(x), 0), scale, point)


CASES = [
    Case("Int8Relu", (X,), expected(0.05, 120), batched=(0,), id="as X"),
    Case(
        "Int8Relu",
        (X,),
        expected(0.03, 7),
        {"Y_scale": 0.03, "Y_zero_point": 7},
        batched=(0,),
        id="other scale",
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)
