"""Into bytes and back."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import run_op
from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import by_channel, octets, quantized, real

X = np.random.default_rng(1).standard_normal((2, 3, 5)).astype(np.float32)
BEYOND = np.array([-np.inf, -1e30, -3.0, 0.0, 3.0, 1e30, np.inf], np.float32)


def dequantized(q: Int8Tensor) -> NDArray[np.float32]:
    return real(q).astype(np.float32)


CASES = [
    Case("Int8Quantize", (X,), quantized(X, 0.02, 128), {"Y_scale": 0.02, "Y_zero_point": 128}, batched=(0,)),
    Case("Int8Quantize", (X * 100,), quantized(X * 100, 1.0), batched=(0,), id="no arguments"),
    Case(
        "Int8Quantize",
        (BEYOND,),
        quantized([-9, -9, -3, 0, 3, 999, 999], 0.1, 30),
        {"Y_scale": 0.1, "Y_zero_point": 30},
    ),
    Case("Int8Dequantize", (octets(2, 3, 5),), dequantized, batched=(0,)),
    Case("Int8Dequantize", (by_channel(octets(2, 3), 0.1, 0.3, 128),), dequantized),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_what_is_no_number_stands_for_0() -> None:
    found = run_op("Int8Quantize", np.array([np.nan, 1], np.float32), engine="reference", Y_scale=0.5, Y_zero_point=9)
    assert found.data.tolist() == [9, 11]


@pytest.mark.parametrize(
    ("scale", "point"),
    [(0.03, 128), (0.7, 2**20), (1.1, -(2**20)), (5e-38, 255), (3e37, -7), (3e38, 9)],
)
def test_compiled_steps_are_those_of_quotients(scale: float, point: int) -> None:
    draw = np.random.default_rng(7)
    step = np.float32(scale)
    steps = draw.integers(-300, 300, 5003) - point + draw.choice([0.0, 0.5], 5003)
    with np.errstate(over="ignore"):
        ties = (steps.astype(np.float32) * step).astype(np.float32)
    near = [np.nextafter(ties, np.float32(side)) for side in (-np.inf, np.inf)]
    x = np.concatenate([ties, *near, np.array([np.nan, np.inf, -np.inf, 0, -0.0, 3e38, -3e38, 1e-44], np.float32)])
    with np.errstate(over="ignore"):
        found = [
            run_op("Int8Quantize", x, engine=engine, Y_scale=scale, Y_zero_point=point).data
            for engine in ("native", "reference")
        ]
    np.testing.assert_array_equal(*found)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ArgumentError, match="not above 0"):
        run_op("Int8Quantize", X, Y_scale=0.0)
    with pytest.raises(DTypeError, match="insert an Int8Quantize"):
        run_op("Int8Dequantize", np.zeros(3, np.uint8))
    with pytest.raises(DTypeError, match="insert an Int8Dequantize"):
        run_op("Relu", octets(3))
