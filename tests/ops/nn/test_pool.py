"""Pooling: against a plain loop over windows; sizes, ties and padding as recorded from Caffe2; and what is refused."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError, TazzaError
from tazza.operator import SCHEMAS, operator_def, run_op
from tazza.ops.nn.pool import pools
from tazza.tensor import Tensor
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, no two equal, the same in every run."""
    size = int(np.prod(shape))
    return (np.random.default_rng(size).permutation(size).astype(np.float32).reshape(shape) - size / 3) / 4


def ramp(*shape: int) -> Array:
    """Return 0, 1, 2 ... as float32 of that shape."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def pooled(kind: str, kernel: list[int], stride: list[int], pads: list[int], *, size: int | None = None) -> Any:
    """Return pooling as the definition says it, window by window; `size` is what sums are divided by."""
    D = len(kernel)

    def function(X: Array) -> Array:
        image = X.shape[2:]
        out = [(n + pads[i] + pads[D + i] - kernel[i]) // stride[i] + 1 for i, n in enumerate(image)]
        Y = np.zeros((*X.shape[:2], *out))
        for place in np.ndindex(*out):
            start = [p * s - pad for p, s, pad in zip(place, stride, pads[:D], strict=True)]
            where = [slice(max(a, 0), min(a + k, n)) for a, k, n in zip(start, kernel, image, strict=True)]
            seen = X[(slice(None), slice(None), *where)].reshape(*X.shape[:2], -1).astype(np.float64)
            total = seen.sum(axis=2) / (seen.shape[2] if size is None else size)
            Y[(..., *place)] = seen.max(axis=2) if kind == "max" else total
        return Y

    return function


def channels_last(function: Callable[[Array], Array]) -> Any:
    """Return the same pooling for blobs whose channels stand last."""

    def moved(X: Array) -> Array:
        return np.moveaxis(function(np.moveaxis(X, -1, 1)), 1, -1)

    return moved


SIDES = {"pad_t": 1, "pad_l": 0, "pad_b": 2, "pad_r": 3}


MAX = ("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
AVERAGE = ("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")


def cases(types: tuple[str, str, str, str], kind: str) -> list[Case]:
    """Return the cases whose windows follow from the arguments."""
    type, type_1d, type_2d, type_3d = types
    return [
        Case(type, [values(2, 3, 7, 6)], pooled(kind, [3, 2], [1, 1], [0] * 4), {"kernels": [3, 2]}, batched=(0,)),
        Case(
            type,
            [values(2, 3, 9, 8)],
            pooled(kind, [3, 4], [2, 3], [1, 0, 2, 3]),
            {"kernel_h": 3, "kernel_w": 4, "stride_h": 2, "stride_w": 3, **SIDES},
            id="everything",
        ),
        Case(
            type,
            [values(2, 7, 6, 3)],
            channels_last(pooled(kind, [2, 2], [2, 2], [1] * 4)),
            {"kernel": 2, "stride": 2, "pad": 1, "order": "NHWC"},
            batched=(0,),
            id="nhwc",
        ),
        Case(
            type_1d,
            [values(2, 3, 8)],
            pooled(kind, [3], [2], [2, 1]),
            {"kernels": [3], "strides": [2], "pads": [2, 1]},
        ),
        Case(type_2d, [values(1, 3, 7, 6)], pooled(kind, [2, 2], [3, 3], [0] * 4), {"kernel": 2, "stride": 3}),
        Case(
            type_3d,
            [values(2, 3, 5, 4, 6)],
            pooled(kind, [2, 3, 2], [1, 1, 2], [1, 0, 1, 0, 1, 1]),
            {"kernels": [2, 3, 2], "strides": [1, 1, 2], "pads": [1, 0, 1, 0, 1, 1]},
        ),
    ]


def sized_cases(type: str, kind: str) -> list[Case]:
    """Return the cases whose windows follow from the image: global, SAME, rounded up, cut to fewer dimensions."""
    return [
        Case(
            type,
            [values(2, 3, 5, 4)],
            pooled(kind, [5, 4], [1, 1], [0] * 4),
            {"global_pooling": 1},
            batched=(0,),
            id="global",
        ),
        Case(
            type,
            [values(2, 5, 4, 3)],
            channels_last(pooled(kind, [5, 4], [1, 1], [0] * 4)),
            {"global_pooling": 1, "order": "NHWC", "kernel": 2, "legacy_pad": 2},
            id="global-nhwc",
        ),
        Case(type, [values(2, 3, 8)], pooled(kind, [8], [1], [0, 0]), {"global_pooling": 1}, id="global-1d"),
        Case(
            type,
            [values(2, 3, 7, 6)],
            pooled(kind, [3, 3], [2, 2], [1, 0, 1, 1]),
            {"kernel": 3, "stride": 2, "legacy_pad": 2},
            id="same",
        ),
        Case(
            type,
            [values(2, 3, 6, 5)],
            pooled(kind, [3, 3], [2, 2], [0, 0, 1, 0]),
            {"kernel": 3, "stride": 2, "legacy_pad": 3},
            id="caffe",
        ),
        Case(type, [values(2, 3, 6)], pooled(kind, [2], [2], [1, 1]), {"kernel": 2, "stride": 2, "pad": 1}, id="cut"),
    ]


CASES = [
    *(Case(type, [ramp(2, 3)], np.positive, {"kernel": 2}, id="no image") for type in ("MaxPool", "AveragePool")),
    *cases(MAX, "max"),
    *cases(AVERAGE, "average"),
    *sized_cases("MaxPool", "max"),
    *sized_cases("AveragePool", "average"),
    Case(
        "AveragePool",
        [values(2, 3, 7, 6)],
        pooled("average", [3, 3], [2, 2], [1, 0, 2, 1], size=9),
        {"kernel": 3, "stride": 2, "pads": [1, 0, 2, 1], "count_include_pad": 1},
        id="padding counts",
    ),
]


@on_all_engines(CASES)
def test_pool(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize(
    ("args", "size"),
    [
        ({}, 2),
        ({"legacy_pad": 1}, 2),
        ({"legacy_pad": 2}, 3),
        ({"legacy_pad": 3}, 3),
        ({"legacy_pad": 3, "pad": 1}, 4),
        ({"legacy_pad": 3, "pads": [0, 0, 1, 1]}, 3),
    ],
)
def test_output_size(type: str, args: dict[str, Any], size: int) -> None:
    """Sizes round down; `legacy_pad` 2 and 3 round up, and 3 uses only the head pad."""
    assert run_op(type, ramp(1, 1, 6, 6), kernel=3, stride=2, **args).shape == (1, 1, size, size)


def test_caffe_drops_a_window_that_would_begin_in_the_padding() -> None:
    Y = run_op("AveragePool", ramp(1, 1, 5, 5), kernel=2, stride=2, pad=1, legacy_pad=3)
    np.testing.assert_array_equal(Y[0, 0], [[0, 1.5, 3.5], [7.5, 9, 11], [17.5, 19, 21]])


def test_stride_larger_than_kernel_may_cut_off_the_end() -> None:
    """SAME pads by a negative number then."""
    for type in ("MaxPool", "AveragePool"):
        Y = run_op(type, ramp(1, 1, 6, 6), kernel=1, stride=4, legacy_pad=2)
        np.testing.assert_array_equal(Y[0, 0], [[0, 4], [24, 28]])


@pytest.mark.parametrize(("include", "value"), [(0, 1.0), (1, 0.25)])
def test_padding_in_the_count(include: int, value: float) -> None:
    Y = run_op("AveragePool", np.ones((1, 1, 1, 1), np.float32), kernel=2, pad=1, count_include_pad=include)
    np.testing.assert_array_equal(Y, np.full((1, 1, 2, 2), value))


def test_rounding_up_counts_as_padding() -> None:
    Y = run_op(
        "AveragePool", np.ones((1, 1, 6), np.float32), kernels=[3], strides=[2], legacy_pad=3, count_include_pad=1
    )
    np.testing.assert_allclose(Y.ravel(), [1, 1, 2 / 3], rtol=1e-6)


def test_every_maximum_of_a_window_gets_its_gradient() -> None:
    X = np.array([[[[3, 3, 1], [3, 2, 3], [0, 3, 3]]]], np.float32)
    dY = np.array([[[[1, 2], [4, 8]]]], np.float32)
    dX = run_op("MaxPoolGradient", X, run_op("MaxPool", X, kernel=2), dY, kernel=2)
    np.testing.assert_array_equal(dX[0, 0], [[1, 3, 0], [5, 0, 10], [0, 12, 8]])


def test_padding_is_no_maximum() -> None:
    """Also where all of the image is -inf, which is what the padding is filled with."""
    X = np.full((1, 1, 2, 2), -np.inf, np.float32)
    (Y,), _ = run(operator_def("MaxPool", ["X"], ["Y"], kernel=2, pad=1), [X], "reference")
    np.testing.assert_array_equal(Y, np.full((1, 1, 3, 3), -np.inf))
    dX = run_op("MaxPoolGradient", X, Y, np.ones_like(Y), kernel=2, pad=1)
    np.testing.assert_array_equal(dX, np.full((1, 1, 2, 2), 4))


@pytest.mark.skipif("onednn" not in engines_of("MaxPool"), reason="there is no oneDNN")
def test_a_window_without_numbers_on_onednn() -> None:
    """docs/differences.md: oneDNN looks for a maximum above the least finite number, and passes over NaN."""
    X = np.array([[[[-np.inf, -np.inf], [np.nan, np.nan], [np.nan, 3]]]], np.float32)
    (Y,), _ = run(operator_def("MaxPool", ["X"], ["Y"], kernels=[1, 2]), [X], "onednn")
    np.testing.assert_array_equal(Y.ravel(), [np.finfo("f").min, np.finfo("f").min, 3])


def test_a_window_of_more_dimensions_is_cut() -> None:
    """`kernel=2` means two dimensions; of four pads a one-dimensional image takes the first two, as in Caffe2."""
    Y = run_op("AveragePool", ramp(1, 1, 4) + 1, kernel=3, pads=[1, 0, 0, 0])
    np.testing.assert_array_equal(Y.ravel(), [1.5, 2, 3])


def test_without_spatial_dimensions_it_copies() -> None:
    np.testing.assert_array_equal(run_op("MaxPool", ramp(2, 3), global_pooling=1), ramp(2, 3))


IMAGE = ramp(2, 3, 4, 5)

REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("MaxPool", [IMAGE], {}, ArgumentError, "no kernel size"),
    ("MaxPool", [IMAGE], {"kernel": 2, "pad": 2}, ArgumentError, r"pads \[2, 2, 2, 2\] must be smaller"),
    ("AveragePool", [IMAGE], {"kernel": 2, "pads": [0, 0, 0, 2]}, ArgumentError, r"pads \[0, 0, 0, 2\]"),
    ("MaxPool", [IMAGE], {"kernel": 2, "dilation": 2}, ArgumentError, r"takes no dilation, it is \[2, 2\]"),
    ("MaxPoolGradient", [IMAGE] * 3, {"kernel": 2, "dilation": 2}, ArgumentError, "takes no dilation"),
    ("MaxPool", [IMAGE], {"global_pooling": 1, "stride": 2}, ArgumentError, r"takes no stride, it is \[2, 2\]"),
    ("MaxPool", [IMAGE], {"global_pooling": 1, "pads": [0, 0, 1, 0]}, ArgumentError, "takes no pad"),
    ("MaxPool", [IMAGE], {"global_pooling": 1, "dilations": [1, 2]}, ArgumentError, "takes no dilation"),
    ("MaxPool", [IMAGE], {"kernel": 3, "legacy_pad": 2, "pad": 1}, ArgumentError, "SAME makes its own pads"),
    ("MaxPool", [IMAGE], {"kernel": 3, "legacy_pad": 1, "pad": 0}, ArgumentError, "VALID makes its own pads"),
    ("MaxPool", [IMAGE], {"kernel": 2, "stride_h": 2}, ArgumentError, "without effect here: 'stride_h'"),
    ("MaxPool", [IMAGE], {"kernel": 2, "count_include_pad": 1}, ArgumentError, "no argument 'count_include_pad'"),
    ("MaxPool", [IMAGE], {"kernel": 5}, ShapeError, r"covers 5 elements of dimension 0"),
    ("MaxPool", [ramp(1, 1, 2, 3, 4)], {"kernel": 2}, ShapeError, "X has 3 spatial dimensions"),
    ("MaxPool", [ramp(3)], {"global_pooling": 1}, ShapeError, "X has 1 dimensions"),
    ("MaxPool", [ramp(1, 2, 0, 3)], {"global_pooling": 1}, ShapeError, "no elements to pool"),
    ("MaxPool", [ramp(1, 1, 6, 6)], {"kernel": 1, "stride": 4, "legacy_pad": 3}, ShapeError, "begins at 8, the image"),
    ("MaxPool", [np.zeros((1, 1, 4, 4))], {"kernel": 2}, DTypeError, "X is float64, it must be float32"),
    ("MaxPoolGradient", [IMAGE] * 3, {"kernel": 2}, ShapeError, "Y has the shape"),
    ("AveragePoolGradient", [IMAGE, IMAGE[:, :, 1:, 1:], IMAGE], {"kernel": 2}, ShapeError, "dY has the shape"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_a_transposed_image_is_pooled_in_place_of_a_copy() -> None:
    """Channels-last memory of an NCHW tensor is only another stride."""
    X = Tensor.from_numpy(values(2, 5, 4, 3)).view((2, 3, 5, 4), strides=(60, 1, 12, 3))
    np.testing.assert_array_equal(run_op("MaxPool", X, kernel=2), run_op("MaxPool", X.plain().copy(), kernel=2))


KERNELS_BESIDE: list[dict[str, Any]] = [
    {},
    {"kernel": 0},
    {"kernel": 1},
    {"kernel": 7},
    {"kernels": [0, 0]},
    {"kernel_h": 0, "kernel_w": 0},
    {"kernel_h": 3, "kernel_w": 9},
]
OTHERS_BESIDE: list[dict[str, Any]] = [{}, {"stride": 1, "pad": 0}, {"pads": [0, 0, 0, 0], "dilation": 1}]


@pytest.mark.slow
def test_whatever_stands_beside_global_pooling() -> None:
    """Translated nets of Caffe say `kernel=0`; for every pooling operator, layout, engine and rule of padding."""
    X, types = values(2, 3, 4, 5), [type for type in pools if type.endswith(("Pool", "2D"))]
    for number, type in enumerate(types):
        for position, (kernel, others) in enumerate(itertools.product(KERNELS_BESIDE, OTHERS_BESIDE)):
            order = ("NCHW", "NHWC")[position % 2]
            args: dict[str, Any] = {
                "global_pooling": 1,
                "legacy_pad": (position + number) % 4,
                "order": order,
                **kernel,
                **others,
            }
            reduce = np.max if type.startswith("Max") else np.mean
            wanted = reduce(X, axis=(2, 3) if order == "NCHW" else (1, 2), keepdims=True)
            plain = run_op(f"{type}Gradient", X, wanted, wanted, global_pooling=1, order=order)
            for engine in engines_of(type):
                np.testing.assert_allclose(run_op(type, X, engine=engine, **args), wanted, rtol=1e-6)
                found = run_op(f"{type}Gradient", X, wanted, wanted, engine=engine, **args)
                np.testing.assert_allclose(found, plain, rtol=1e-6)


def test_a_kernel_of_0_takes_global_pooling() -> None:
    """In every operator with windows: none has one of no elements."""
    for type in sorted(SCHEMAS.keys()):
        args = SCHEMAS[type].args
        if "kernel" not in args or args["kernel"].minimum is None:  # ChannelShuffle takes one and reads none
            continue
        names = [f"in{i}" for i, spec in enumerate(SCHEMAS[type].inputs) if not spec.optional]
        outputs = [f"out{i}" for i, spec in enumerate(SCHEMAS[type].outputs) if not spec.optional]
        forms: list[dict[str, Any]] = [{"kernel": 0}, {"kernels": [2, 0]}, {"kernel_h": 0, "kernel_w": 2}]
        for given in forms:
            if not given.keys() <= args.keys():
                continue
            with pytest.raises(ArgumentError, match="below its minimum 1"):
                SCHEMAS[type].view(operator_def(type, names, outputs, **given))
