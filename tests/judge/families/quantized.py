"""Operators on bytes: windows with the channels last, and scales under which results are not all cut off."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.families.region import aligned
from tests.judge.families.window import KERNELS, conv_transpose, windowed
from tests.judge.hand import Array, Hand, Shape, Sketch, channels_of, divisors, draws, spatial_of

NHWC = ("NHWC",)


def octets(hand: Hand, shape: Shape) -> Array:
    """Return bytes of all values."""
    return hand.rng.integers(0, 256, shape).astype(np.uint8)


def bias(hand: Hand, count: int) -> Array:
    """Return the whole numbers of a bias."""
    return hand.rng.integers(-3000, 3000, count).astype(np.int32)


def result(hand: Hand, most: float) -> dict[str, Any]:
    """Return a scale and a zero point for a result; sometimes none."""
    if hand.chance(0.1):
        return {}
    return {"Y_scale": hand.real(most / 10, most), "Y_zero_point": hand.integer(0, 255)}


@draws("Int8Conv", "Int8ConvRelu", "Int8FusedConv")
def int8_conv(hand: Hand, schema: OpSchema) -> Sketch:
    order, X = hand.image(spatial=(1, 3), most=9, orders=NHWC)
    C = channels_of(order, X)
    found, kernel = windowed(hand, spatial_of(order, X))
    if len(X) == 4 and hand.chance(0.3):
        k = hand.pick(KERNELS)
        found, kernel = {"kernel": k, "pad": k // 2}, (k, k)
    group = hand.pick((1, 1, C, hand.pick(divisors(C))))
    M = group * hand.integer(1, max(1, 70 // group))
    W = (M, *kernel, C // group)
    found |= {"order": order, **result(hand, 2.0)} | ({"group": group} if group != 1 else {})
    values = {"X": octets(hand, X), "W": octets(hand, W), "b": bias(hand, M)}
    if "S" in schema.inputs_by_letter:
        # A window that keeps the extents: the shape of S is known.
        k = hand.pick((1, 3, 5))
        D = len(X) - 2
        pads = {"kernels": [k] * D, "pads": [k // 2] * (2 * D)}
        found = {name: value for name, value in found.items() if name in ("order", "group", "Y_scale", "Y_zero_point")}
        found |= pads | {"relu": hand.chance(0.5)}
        values["W"] = octets(hand, (M, *[k] * D, C // group))
        values["S"] = octets(hand, (*X[:-1], M))
    return Sketch(found, values=values)


@draws("Int8ConvTranspose")
def int8_conv_transpose(hand: Hand, schema: OpSchema) -> Sketch:
    found = conv_transpose(hand, schema)
    X, W = found.shapes["X"], found.shapes["W"]
    values = {"X": octets(hand, X), "W": octets(hand, W), "b": bias(hand, W[-1] + hand.integer(0, 1))}
    return Sketch(found.arguments | result(hand, 2.0), values=values)


@draws("Int8RoIAlign")
def int8_roi_align(hand: Hand, schema: OpSchema) -> Sketch:
    found = aligned(hand, schema)
    values = found.values | {"X": octets(hand, found.shapes["X"])}
    return Sketch(found.arguments | result(hand, 0.2), values=values)


@draws("Int8FC")
def int8_fc(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    X = hand.dims(2, 4)
    W = (hand.channels(), math.prod(X[1:]))
    return Sketch(result(hand, 2.0), values={"X": octets(hand, X), "W": octets(hand, W), "b": bias(hand, W[0])})


@draws("Int8FCPackWeight")
def int8_pack(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    W = hand.dims(1, 4)
    axis = hand.integer(0, len(W) - 1)
    found: dict[str, Any] = {"axis_w": axis, "quantize_channelwise": hand.chance(0.5)}
    values = {"W": octets(hand, W) if hand.chance(0.2) else hand.rng.standard_normal(W).astype(np.float32)}
    if hand.chance(0.4):
        return Sketch(found, values=values, outputs=1)
    values["b"] = hand.rng.standard_normal(math.prod(W[:axis])).astype(np.float32)
    return Sketch({**found, "in_scale": hand.real(0.1, 1.0)}, values=values, outputs=2)


@draws("Int8MaxPool", "Int8MaxPoolRelu", "Int8AveragePool", "Int8AveragePoolRelu")
def int8_pool(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    order, X = hand.image(spatial=(1, 3), most=9, orders=NHWC)
    found: dict[str, Any] = {"global_pooling": True}
    if hand.chance(0.85):
        found = windowed(hand, spatial_of(order, X), dilated=False)[0]
    return Sketch(found | {"order": order, **result(hand, 0.2)}, values={"X": octets(hand, X)})


@draws(
    "Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu", "Int8Relu", "Int8LeakyRelu", "Int8Quantize", "Int8Dequantize"
)
def int8_pointwise(hand: Hand, schema: OpSchema) -> Sketch:
    shape = hand.shape(schema.inputs[0].name)
    arguments = result(hand, 0.2) if "Y_scale" in schema.args else {}
    letters = [one for one in schema.inputs if not one.optional]
    if "alpha" in schema.args:
        arguments["alpha"] = hand.real(0.01, 0.9)
    if schema.type == "Int8Quantize":
        return Sketch(arguments, {"X": shape})
    return Sketch(arguments, values={one.name: octets(hand, shape) for one in letters})


@draws("Int8Softmax")
def int8_softmax(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    shape = hand.dims(1, 4)
    return Sketch({"axis": hand.integer(0, len(shape) - 1), **result(hand, 0.05)}, values={"X": octets(hand, shape)})


@draws("Int8GivenTensorFill", "Int8GivenIntTensorFill")
def int8_fill(hand: Hand, schema: OpSchema) -> Sketch:
    shape = hand.dims(1, 4)
    whole = schema.type == "Int8GivenIntTensorFill"
    size = math.prod(shape)
    values: Any = hand.rng.integers(-(2**31), 2**31, size).tolist() if whole else octets(hand, (size,)).tobytes()
    arguments: dict[str, Any] = {"shape": list(shape), "values": values}
    if hand.chance(0.5):
        return Sketch(arguments | result(hand, 2.0))
    axis = hand.integer(0, len(shape) - 1)
    count = max(shape[axis], 1)
    return Sketch(arguments | {"axis": axis, "Y_scales": [hand.real(0.1, 2) for _ in range(count)]})
