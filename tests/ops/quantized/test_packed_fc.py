"""FbGemmPack, FbGemmPackTranspose, FbFCPacked: recorded; against the layer with rounded weights; what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import check_op
from tests.sequences import Sequence, on_sequences, recorded

CASES = [replace(recorded("packed_layers"), slack=1.0)]
X = np.random.default_rng(1).standard_normal((2, 3, 5)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((4, 5)).astype(np.float32)
B = np.arange(4, dtype=np.float32)


@on_sequences(CASES)
def test_recorded(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize("axis", [2, -1])
def test_weights_are_rounded(axis: int) -> None:
    rounded = W.astype(np.float16).astype(np.float64)
    wanted = np.einsum("abk,mk->abm", X.astype(np.float64), rounded) + B
    for packed in (run_op("FbGemmPack", W), run_op("FbGemmPackTranspose", W.T.copy())):
        np.testing.assert_allclose(run_op("FbFCPacked", X, packed, B, axis=axis), wanted, rtol=1e-5, atol=1e-5)


def test_extents_may_be_spread() -> None:
    packed = run_op("FbGemmPack", X)
    rounded = X.astype(np.float16).astype(np.float32).reshape(2, 15)
    np.testing.assert_array_equal(packed.weights, rounded)
    found = run_op("FbFCPacked", X, packed, B[:2], axis=1)
    np.testing.assert_allclose(found, X.reshape(2, 15) @ rounded.T + B[:2], rtol=1e-5, atol=1e-5)
    assert run_op("FbFCPacked", X[:0], packed, B[:2]).shape == (0, 2)
    assert run_op("FbFCPacked", X[0].ravel(), packed, B[:2], axis=0).shape == (2,)


def test_the_largest_numbers() -> None:
    packed = run_op("FbGemmPack", np.array([[1e6, -np.inf, 1e-9]], np.float32))
    np.testing.assert_array_equal(packed.weights, [[65504, -65504, 0]])


PACKED = run_op("FbGemmPack", W)
REFUSED: list[tuple[list[Any], type[Exception], str]] = [
    ([X[:, :, :3], PACKED, B], ShapeError, r"X gives K = 9 and b M = 4, the weights 'in1' are \(4, 5\)"),
    ([X[0], PACKED, B[:3]], ShapeError, r"X gives K = 5 and b M = 3, the weights"),
    ([X[0], W, B], DTypeError, "is a Tensor, not a"),
    ([X[0].astype(np.float64), PACKED, B], DTypeError, "X is float64"),
    ([X[0, 0], PACKED, B], ShapeError, "axis = 1 is not an axis of X"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("FbFCPacked", *inputs)


def test_weights_are_matrices_of_float32() -> None:
    for type in ("FbGemmPack", "FbGemmPackTranspose"):
        with pytest.raises(ShapeError, match="axis_w = 1 is not an axis of W"):
            run_op(type, B)
        with pytest.raises(DTypeError, match="W is float64"):
            run_op(type, W.astype(np.float64))
