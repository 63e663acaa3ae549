"""LC and its forms of fewer or more dimensions: against one sum for each place; and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, assert_close, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def connect(
    *, pads: Sequence[int] = (), strides: Sequence[int] = (), dilations: Sequence[int] = (), group: int = 1
) -> Any:
    """Return the layer as the definition says it: one sum for each output element, in float64."""

    def function(X: Array, W: Array, b: Array | None = None) -> Array:
        D = X.ndim - 2
        sides = pads if pads else [0] * (2 * D)
        step, spread = strides if strides else [1] * D, dilations if dilations else [1] * D
        x = np.pad(X.astype(np.float64), [(0, 0), (0, 0), *zip(sides[:D], sides[D:], strict=True)])
        out, M, Cg, kernel = W.shape[:D], W.shape[D], W.shape[D + 1], W.shape[D + 2 :]
        Y = np.zeros((X.shape[0], M, *out))
        for m, place in product(range(M), np.ndindex(*out)):
            first = m // (M // group) * Cg
            cover = [d * (k - 1) + 1 for k, d in zip(kernel, spread, strict=True)]
            where = [slice(p * s, p * s + c, d) for p, s, c, d in zip(place, step, cover, spread, strict=True)]
            seen = x[(slice(None), slice(first, first + Cg), *where)] * W[(*place, m)]
            Y[(slice(None), m, *place)] = seen.sum(axis=tuple(range(1, D + 2)))
            if b is not None:
                Y[(slice(None), m, *place)] += b[(*place, m)]
        return Y

    return function


def channels_last(function: Any, D: int = 2) -> Any:
    """Return the same layer for blobs whose channels stand last."""

    def moved(X: Array, W: Array, *b: Array) -> Array:
        return np.moveaxis(function(np.moveaxis(X, -1, 1), np.moveaxis(W, -1, D + 1), *b), 1, -1)

    return moved


def of_images(X: Array, W: Array, b: Array) -> Array:
    """Return the layer of a single place, which sees all of an image."""
    return (np.einsum("nchw,mchw->nm", X, W[0, 0]) + b[0, 0])[:, :, None, None]


STEP: dict[str, Any] = {"pads": [1, 0, 2, 1], "strides": [1, 2], "dilations": [2, 1]}
DEEP: dict[str, Any] = {"pads": [0, 1, 0, 1, 0, 1], "strides": [1, 2, 3]}
X, W, B = values(2, 3, 5, 6), values(4, 4, 7, 3, 2, 3), values(4, 4, 7)

CASES = [
    Case("LC", [X, W, B], connect(), {"kernels": [2, 3]}, batched=(0,)),
    Case("LC", [X, values(4, 3, 4, 3, 3, 2)], connect(**STEP), {"kernels": [3, 2], **STEP}, id="everything"),
    Case(
        "LC",
        [values(2, 6, 4, 5), values(3, 3, 4, 3, 2, 3), values(3, 3, 4)],
        connect(group=2),
        {"kernels": [2, 3], "group": 2},
        id="groups",
    ),
    Case(
        "LC",
        [values(2, 5, 6, 3), values(4, 4, 7, 2, 3, 3), B],
        channels_last(connect()),
        {"kernels": [2, 3], "order": "NHWC"},
        batched=(0,),
        id="nhwc",
    ),
    Case(
        "LC",
        [X, values(1, 1, 7, 3, 5, 6), values(1, 1, 7)],
        of_images,
        {"global_pooling": 1},
        slack=4,
        id="global",
    ),
    Case("LC1D", [values(2, 3, 7), values(6, 5, 3, 2), values(6, 5)], connect(), {"kernels": [2]}, batched=(0,)),
    Case("LC2D", [X, W], connect(), {"kernels": [2, 3]}),
    Case(
        "LC3D",
        [values(2, 3, 4, 5, 7), values(4, 2, 3, 2, 3, 2, 3, 2), values(4, 2, 3, 2)],
        connect(**DEEP),
        {"kernels": [2, 3, 2], **DEEP},
        slack=4,
    ),
]


@on_all_engines(CASES)
def test_locally_connected(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_equal_filters_make_a_convolution() -> None:
    shared = values(7, 3, 2, 3)
    found = run_op("LC", X, np.broadcast_to(shared, W.shape).copy(), kernels=[2, 3])
    assert_close(found, run_op("Conv", X, shared, kernels=[2, 3]), slack=4)


FORMS: list[tuple[dict[str, Any], str]] = [
    ({}, "dW db dX"),
    ({"no_bias": 1}, "dW dX"),
    ({"no_gradient_to_input": 1}, "dW db"),
    ({"no_bias": 1, "no_gradient_to_input": 1}, "dW"),
]


@pytest.mark.parametrize("engine", engines_of("LCGradient"))
@pytest.mark.parametrize(("args", "letters"), FORMS)
def test_forms_of_the_gradient(args: dict[str, Any], letters: str, engine: str) -> None:
    dY = values(2, 7, 4, 4)
    dW, dX = np.zeros(W.shape), np.zeros(X.shape)
    for n, m, i, j in np.ndindex(*dY.shape):
        dW[i, j, m] += dY[n, m, i, j] * X[n, :, i : i + 2, j : j + 3].astype(np.float64)
        dX[n, :, i : i + 2, j : j + 3] += dY[n, m, i, j] * W[i, j, m].astype(np.float64)
    wanted = {"dW": dW, "db": np.moveaxis(dY.astype(np.float64).sum(0), 0, -1), "dX": dX}
    definition = operator_def("LCGradient", ["X", "W", "dY"], letters.split(), kernels=[2, 3], **args)
    results, _ = run(definition, [X, W, dY], engine)
    for letter, result in zip(letters.split(), results, strict=True):
        assert_close(result, wanted[letter], slack=4)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, W, B[0, 0]], {"kernels": [2, 3]}, ShapeError, r"b has the shape \(7\), there are \(4, 4, 7\) places"),
    ([X, W[..., :2]], {"kernels": [2, 3]}, ShapeError, r"W has the kernel size \(2, 2\), it must be \(2, 3\)"),
    ([X, W[:, 1:]], {"kernels": [2, 3]}, ShapeError, r"W is for \(4, 3\) places, there are \(4, 4\)"),
    ([X, W[0]], {"kernels": [2, 3]}, ShapeError, r"W has 5 \(4, 7, 3, 2, 3\)"),
    ([X, W[:, :, :, :2]], {"kernels": [2, 3]}, ShapeError, "X has 3 channels, W takes 2 in each of 1 groups"),
    ([X, W[:, :, :, :1]], {"kernels": [2, 3], "group": 3}, ShapeError, "7 output channels do not divide into 3"),
    ([X, W], {"kernels": [2]}, ShapeError, r"X has 2 spatial dimensions \(2, 3, 5, 6\), the kernel has 1"),
    ([X, W], {}, ArgumentError, "no kernel size"),
    ([X.astype("d"), W], {"kernels": [2, 3]}, DTypeError, "X is float64"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("LC", *inputs, **args)


def test_a_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"dY has the shape \(2, 7, 4, 3\), Y has \(2, 7, 4, 4\)"):
        run_op("LCGradient", X, W, values(2, 7, 4, 3), kernels=[2, 3], outputs=3)


@pytest.mark.parametrize(
    ("inputs", "args", "outputs"),
    [
        ("x w b", {}, "w_grad b_grad x_grad"),
        ("x w", {}, "w_grad x_grad"),
        ("x w b", {"no_gradient_to_input": 1}, "w_grad b_grad"),
        ("x w", {"no_gradient_to_input": 1}, "w_grad"),
    ],
)
def test_emitted_gradients(inputs: str, args: dict[str, Any], outputs: str) -> None:
    (emitted,), _ = backward_pass([operator_def("LC", inputs.split(), ["y"], kernel=3, **args)], {"y": "y_grad"})
    assert (emitted.type, list(emitted.output)) == ("LCGradient", outputs.split())
    assert list(emitted.input) == ["x", "w", "y_grad"]
