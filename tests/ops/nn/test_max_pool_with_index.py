"""MaxPoolWithIndex and its gradient: window by window; ties, NaN, half precision, empty windows; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, evaluate, on_all_engines, run

Array = NDArray[Any]
TYPE = "MaxPoolWithIndex"
LOWEST = float(np.finfo("f").min)


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, no two equal, the same in every run."""
    size = math.prod(shape)
    return (np.random.default_rng(size).permutation(size).astype(np.float32).reshape(shape) - size / 3) / 4


def pooled(kernel: list[int], stride: list[int], pads: list[int]) -> Any:
    """Return the largest of each window, and where it stands."""

    def function(X: Array) -> tuple[Array, Array]:
        H, W = X.shape[2:]
        h = (H + pads[0] + pads[2] - kernel[0]) // stride[0] + 1
        w = (W + pads[1] + pads[3] - kernel[1]) // stride[1] + 1
        Y, index = np.zeros((*X.shape[:2], h, w)), np.zeros((*X.shape[:2], h, w), int)
        for n, c, i, j in np.ndindex(*Y.shape):
            y, x = i * stride[0] - pads[0], j * stride[1] - pads[1]
            rows, columns = range(max(y, 0), min(y + kernel[0], H)), range(max(x, 0), min(x + kernel[1], W))
            inside = {(a, b): float(X[n, c, a, b]) for a in rows for b in columns}
            place = max(inside, key=lambda at: inside[at]) if inside else (0, -1)
            Y[n, c, i, j], index[n, c, i, j] = inside.get(place, LOWEST), place[0] * W + place[1]
        return Y, index.reshape(-1)

    return function


def given_back(kernel: list[int], stride: list[int], pads: list[int]) -> Any:
    """Return what each window gives to the place that its index names, if that lies in the window."""

    def function(X: Array, dY: Array, index: Array) -> Array:
        (H, W), dX, places = X.shape[2:], np.zeros(X.shape), index.reshape(dY.shape)
        for n, c, i, j in np.ndindex(*dY.shape):
            y, x = divmod(int(places[n, c, i, j]), W)
            down, right = y - i * stride[0] + pads[0], x - j * stride[1] + pads[1]
            if 0 <= y < H and 0 <= down < kernel[0] and 0 <= right < kernel[1]:
                dX[n, c, y, x] += dY[n, c, i, j]
        return dX

    return function


def backward(X: tuple[int, ...], kernel: list[int], stride: list[int], pads: list[int], seed: int = 5) -> Case:
    """Return a case of the gradient whose indices are those of X, but for some that are drawn from everywhere."""
    x, draw = values(*X), np.random.default_rng(seed)
    Y, found = pooled(kernel, stride, pads)(x)
    index: Array = found
    for place in np.flatnonzero(draw.random(index.size) < 0.2):
        index[place] = draw.integers(-2, X[2] * X[3] + 2)
    args = {"kernels": kernel, "strides": stride, "pads": pads}
    inputs = [x, values(*Y.shape), index.astype("i")]
    return Case(f"{TYPE}Gradient", inputs, given_back(kernel, stride, pads), args, id=f"{X} {kernel} {stride} {pads}")


X = values(2, 3, 7, 5)
SIDES: dict[str, Any] = {"kernels": [3, 2], "strides": [2, 3], "pads": [1, 0, 2, 1]}
CASES = [
    Case(TYPE, [X], pooled([3, 2], [1, 1], [0] * 4), {"kernels": [3, 2]}, batched=(0,)),
    Case(TYPE, [X], pooled([3, 2], [2, 3], [1, 0, 2, 1]), {**SIDES, "order": "NCHW"}, batched=(0,), id="everything"),
    Case(TYPE, [X], pooled([7, 5], [1, 1], [0] * 4), {"global_pooling": 1}, id="global"),
    Case(TYPE, [X], pooled([1, 1], [2, 2], [1] * 4), {"kernel": 1, "stride": 2, "pad": 1}, id="windows of padding"),
    Case(TYPE, [X], pooled([3, 3], [2, 2], [1, 1, 1, 1]), {"kernel": 3, "stride": 2, "legacy_pad": 2}, id="same"),
    Case(
        f"{TYPE}Gradient",
        [X[:1, :1, :2, :3], np.array([[[[1, 2], [4, 8]]]], "f"), np.array([1, 1, 0, -1], "i")],
        np.array([[[[0, 3, 0], [0, 0, 0]]]]),
        {"kernels": [1, 2]},
        id="outside of its window",
    ),
    backward((2, 3, 7, 5), [3, 2], [2, 1], [1, 0, 2, 1]),  # windows that overlap, and below those that do not
    backward((2, 1, 6, 38), [2, 2], [2, 2], [0] * 4),
    backward((1, 2, 5, 67), [2, 3], [3, 3], [1, 2, 0, 1]),
    backward((1, 2, 9, 71), [3, 2], [4, 4], [0, 1, 2, 0]),
    backward((3, 1, 4, 19), [1, 1], [2, 1], [0] * 4),
    backward((1, 1, 6, 41), [2, 5], [2, 6], [1, 3, 1, 4]),
]


@on_all_engines(CASES)
def test_max_pool_with_index(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("args", [{"kernels": [3, 2]}, SIDES, {"global_pooling": 1}], ids=str)
def test_gradient(args: dict[str, Any]) -> None:
    """The gradient of Y is a float64 central difference; that of whole numbers there is none."""
    (Y, index), operator = run(operator_def(TYPE, ["x"], ["y", "i"], **args), [X])
    (step,), gradients = gradient_for_op(operator.op, ["y_grad", None])
    assert (step.type, list(step.input), gradients) == (f"{TYPE}Gradient", ["x", "y_grad", "i"], ["x_grad"])
    random = np.random.default_rng(3)
    dY = random.standard_normal(Y.shape).astype("f")
    direction: Array = random.standard_normal(X.shape)
    (dX,), _ = run(step, [X, dY, index])
    high, low = (evaluate(operator.op, [X + s * 1e-4 * direction])[0] for s in (1, -1))
    assert float((dX * direction).sum()) == pytest.approx(float((dY * (high - low)).sum()) / 2e-4, rel=1e-4)


def test_the_first_of_equal_ones_and_no_nan() -> None:
    odd = np.array([np.nan, 2, 2, np.nan, -np.inf, np.nan], "f").reshape(1, 1, 2, 3)
    for x, kernel, largest, places in ((odd, [2, 2], [2, 2], [1, 1]), (odd[..., :1], [2, 1], [LOWEST], [-1])):
        Y, index = run_op(TYPE, x, kernels=kernel)
        assert (Y.ravel().tolist(), index.tolist()) == (largest, places)


def test_half_precision() -> None:
    (Y, index), (Y32, index32) = (run_op(TYPE, x, kernel=2, stride=2) for x in (X.astype("e"), X))
    assert Y.dtype == np.float16
    np.testing.assert_array_equal(Y, Y32.astype("e"))
    np.testing.assert_array_equal(index, index32)
    dX = run_op(f"{TYPE}Gradient", X.astype("e"), Y, index, kernel=2, stride=2)
    assert dX.dtype == np.float16
    assert dX.sum(dtype=np.float64) == Y.sum(dtype=np.float64)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X[0]], {"kernel": 2}, ShapeError, "X"),
    ([X], {"kernel": 2, "order": "NHWC"}, ArgumentError, "'order'"),
    ([X], {"kernel": 2, "dilation": 2}, ArgumentError, "pooling takes no dilation"),
    ([X], {"kernels": [2, 2, 2]}, ArgumentError, r"the kernel \[2, 2, 2\] has 3 dimensions, images have 2"),
    ([X], {}, ArgumentError, "no kernel size"),
    ([X.astype("d")], {"kernel": 2}, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs, **args)


def test_a_gradient_that_does_not_fit_is_refused() -> None:
    Y, index = run_op(TYPE, X, kernel=2)
    with pytest.raises(ShapeError, match=r"dY has the shape \(1, 3, 6, 4\), pooling X gives \(2, 3, 6, 4\)"):
        run_op(f"{TYPE}Gradient", X, Y[:1], index, kernel=2)
    with pytest.raises(ShapeError, match=r"Index has 9 elements \(9\), Y has 144"):
        run_op(f"{TYPE}Gradient", X, Y, index[:9], kernel=2)
