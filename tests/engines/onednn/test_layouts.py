"""Kernels on images that lie row-major, with the channels last, or in oneDNN's blocks: equal numbers, native calls."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tazza.engines.onednn.library import unavailable
from tazza.tensor import channels_last
from tests.engines.onednn.layouts import Relaid, Ways, blocked, check_ways, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

IMAGE = (2, 19, 7, 6)
X, DY = numbers(*IMAGE), numbers(*IMAGE[::-1]).transpose(3, 2, 1, 0).copy()
VECTORS = [numbers(19), numbers(20)[1:].copy(), numbers(21)[2:].copy(), np.abs(numbers(22)[3:]) + 0.5]
LRN = {"size": 5, "alpha": 0.5, "beta": 0.75, "bias": 1.5}
POOL = {"kernels": [3, 2], "strides": [2, 2], "pads": [1, 0, 0, 1]}
POOLED = numbers(2, 19, 3, 3)
GRADIENT = [X, VECTORS[0], DY, X.mean(axis=(0, 2, 3)), 1 / np.sqrt(X.var(axis=(0, 2, 3)) + 1e-5)]

CASES = [
    Relaid("MaxPool", [X], POOL),
    Relaid("AveragePool", [X], POOL),
    Relaid("AveragePool", [X], POOL | {"count_include_pad": 1}),
    Relaid("AveragePool", [X], {"global_pooling": 1}, slack=2),
    Relaid("AveragePoolGradient", [X, POOLED, POOLED], POOL, images=(0, 1, 2)),
    Relaid("SpatialBN", [X, *VECTORS], {"is_test": 1}),
    Relaid("SpatialBN", [X, *VECTORS], {"is_test": 1}, in_place={0: 0}),
    Relaid("SpatialBN", [X, *VECTORS], {"is_test": 0}, outputs=5, in_place={1: 3, 2: 4}, slack=3),
    Relaid("SpatialBNGradient", GRADIENT, images=(0, 2), outputs=3, slack=10),
]

NATIVE = [
    Relaid("Relu", [X]),
    Relaid("Relu", [X], in_place={0: 0}),
    Relaid("ReluGradient", [X, DY], images=(0, 1)),
    Relaid("ReluGradient", [X, DY], images=(0, 1), in_place={0: 1}),
    Relaid("Tanh", [X]),
    Relaid("SwishGradient", [X, X / (1 + np.exp(-X)), DY], images=(0, 1, 2)),
    Relaid("Sub", [X, DY], images=(0, 1), in_place={0: 1}),
    Relaid("Sum", [X, DY], images=(0, 1)),
    Relaid("Sum", [X, DY], images=(0, 1), in_place={0: 0}),
    Relaid("Sum", [X, DY, X], images=(0, 1, 2)),
]
"""Compiled formulas, which go through blocks as they lie."""
PLAIN = [Relaid("Sigmoid", [X], in_place={0: 0}), Relaid("Div", [X, np.abs(DY) + 1], images=(0, 1))]
"""Those that make something of 0, which fills blocks up and has to stay there."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.type)
def test_ways(case: Relaid) -> None:
    check_ways(case)


@pytest.mark.parametrize("case", NATIVE, ids=lambda case: case.type)
def test_ways_of_compiled_formulas(case: Relaid) -> None:
    check_ways(replace(case, engine="native"))


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.type)
def test_ways_of_formulas_that_make_something_of_zero(case: Relaid) -> None:
    check_ways(replace(case, engine="native"), [row_major, channels_last])


def test_lrn() -> None:
    """Dense channels are the layout for which there is generated code, whatever C is."""
    check_ways(Relaid("LRN", [X], LRN, outputs=2, slack=3), [channels_last])


def test_lrn_gradient_has_dense_channels() -> None:
    """Also where X comes row-major."""
    case = Relaid("LRN", [X], LRN)
    (Y,), _ = case.run("reference", row_major)
    check_ways(Relaid("LRNGradient", [X, Y, DY], LRN, images=(0, 1, 2), slack=3), [channels_last])
    _, operator = Relaid("LRNGradient", [X, Y, DY], LRN).run("onednn", row_major)
    assert operator.outputs[0].tensor().layout == channels_last(IMAGE)


def test_lrn_of_zeros() -> None:
    """Where X is 0, scale is bias all the same."""
    check_ways(Relaid("LRN", [np.zeros(IMAGE, np.float32)], LRN, outputs=2), [channels_last])


def test_concat_of_channels_last() -> None:
    parts = [X, numbers(2, 5, 7, 6), numbers(2, 3, 7, 6)]
    check_ways(Relaid("Concat", parts, images=(0, 1, 2), outputs=2), [row_major, channels_last])


def test_concat_of_mixed_layouts_takes_the_usual_one() -> None:
    parts = [X, numbers(2, 5, 7, 6), numbers(2, 3, 7, 6)]
    case = Relaid("Concat", parts, images=(1, 2), outputs=2)
    got, operator = case.run("onednn", channels_last)
    np.testing.assert_array_equal(got[0], np.concatenate(parts, axis=1))
    target = operator.outputs[0].tensor()
    assert target.layout == channels_last(target.shape)


def test_split_into_equal_parts_keeps_channels_last() -> None:
    case = Relaid("Split", [numbers(2, 18, 7, 6)], outputs=3, engine="native")
    check_ways(case, [row_major, channels_last])


def test_split_of_channels_last_into_unequal_parts() -> None:
    """One layout stands for all parts, so they are row-major."""
    case = Relaid("Split", [X], {"split": [5, 14]}, outputs=2)
    got, _ = case.run("native", channels_last)
    np.testing.assert_array_equal(got[0], X[:, :5])
    np.testing.assert_array_equal(got[1], X[:, 5:])


GROW = {"height_scale": 3.0, "width_scale": 2.0}


@pytest.mark.parametrize(
    "case",
    [
        Relaid("ResizeNearest", [X], GROW),
        Relaid("ResizeNearest", [X], {"width_scale": 1.7}),
        Relaid("ResizeNearestGradient", [numbers(2, 19, 21, 12), X], GROW, slack=2),
    ],
    ids=lambda case: case.type,
)
def test_resized_images_keep_their_order(case: Relaid) -> None:
    check_ways(replace(case, engine="native"), [row_major, channels_last])


@pytest.mark.parametrize("way", [row_major, channels_last, blocked])
def test_fully_connected_takes_the_image_as_it_lies(way: Ways) -> None:
    W, b, dY = numbers(9, 19 * 42), numbers(9), numbers(2, 9)
    forward = Relaid("FC", [X, W, b], slack=10)
    expected, _ = forward.run("reference", row_major)
    got, operator = forward.run("onednn", way)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-4, atol=1e-4)
    assert operator.inputs[0].tensor().layout == way(IMAGE)
    backward = Relaid("FCGradient", [X, W, dY], outputs=3)
    wanted, _ = backward.run("reference", row_major)
    found, _ = backward.run("onednn", way)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
