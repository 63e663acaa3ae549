"""Record the operators on bytes, and those of half precision, as `record_golden` records the others.

It runs on Python 3.8 too:

    python3.8 tools/record_int8.py [FOLDER [TYPE ...]]

What Caffe2's CPU does not bear is not here, since it ends the process: another scale behind Int8Relu and Int8MaxPool,
another scale than 1 / 256 or another zero point than 0 behind Int8Softmax, and no rows for it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from record_golden import Call, Int8, main, signed

NHWC = {"order": "NHWC"}
RESULT = {"Y_scale": 1.25, "Y_zero_point": 110}
X_SCALE, W_SCALE = 0.05, 0.02


def octets(*shape: int, seed: int = 0) -> Any:
    """Return bytes of all values, the same in every run."""
    return np.random.RandomState(sum(shape) + seed).randint(0, 256, shape).astype(np.uint8)


def image(*shape: int, zero_point: int = 120) -> Int8:
    """Return bytes with the scale of X."""
    return Int8(octets(*shape), X_SCALE, zero_point)


def filters(*shape: int, zero_point: int = 128) -> Int8:
    """Return bytes with the scale of W."""
    return Int8(octets(*shape, seed=1), W_SCALE, zero_point)


def bias(count: int, scale: float = X_SCALE * W_SCALE) -> Int8:
    """Return whole numbers as biases are."""
    return Int8(np.random.RandomState(count).randint(-5000, 5000, count).astype(np.int32), scale, 0)


def layers() -> Any:
    """Convolutions and full connections: windows, groups, zero points; the scale of a bias does not count."""
    x, b = image(2, 5, 7, 4), bias(6)
    inputs = {"X": x, "W": filters(6, 3, 3, 4), "b": b}
    shifted = {**inputs, "W": filters(6, 3, 3, 4, zero_point=101)}
    step = {**NHWC, **RESULT, "kernels": [3, 3], "strides": [2, 1], "pads": [1, 0, 2, 1]}
    calls = [
        Call(inputs, ["Y"], {**NHWC, **RESULT, "kernel": 3}),
        Call(inputs, ["Y"], step),
        Call(shifted, ["Y"], {**NHWC, **RESULT, "kernel": 3, "pad": 1}),
        Call({**inputs, "b": bias(6, 1.0)}, ["Y"], {**NHWC, **RESULT, "kernel": 3}),
        Call({**inputs, "W": filters(6, 3, 3, 2)}, ["Y"], {**NHWC, **RESULT, "kernel": 3, "group": 2}),
        Call({"X": x, "W": filters(4, 3, 3, 1), "b": bias(4)}, ["Y"], {**NHWC, **RESULT, "kernel": 3, "group": 4}),
        Call({**inputs, "W": filters(6, 1, 1, 4)}, ["Y"], {**NHWC, "kernel": 1, "Y_scale": 0.2}),
        Call(inputs, ["Y"], {**NHWC, **RESULT, "kernel": 3, "pad": 2, "dilation": 2}),
    ]
    rows = {"X": image(3, 5, 2), "W": filters(6, 10), "b": b}
    full = [
        Call(rows, ["Y"], {"Y_scale": 0.3, "Y_zero_point": 110}),
        Call({**rows, "X": image(3, 10, zero_point=0), "W": filters(6, 10, zero_point=77)}, ["Y"], {"Y_scale": 0.5}),
        Call({**rows, "Qparam": signed(1)}, ["Y"], {"Y_scale": 0.3, "Y_zero_point": 110}),
    ]
    return [("Int8Conv", calls), ("Int8ConvRelu", calls), ("Int8FC", full), ("Int8ConvTranspose", turned(x))]


def turned(x: Int8) -> Any:
    """Transposed convolutions of four channels: windows, zero points; what dilation, groups and more biases do not."""
    to: dict[str, Any] = {**NHWC, **RESULT, "kernels": [3, 2]}
    inputs = {"X": x, "W": filters(4, 3, 2, 6), "b": bias(6)}
    step = {**to, "strides": [2, 3], "adjs": [1, 2], "pads": [1, 0, 0, 1]}
    return [
        Call(inputs, ["Y"], to),
        Call(inputs, ["Y"], step),
        Call({**inputs, "W": filters(4, 3, 2, 6, zero_point=77)}, ["Y"], to),
        Call({**inputs, "b": bias(9, 1.0)}, ["Y"], to),
        Call(inputs, ["Y"], {**to, "group": 2, "dilation": 2}),
        Call({**inputs, "W": filters(4, 1, 1, 6)}, ["Y"], {**NHWC, **RESULT, "kernel": 1, "stride": 2}),
        Call({**inputs, "X": image(0, 5, 7, 4)}, ["Y"], to),
        Call({**inputs, "X": image(1, 3, 2, 4)}, ["Y"], {**to, "Y_scale": 0.3, "Y_zero_point": 0}),
    ]


def regions() -> Any:
    """Regions of images, inside of them, beyond, and of no extent; the mean of none is the byte 0."""
    x = image(2, 5, 7, 3)
    same: dict[str, Any] = {**NHWC, "Y_scale": X_SCALE, "Y_zero_point": 120}
    rois = np.array([[0, 0.5, 1.25, 4.75, 3.5], [1, -3, -2, 9, 8], [1, 2.25, 1, 2.75, 1.5]], np.float32)
    outside = np.array([[1, -9, -8, -5, -4], [0, 0, 0, 30, 20], [1, 3, 3, 1, 1]], np.float32)
    sized: dict[str, Any] = {"pooled_h": 2, "pooled_w": 3}
    other: dict[str, Any] = {**NHWC, "Y_scale": 0.1, "Y_zero_point": 100, **sized, "sampling_ratio": 2}
    calls = [
        Call({"X": x, "rois": rois}, ["Y"], {**same, **sized}),
        Call({"X": x, "rois": rois}, ["Y"], {**other, "spatial_scale": 0.5}),
        Call({"X": x, "rois": rois}, ["Y"], {**other, "aligned": 1}),
        Call({"X": x, "rois": outside}, ["Y"], {**same, **sized}),
        Call({"X": image(2, 5, 7, 3, zero_point=0), "rois": outside}, ["Y"], other),
        Call({"X": x, "rois": rois[:, 1:].copy()}, ["Y"], {"Y_scale": X_SCALE, "Y_zero_point": 120}),
        Call({"X": x, "rois": rois[:0]}, ["Y"], {**same, **sized}),
    ]
    return [("Int8RoIAlign", calls)]


def pointwise() -> Any:
    """Sums, rectifiers, and into bytes and back."""
    a, b = image(2, 3, 5), Int8(octets(2, 3, 5, seed=2), 0.08, 90)
    to = {"Y_scale": 0.1, "Y_zero_point": 100}
    sums = [
        Call({"A": a, "B": b}, ["C"], to),
        Call({"A": a, "B": b}, ["B"], {"Y_scale": 0.07}),
        Call({"A": a, "B": a}, ["C"], to),
    ]
    x = np.array([[-5, -0.025, 0.025, 0.075, 0.125], [0.5, 1.5, 2.5, 3.5, 100]], np.float32)
    same = {"Y_scale": X_SCALE, "Y_zero_point": 120}
    leaky = [
        Call({"X": a}, ["Y"], {**to, "alpha": 0.3}),
        Call({"X": a}, ["X"], {"Y_scale": 0.02, "Y_zero_point": 128, "alpha": 0.3}),
        Call({"X": a}, ["Y"], same),
        Call({"X": a}, ["Y"], {}),
        Call({"X": Int8(octets(0, 5), X_SCALE, 120)}, ["Y"], to),
    ]
    return [
        *((name, sums) for name in ("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu")),
        ("Int8Relu", [Call({"X": a}, ["Y"], same), Call({"X": a}, ["X"], same)]),
        ("Int8LeakyRelu", leaky),
        (
            "Int8Quantize",
            [
                Call({"X": x}, ["Y"], {"Y_scale": 0.05, "Y_zero_point": 99}),
                Call({"X": x}, ["Y"], {}),
                Call({"X": signed(3, 4, 5), "Qparam": signed(1)}, ["Y"], {"Y_scale": 0.02, "Y_zero_point": 128}),
            ],
        ),
        ("Int8Dequantize", [Call({"X": one}, ["Y"], {}) for one in (a, b)]),
    ]


def pooling() -> Any:
    """Maxima, which keep the scale, and means, of which padding is a part."""
    x = image(2, 5, 7, 4)
    same = {**NHWC, "Y_scale": X_SCALE, "Y_zero_point": 120}
    other = {**NHWC, "Y_scale": 0.1, "Y_zero_point": 90}
    window = {"kernel": 3, "stride": 2}
    most = [Call({"X": x}, ["Y"], {**same, **window, **pad}) for pad in ({}, {"pad": 1})]
    mean = [Call({"X": x}, ["Y"], {**to, **window, **pad}) for to in (same, other) for pad in ({}, {"pad": 1})]
    whole = Call({"X": x}, ["Y"], {**other, "global_pooling": 1})
    return [
        *((name, most) for name in ("Int8MaxPool", "Int8MaxPoolRelu")),
        *((name, [*mean, whole]) for name in ("Int8AveragePool", "Int8AveragePoolRelu")),
    ]


def softmax() -> Any:
    """Shares of a whole, of rows that end in one, of rows that do not, and of such as are cut at 255."""
    to = {"Y_scale": 1 / 256}
    steep, one = Int8(octets(4, 7), 0.5, 3), Int8(octets(3, 1), X_SCALE, 0)
    calls = [
        Call({"X": x}, ["Y"], to) for x in (image(3, 5), image(2, 3, 4), Int8(octets(3, 5), 0.004, 255), steep, one)
    ]
    return [("Int8Softmax", calls)]


def arrangements() -> Any:
    """Bytes in another order or shape, and shares."""
    x, images, same = image(2, 3, 4), image(2, 3, 4, 6), {"Y_scale": X_SCALE, "Y_zero_point": 120}
    sizes, first, behind = (np.array(one, np.int32) for one in ([4, 6], [0, 1, 0], [-1, 3, -1]))
    forms: dict[str, list[tuple[Int8, dict[str, Any]]]] = {
        "Int8Flatten": [(x, {}), (images, {"axis": 3})],
        "Int8Transpose": [(x, {"axes": [2, 0, 1]}), (images, {})],
        "Int8ChannelShuffle": [(images, {**NHWC, "group": g, "kernel": 1}) for g in (2, 3)],
        "Int8ResizeNearest": [
            (images, {"height_scale": 1.5, "width_scale": 0.5}),
            (images, {"output_size": [7, 5]}),
            (images, {"height_scale": 0.7, "width_scale": 1.3}),
        ],
        "Int8Slice": [
            (x, {"starts": [0, 1, 0], "ends": [-1, 3, -1]}),
            (images, {"dim": 2, "start_idx": 1, "end_idx": -2}),
        ],
    }
    found: Any = {name: [Call({"X": one}, ["Y"], {**same, **by}) for one, by in runs] for name, runs in forms.items()}
    found["Int8Slice"].append(Call({"X": x, "first": first, "behind": behind}, ["Y"], dict(same)))
    biases = Int8(np.arange(-3, 3, dtype=np.int32).reshape(2, 3) * 70000, 0.001, 0)
    kept: dict[str, Any] = {"Y_scale": 0.001}
    found["Int8Flatten"].append(Call({"X": biases}, ["Y"], {**kept, "axis": 0}))
    found["Int8Slice"].append(Call({"X": biases}, ["Y"], {**kept, "starts": [0, 1], "ends": [-1, 2]}))
    reshaped = [Call({"X": x}, [Y, "old"], {**same, "shape": [0, -1]}) for Y in "YX"]
    reshaped += [Call({"X": x, "sizes": sizes}, ["Y", "old"], dict(same))]
    reshaped += [Call({"X": biases}, [Y, "old"], {**kept, "shape": [3, -1]}) for Y in "YX"]
    shares: Any = {"Y_scale": 1 / 256}
    joined = [
        Call({"X": x, "Y": image(2, 5, 4)}, ["Z"], {**same, "axis": 1}),
        Call({"X": images, "Y": image(2, 3, 4, 5)}, ["Z"], {**same, **NHWC}),
        Call({"X": x, "Y": image(7, 3, 4)}, ["Z"], dict(same)),
    ]
    return [
        *found.items(),
        ("Int8Reshape", reshaped),
        ("Int8Concat", joined),
        ("Int8Sigmoid", [Call({"X": one}, ["Y"], shares) for one in (image(3, 5), Int8(octets(4, 7), 0.5, 3))]),
    ]


def fills() -> Any:
    """Given integers."""
    to = {"Y_scale": 0.25, "Y_zero_point": 3}
    return [
        (
            "Int8GivenTensorFill",
            [
                Call({}, ["Y"], {"shape": [2, 3], "values": bytes([0, 1, 127, 128, 254, 255]), **to}),
                Call({}, ["Y"], {"shape": [2], "values": b"ab"}),
            ],
        ),
        (
            "Int8GivenIntTensorFill",
            [
                Call({}, ["Y"], {"shape": [3], "values": [1, -2, 70000], **to}),
                Call({}, ["Y"], {"shape": [2, 1], "values": [5, 6]}),
            ],
        ),
    ]


def halves() -> Any:
    """Half precision: ties, numbers beyond its range, and the smallest ones."""
    x = np.array([1.0009765, 65504, 70000, 1e-8, 6e-8, -0.0, np.inf, 1.00048828125, 2049, 2051], np.float32)
    wide = [x, signed(3, 5, 7), x[:0]]
    return [
        ("FloatToHalf", [Call({"X": one}, ["Y"], {}) for one in wide]),
        ("HalfToFloat", [Call({"X": one.astype(np.float16)}, ["Y"], {}) for one in wide]),
    ]


if __name__ == "__main__":
    main((layers, regions, pointwise, pooling, softmax, arrangements, fills, halves))
