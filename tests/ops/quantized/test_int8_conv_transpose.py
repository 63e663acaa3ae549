"""Transposed convolutions of bytes, against each place of X that adds its window to the result; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import run_op
from tazza.tensor import Int8Tensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized, real, whole

SCALE, POINT = 1.5, 110
TO: dict[str, Any] = {"order": "NHWC", "Y_scale": SCALE, "Y_zero_point": POINT}


def spread_by(how: dict[str, Any]) -> Any:
    """Return the formula with these arguments."""

    def formula(X: Int8Tensor, W: Int8Tensor, b: Int8Tensor) -> Int8Tensor:
        return spread(X, W, b, **how)

    return formula


def spread(X: Int8Tensor, W: Int8Tensor, b: Int8Tensor, **how: Any) -> Int8Tensor:
    """Add the window of one place after the other, and cut off the pads."""
    (sh, sw), (ah, aw) = how.get("strides", (1, 1)), how.get("adjs", (0, 0))
    top, left, bottom, right = how.get("pads", (0, 0, 0, 0))
    x, w = real(X), real(W)
    (N, H, V, _), (_, kH, kW, M) = x.shape, w.shape
    y = np.zeros((N, (H - 1) * sh + kH + ah, (V - 1) * sw + kW + aw, M))
    for i, j in np.ndindex(H, V):
        y[:, i * sh : i * sh + kH, j * sw : j * sw + kW] += np.einsum("nc,ckvm->nkvm", x[:, i, j], w)
    y = y[:, top : y.shape[1] - bottom, left : y.shape[2] - right]
    return quantized(y + b.data[:M] * np.float64(X.scale) * np.float64(W.scale), SCALE, POINT)


X, W, b = octets(2, 4, 5, 3), octets(3, 3, 2, 6, scale=0.02, zero_point=128), whole(6, 0.001)
STEP = {"strides": [2, 3], "adjs": [1, 2], "pads": [1, 0, 0, 1]}
GIVEN: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("plain", (X, W, b), {}),
    ("step", (X, W, b), STEP),
    ("shifted", (X._replace(zero_point=0), W._replace(zero_point=101), b), STEP),
    ("one more bias", (X, W, whole(7, 0.001)), {}),
    ("shifted, one more bias", (X, W._replace(zero_point=101), whole(7, 0.001)), {}),
    ("rows that no window reaches", (X, W, b), {"strides": [5, 1]}),
]
CASES = [
    Case(
        "Int8ConvTranspose",
        inputs,
        spread_by(how),
        {"kernels": [3, 2], **how, **TO},
        batched=(0,),
        id=name,
    )
    for name, inputs, how in GIVEN
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_scale_of_a_bias_does_not_count() -> None:
    results = [run_op("Int8ConvTranspose", X, W, c, kernels=[3, 2], **TO).data for c in (b, b._replace(scale=7.0))]
    np.testing.assert_array_equal(*results)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, W, b], {"order": "NCHW"}, ArgumentError, "NCHW"),
    ([X, W, b], {"group": 3}, ArgumentError, "no argument 'group'"),
    ([X, W, whole(5, 0.001)], {}, ShapeError, "b has 5 elements, W gives 6 output channels"),
    ([octets(2, 4, 5, 2), W, b], {}, ShapeError, "X has 2 channels, W takes 3"),
    ([X, W, b.data], {}, DTypeError, "must be PerTensor"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Int8ConvTranspose", *inputs, kernels=[3, 2], **args)
