"""Int8FC against products of the numbers that the bytes stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.operator import run_op
from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import by_channel, octets, quantized, real, whole

TO: dict[str, Any] = {"Y_scale": 0.3, "Y_zero_point": 110}


def expected(X: Int8Tensor, W: Int8Tensor, b: Int8Tensor) -> Int8Tensor:
    x, w = (real(one).reshape(len(one.data), -1) for one in (X, W))
    unit = np.float64(X.scale) * np.broadcast_to(np.reshape(W.scale, -1), len(w))
    return quantized(np.stack([x @ row for row in w], 1) + b.data * unit, 0.3, 110)


W, b = octets(6, 10, scale=0.02, zero_point=128), whole(6, 0.001)
CASES: list[Case] = [
    Case("Int8FC", inputs, expected, TO, batched=(0,), id=name)
    for name, inputs in (
        ("plain", (octets(3, 10), W, b)),
        ("image", (octets(3, 5, 2), W, b)),
        ("channels", (octets(3, 10), by_channel(W, 0.01, 0.03, 128), by_channel(b, 0.0005, 0.0015))),
        ("shifted", (octets(3, 10, zero_point=0), W._replace(zero_point=77), b)),
        ("other scales", (octets(3, 10), by_channel(W, 0.01, 0.03, 128), b)),
    )
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ShapeError, match="K = 9 elements, one of W 10"):
        run_op("Int8FC", octets(3, 9), W, b, **TO)


def test_the_parameters_of_another_engine_do_not_count() -> None:
    """Caffe2's CPU looks at the arguments alone; other engines of it read what a fourth input says."""
    x: Any = octets(3, 10)
    plain = run_op("Int8FC", x, W, b, **TO)
    np.testing.assert_array_equal(run_op("Int8FC", x, W, b, np.ones(2, np.float32), **TO).data, plain.data)
