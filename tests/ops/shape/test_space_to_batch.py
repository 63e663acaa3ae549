"""SpaceToBatch and BatchToSpace: by loops, and one the inverse of the other; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(6).standard_normal((2, 3, 4, 6)).astype(np.float32)
B = np.random.default_rng(7).standard_normal((18, 2, 2, 1)).astype(np.float32)


def to_batch(b: int, *pads: int) -> Any:
    """Return a function that looks at each element: b and zeros above, below and beside."""

    def function(X: Array) -> Array:
        around = np.pad(X, ((0, 0), (0, 0), pads[:2], (pads[2], pads[2])))
        return np.concatenate([around[:, :, i::b, j::b] for i in range(b) for j in range(b)])

    return function


def to_space(X: Array) -> Array:
    """Return the images that 9 make up each."""
    N, C, h, w = X.shape
    Y = np.zeros((N // 9, C, 3 * h, 3 * w), X.dtype)
    for place in range(9):
        Y[:, :, place // 3 :: 3, place % 3 :: 3] = X[place * (N // 9) : (place + 1) * (N // 9)]
    return Y


CASES = [
    Case("SpaceToBatch", [X], to_batch(2, 0, 0, 0)),
    Case("SpaceToBatch", [X], to_batch(2, 1, 1, 1), {"pad": 1}, id="padded"),
    Case("SpaceToBatch", [X], to_batch(3, 2, 0, 0), {"block_size": 3, "pad_t": 2}, id="padded above"),
    Case("SpaceToBatch", [X[:0]], np.zeros((0, 3, 2, 3), "f"), id="nothing"),
    Case("BatchToSpace", [B], to_space, {"block_size": 3}),
    Case("BatchToSpace", [B], to_space(B)[:, :, 1:-1, 1:-1], {"block_size": 3, "pad": 1}, id="padded"),
    Case("BatchToSpace", [B], to_space(B)[:, :, 4:], {"block_size": 3, "pad_t": 4}, id="padded above"),
]


def test_one_is_the_inverse_of_the_other() -> None:
    there = run_op("SpaceToBatch", X, block_size=4, pad=3, pad_t=1)
    np.testing.assert_array_equal(run_op("BatchToSpace", there, block_size=4, pad=3, pad_t=1), X)


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("SpaceToBatch", [X], {"block_size": 4}, ShapeError, "both must be multiples of block_size = 4"),
    # Caffe2 ends the process.
    ("BatchToSpace", [B], {"block_size": 2}, ShapeError, "X has 18 images"),
    ("BatchToSpace", [B], {"block_size": 0}, ArgumentError, "block_size"),
    ("BatchToSpace", [B], {"block_size": 3, "pad": 2}, ShapeError, "pad is too large"),
    ("SpaceToBatch", [X], {"order": "NHWC"}, ArgumentError, "order"),
    ("SpaceToBatch", [X[0]], {}, ShapeError, "X"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
