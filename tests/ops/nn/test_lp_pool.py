"""LpPool and its gradient: against a loop over windows; norms of 1, 2 and very large; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, none of them near 0, the same in every run."""
    drawn = np.random.default_rng(sum(shape)).standard_normal(shape)
    return (drawn + np.sign(drawn) / 2).astype(np.float32)


def norms(p: float, kernel: list[int], stride: list[int], pads: list[int]) -> Any:
    """Return the norm of each window, of the part that lies in the image."""
    D = len(kernel)

    def function(X: Array) -> Array:
        image = X.shape[2:]
        out = [(n + pads[i] + pads[D + i] - kernel[i]) // stride[i] + 1 for i, n in enumerate(image)]
        Y = np.zeros((*X.shape[:2], *out))
        for place in np.ndindex(*out):
            start = [i * s - pad for i, s, pad in zip(place, stride, pads[:D], strict=True)]
            where = [slice(max(a, 0), min(a + k, n)) for a, k, n in zip(start, kernel, image, strict=True)]
            seen = X[(slice(None), slice(None), *where)].reshape(*X.shape[:2], -1).astype(np.float64)
            Y[(..., *place)] = np.linalg.norm(seen, ord=p, axis=2)
        return Y

    return function


def channels_last(function: Any) -> Any:
    """Return the same pooling for blobs whose channels stand last."""

    def moved(X: Array) -> Array:
        return np.moveaxis(function(np.moveaxis(X, -1, 1)), 1, -1)

    return moved


CASES = [
    Case("LpPool", [values(2, 3)], np.abs, {"kernel": 2}, id="no image"),
    Case("LpPool", [values(2, 3)], np.abs, {"kernel": 2, "order": "NHWC"}, id="no image of last channels"),
    Case("LpPool", [values(2, 3, 7, 6)], norms(2, [3, 2], [1, 1], [0] * 4), {"kernels": [3, 2]}, batched=(0,)),
    Case(
        "LpPool",
        [values(2, 3, 9, 8)],
        norms(3, [3, 4], [2, 3], [1, 0, 2, 3]),
        {"kernels": [3, 4], "strides": [2, 3], "pads": [1, 0, 2, 3], "p": 3.0},
        id="everything",
    ),
    Case(
        "LpPool",
        [values(2, 7, 6, 3)],
        channels_last(norms(1, [2, 2], [2, 2], [1] * 4)),
        {"kernel": 2, "stride": 2, "pad": 1, "order": "NHWC", "p": 1.0},
        batched=(0,),
        id="nhwc",
    ),
    Case("LpPool", [values(2, 3, 8)], norms(1.5, [3], [2], [2, 1]), {"kernels": [3], "strides": [2], "pads": [2, 1]}
         | {"p": 1.5}, id="1d"),
    Case("LpPool", [values(1, 2, 3, 4, 5)], norms(2, [2, 3, 2], [1] * 3, [0] * 6), {"kernels": [2, 3, 2]}, id="3d"),
    Case("LpPool", [values(2, 3, 5, 4)], norms(2, [5, 4], [1, 1], [0] * 4), {"global_pooling": 1}, id="global"),
    Case("LpPool", [values(2, 3, 5, 4)], norms(-1, [2, 2], [1, 1], [0] * 4), {"kernel": 2, "p": -1.0}, id="harmonic"),
    Case(
        "LpPoolGradient",
        [np.array([[[3, -4, 8]]], "f"), np.array([[[5, 8]]], "f"), np.array([[[10, 8]]], "f")],
        np.array([[[6, -12, 8]]]),
        {"kernels": [2]},
        batched=(0, 1, 2),
    ),
]  # fmt: skip


@on_all_engines(CASES)
def test_lp_pool(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_a_large_norm_is_the_largest() -> None:
    X = values(2, 3, 5, 4)
    np.testing.assert_allclose(
        run_op("LpPool", X, kernel=2, p=60.0), run_op("MaxPool", np.abs(X), kernel=2), rtol=0.025
    )


def test_there_is_no_slope_beside_zeros() -> None:
    zeros = np.zeros((1, 1, 2), "f")
    dX = run_op("LpPoolGradient", zeros, zeros[..., :1], zeros[..., :1] + 1, kernels=[2])
    assert np.isnan(dX).all()


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([values(2, 3, 5, 4)], {"kernel": 2, "pad": 2}, ArgumentError, r"pads \[2, 2, 2, 2\] must be smaller than the ker"),
    ([values(2, 3, 5, 4)], {"kernel": 2, "dilation": 2}, ArgumentError, "pooling takes no dilation"),
    ([values(2, 3, 5, 4)], {}, ArgumentError, "no kernel size"),
    ([values(2, 3, 5, 4)], {"kernel": 2, "p": 2}, ArgumentError, "'p'"),
    ([values(2, 3, 5, 4)], {"kernels": [2]}, ShapeError, "X has 2 spatial dimensions"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("LpPool", *inputs, **args)


@pytest.mark.parametrize("p", [1.5, 3.0, -1.0])
@pytest.mark.parametrize(
    ("shape", "args"),
    [
        ((2, 3, 9, 37), {"kernels": [2, 3], "strides": [2, 2], "pads": [1, 1, 0, 2]}),
        ((2, 3, 5, 40), {"kernels": [3, 2], "strides": [4, 1]}),
        ((2, 7, 6, 19), {"kernels": [3, 2], "strides": [2, 3], "order": "NHWC"}),
        ((2, 3, 5, 21), {"global_pooling": 1}),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_zeros_and_what_is_no_number(shape: tuple[int, ...], args: dict[str, Any], p: float) -> None:
    X = values(*shape)
    draw = np.random.default_rng(5)
    for odd, share in ((0.0, 0.4), (np.nan, 0.01), (np.inf, 0.01)):
        X[draw.random(shape) < share] = odd
    Y, expected = (run_op("LpPool", X, engine=engine, p=p, **args) for engine in ("native", "reference"))
    np.testing.assert_allclose(Y, expected, rtol=1e-5)
    dY = values(*expected.shape)
    found = [run_op("LpPoolGradient", X, expected, dY, engine=one, p=p, **args) for one in ("native", "reference")]
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-5)
