"""Convolutions whose window is the whole image, on the engine `native/row_product`: products of rows, in any order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tests.check import assert_ran, run

Array = NDArray[Any]
ENGINE = "native/row_product"

pytestmark = pytest.mark.skipif(why_unavailable("FC", "cpu", ENGINE) is not None, reason="nothing can be compiled here")


def arrays(N: int, C: int, image: tuple[int, ...], M: int, order: str = "NCHW") -> list[Array]:
    """Return X, W, b and S."""
    random = np.random.default_rng(7)
    X, W = ((count, *image, C) if order == "NHWC" else (count, C, *image) for count in (N, M))
    Y = (N, *[1] * len(image), M) if order == "NHWC" else (N, M, *[1] * len(image))
    return [random.standard_normal(shape).astype(np.float32) for shape in (X, W, (M,), Y)]


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize(
    ("N", "C", "image", "M"),
    [
        (1, 96, (1, 1), 24),
        (1, 3, (5, 7), 17),
        (3, 33, (1, 1), 1),
        (2, 5, (6,), 37),
        (1, 2, (3, 4, 5), 16),
    ],
)
def test_it_is_the_product_of_rows(N: int, C: int, image: tuple[int, ...], M: int, order: str) -> None:
    """Every element of an image meets that of a filter in the same place, whatever the order of the axes."""
    X, W, b, S = arrays(N, C, image, M, order)
    x, w = X.reshape(N, -1).astype(np.float64), W.reshape(M, -1).astype(np.float64)
    bound = 4e-7 * (np.abs(x) @ np.abs(w).T + np.abs(b))
    args: dict[str, Any] = {"kernels": list(image), "order": order}
    (Y,), operator = run(operator_def("Conv", ["X", "W", "b"], ["Y"], **args), [X, W, b], ENGINE)
    assert_ran(operator, ENGINE)
    assert Y.shape == S.shape
    assert (np.abs(Y.reshape(N, M) - (x @ w.T + b)) <= bound).all()
    (plain,), operator = run(operator_def("Conv", ["X", "W"], ["Y"], **args), [X, W], ENGINE)
    assert_ran(operator, ENGINE)
    assert (np.abs(plain.reshape(N, M) - x @ w.T) <= bound).all()
    fused: dict[str, Any] = {**args, "operands": 1, "epilogue": "max(y - s0, 0)"}
    for output in ("Y", "S"):
        definition = operator_def("FusedConv", ["X", "W", "b", "S"], [output], **fused)
        (found,), operator = run(definition, [X, W, b, S.copy()], ENGINE)
        assert_ran(operator, ENGINE)
        np.testing.assert_array_equal(found, np.maximum(Y - S, 0))


@pytest.mark.parametrize(
    ("image", "more"),
    [
        ((4, 4), {"kernel": 3}),
        ((3, 3), {"kernel": 3, "pad": 1}),
        ((2, 2), {"kernel": 3, "pads": [1, 1, 0, 0]}),
        ((3, 3), {"kernel": 3, "dilation": 2, "pads": [0, 0, 2, 2]}),
        ((1, 1), {"kernel": 1, "group": 2}),
        ((2, 2), {"kernel": 1, "stride": 2}),
    ],
)
def test_what_is_no_product_of_rows_is_refused(image: tuple[int, int], more: dict[str, Any]) -> None:
    X, W, b, _ = arrays(1, 4, image, 6)
    shape = (6, 4 // more.get("group", 1), more["kernel"], more["kernel"])
    assert "its window is not the whole image, in one group" in reason(X, np.resize(W, shape), b, **more)


def test_pads_that_no_window_reaches_and_steps_that_none_takes_do_not_matter() -> None:
    X, W, b, _ = arrays(1, 4, (1, 3), 6)
    usual: dict[str, Any] = {"kernels": [1, 3]}
    more: dict[str, Any] = {**usual, "strides": [2, 2], "pads": [0, 0, 1, 1], "dilations": [5, 1]}
    found = [run(operator_def("Conv", ["X", "W", "b"], ["Y"], **args), [X, W, b], ENGINE) for args in (usual, more)]
    for _, operator in found:
        assert_ran(operator, ENGINE)
    np.testing.assert_array_equal(found[0][0][0], found[1][0][0])


def test_images_of_no_elements_are_refused() -> None:
    X, W, b, _ = arrays(0, 4, (1, 1), 6)
    assert reason(X, W, b, kernel=1) == "there is nothing to compute"


def reason(X: Array, W: Array, b: Array, **more: Any) -> str:
    """Return why the engine does not take a convolution."""
    _, operator = run(operator_def("Conv", ["X", "W", "b"], ["Y"], **more), [X, W, b])
    (found,) = (choice.reason for choice in operator.choices if choice.engine == ENGINE)
    return str(found)


@pytest.mark.parametrize(("C", "image", "M"), [(1280, (1, 1), 1000), (480, (1, 1), 120), (16, (5, 5), 120)])
def test_it_is_taken_for_one_image(C: int, image: tuple[int, int], M: int) -> None:
    """And left for many, of which others read the weights once."""
    for N, expected in ((1, True), (64, False)):
        X, W, b, _ = arrays(N, C, image, M)
        _, operator = run(operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=image[0]), [X, W, b])
        told = {choice.engine: choice for choice in operator.choices}
        assert (operator.choices[-1].engine == ENGINE) is expected
        estimate_ns = told[ENGINE].estimate_ns
        assert estimate_ns is not None
        assert math.isclose(estimate_ns, N * W.nbytes * estimate_of_a_byte(), rel_tol=1e-6)


def estimate_of_a_byte() -> float:
    """Return what FC says of the same work, for each byte of the weights."""
    X, W, b, _ = arrays(1, 64, (1, 1), 32)
    _, operator = run(operator_def("FC", ["X", "W", "b"], ["Y"]), [X, W, b])
    (found,) = (choice.estimate_ns for choice in operator.choices if choice.engine == ENGINE)
    assert found is not None
    return found / W.nbytes
