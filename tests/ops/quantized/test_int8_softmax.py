"""Int8Softmax against shares in float64 of the numbers that the bytes stand for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized, real

X = octets(2, 3, 5, scale=0.02)


def expected(rows: int, scale: float = 1 / 256, point: int = 0) -> Callable[[Int8Tensor], Int8Tensor]:
    """Shares as 1 / sum of exp(x[j] - x[i]), cut into `rows`."""

    def shares(x: Int8Tensor) -> Int8Tensor:
        flat = real(x).reshape(rows if x.data.size else 0, x.data.size // rows)
        found = 1 / np.exp(flat[:, None, :] - flat[:, :, None]).sum(2)
        return quantized(found.reshape(x.data.shape), scale, point)

    return shares


OTHER = {"Y_scale": 0.005, "Y_zero_point": 7}
CASES = [
    Case("Int8Softmax", (X,), expected(2), id="from 1 on"),
    Case("Int8Softmax", (X,), expected(6), {"axis": -1}, id="last axis"),
    Case("Int8Softmax", (X,), expected(1, 0.005, 7), {"axis": 0, **OTHER}, id="all, other scale"),
    Case("Int8Softmax", (octets(4, 37, scale=0.5, zero_point=3),), expected(4), id="steep"),
    Case("Int8Softmax", (octets(3, 1),), expected(3), id="one of one"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)
