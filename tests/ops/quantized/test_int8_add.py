"""Sums of bytes against sums of the numbers that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized, real

A, B = octets(2, 3, 5), octets(2, 3, 5, scale=0.08, zero_point=90, seed=1)


def expected(relu: bool, scale: float, point: int) -> Any:
    def compute(a: Int8Tensor, b: Int8Tensor) -> Int8Tensor:
        total = real(a) + real(b)
        return quantized(np.maximum(total, 0) if relu else total, scale, point)

    return compute


CASES = [
    Case(
        type, (A, B), expected("Relu" in type, scale, point), {"Y_scale": scale, "Y_zero_point": point}, batched=(0, 1)
    )
    for type in ("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu")
    for scale, point in ((0.1, 100), (0.07, 0))
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)
