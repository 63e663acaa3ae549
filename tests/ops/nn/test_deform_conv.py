"""DeformConv and its gradient: point by point; without offsets a convolution; central differences; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, assert_close, check_op, on_all_engines

Array = NDArray[Any]
TYPE = "DeformConv"


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def bent(*shape: int) -> Array:
    """Return offsets of up to two pixels, none of which leads close to a pixel, where slopes jump."""
    random = np.random.default_rng(sum(shape))
    return (random.integers(-2, 2, shape) + random.uniform(0.1, 0.9, shape)).astype(np.float32)


def at(image: Array, y: float, x: float) -> float:
    """Return what is seen at a point of an image (H, W)."""
    H, W = image.shape
    if not (0 <= y < H and 0 <= x < W):
        return 0.0
    y, x = min(y, H - 1.0), min(x, W - 1.0)
    total = 0.0
    for row in (math.floor(y), math.floor(y) + 1):
        for column in (math.floor(x), math.floor(x) + 1):
            weight = max(0.0, 1 - abs(y - row)) * max(0.0, 1 - abs(x - column))
            total += weight * float(image[row, column]) if weight > 0 else 0.0
    return total


def convolve(*, pad: int = 0, stride: int = 1, dilation: int = 1, group: int = 1, alike: int = 1) -> Any:
    """Return the convolution, point by point; `alike` is the number of groups that are bent alike."""

    def function(X: Array, offset: Array, W: Array, b: Array | None = None) -> Array:
        (N, C), (M, Cg, kH, kW) = X.shape[:2], W.shape
        Y = np.zeros((N, M, *offset.shape[2:]))
        for n, m, p, q in np.ndindex(*Y.shape):
            Y[n, m, p, q] = 0 if b is None else b[m]
            for c, i, j in np.ndindex(Cg, kH, kW):
                channel = m // (M // group) * Cg + c
                first = 2 * (channel // (C // alike) * kH * kW + i * kW + j)
                y = p * stride - pad + i * dilation + float(offset[n, first, p, q])
                x = q * stride - pad + j * dilation + float(offset[n, first + 1, p, q])
                Y[n, m, p, q] += float(W[m, c, i, j]) * at(X[n, channel], y, x)
        return Y

    return function


X, W, B = values(2, 4, 5, 6), values(6, 4, 3, 2), values(6)
STEP: dict[str, Any] = {"pad": 1, "stride": 2}
CASES = [
    Case(TYPE, [X, bent(2, 12, 3, 5), W, B], convolve(), {"kernels": [3, 2]}, slack=4, batched=(0, 1)),
    Case(TYPE, [X, bent(2, 12, 3, 4), W], convolve(**STEP), {"kernels": [3, 2], **STEP}, slack=4, id="no bias"),
    Case(
        TYPE,
        [X, bent(2, 16, 3, 4), values(6, 2, 2, 2), B],
        convolve(dilation=2, group=2, alike=2),
        {"kernel": 2, "dilation": 2, "group": 2, "deformable_group": 2},
        slack=4,
        id="groups",
    ),
    Case(
        TYPE,
        [X, bent(2, 4, 5, 6), values(4, 1, 1, 1), B[:4]],
        convolve(group=4, alike=2),
        {"kernel": 1, "group": 4, "deformable_group": 2},
        slack=4,
        id="unlike groups",
    ),
]


@on_all_engines(CASES)
def test_deform_conv(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_without_offsets_it_is_a_convolution() -> None:
    args: dict[str, Any] = {"kernels": [3, 2], "pad": 1, "stride": 2}
    Y = run_op("Conv", X, W, B, **args)
    offset = np.zeros((2, 12, *Y.shape[2:]), "f")
    assert_close(run_op(TYPE, X, offset, W, B, **args), Y, slack=4)
    dY = values(*Y.shape)
    _, *bent_gradients = run_op(f"{TYPE}Gradient", X, offset, W, dY, **args, outputs=4)
    plain = run_op("ConvGradient", X, W, dY, **args, outputs=3)
    for one, other in zip(bent_gradients, plain, strict=True):
        assert_close(one, other, slack=10)


def test_beyond_the_last_pixel_and_outside() -> None:
    """Within a pixel of the last row there is what is in it; outside there is nothing, whatever the image holds."""
    x, one = np.array([[[[1, 2, np.inf]]]], "f"), np.ones((1, 1, 1, 1), "f")
    offset = np.zeros((1, 2, 1, 3), "f")
    offset[0, 0, 0], offset[0, 1, 0] = [0.5, -0.25, 7], [0.25, 0, 0]
    assert run_op(TYPE, x, offset, one, kernel=1).tolist() == [[[[1.25, 0, 0]]]]


FORMS: list[tuple[dict[str, Any], int]] = [
    ({}, 4),
    ({"no_bias": 1}, 3),
    ({"no_gradient_to_input": 1}, 3),
    ({"no_bias": 1, "no_gradient_to_input": 1}, 2),
]


@pytest.mark.parametrize(("args", "count"), FORMS)
def test_forms_of_the_gradient(args: dict[str, Any], count: int) -> None:
    given = [X, bent(2, 12, 3, 5), W, values(2, 6, 3, 5)]
    whole = run_op(f"{TYPE}Gradient", *given, kernels=[3, 2], outputs=4)
    every: dict[str, Array] = dict(zip(["o", "w", "b", "x"], whole, strict=True))
    letters = ["o", "w", *([] if "no_bias" in args else ["b"]), *([] if "no_gradient_to_input" in args else ["x"])]
    results = run_op(f"{TYPE}Gradient", *given, kernels=[3, 2], **args, outputs=count)
    for letter, result in zip(letters, results, strict=True):
        np.testing.assert_array_equal(result, every[letter])


OFFSET = bent(2, 12, 3, 5)
REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, OFFSET[:, :11], W], {}, ShapeError, r"offset has the shape \(2, 11, 3, 5\), it must be \(2, 12, 3, 5\)"),
    ([X, OFFSET[:1], W], {}, ShapeError, "N is"),
    ([X, OFFSET, W[:, :3]], {}, ShapeError, "X has 4 channels, W takes 3 in each of 1 groups"),
    ([X, OFFSET, W, B[:5]], {}, ShapeError, r"b has the shape \(5\), W has 6 output channels"),
    ([X, OFFSET, W], {"deformable_group": 3}, ShapeError, "4 channels of X do not divide into 3 groups"),
    ([X, OFFSET, W[:5]], {"deformable_group": 2}, ShapeError, "5 channels of W do not divide into 2 groups"),
    ([X, OFFSET, W], {"pads": [1, 0, 0, 0]}, ShapeError, r"pads \[1, 0, 0, 0\] are not the same before and behind"),
    ([X, OFFSET, W], {"order": "NHWC"}, ArgumentError, "'order'"),
    ([X.astype("d"), OFFSET, W], {}, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs, kernels=[3, 2], **args)


def test_gradients_that_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"dY has the shape \(2, 6, 3, 4\), Y has \(2, 6, 3, 5\)"):
        run_op(f"{TYPE}Gradient", X, OFFSET, W, values(2, 6, 3, 4), kernels=[3, 2], outputs=4)
    with pytest.raises(ArgumentError, match=r"4 outputs, with no_bias = 1 they are \(doffset, dW\) or"):
        run_op(f"{TYPE}Gradient", X, OFFSET, W, values(2, 6, 3, 5), kernels=[3, 2], no_bias=1, outputs=4)


@pytest.mark.parametrize(
    ("inputs", "args", "outputs"),
    [
        ("x o w b", {}, "o_grad w_grad b_grad x_grad"),
        ("x o w", {}, "o_grad w_grad x_grad"),
        ("x o w b", {"no_gradient_to_input": 1}, "o_grad w_grad b_grad"),
        ("x o w", {"no_gradient_to_input": 1}, "o_grad w_grad"),
    ],
)
def test_emitted_gradients(inputs: str, args: dict[str, Any], outputs: str) -> None:
    (step,), _ = backward_pass([operator_def(TYPE, inputs.split(), ["y"], kernel=3, **args)], {"y": "y_grad"})
    assert (step.type, list(step.input)) == (f"{TYPE}Gradient", ["x", "o", "w", "y_grad"])
    assert list(step.output) == outputs.split()
    assert [a.name for a in step.arg][:1] == (["kernel"] if "b" in inputs else ["no_bias"])
