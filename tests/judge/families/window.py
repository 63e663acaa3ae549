"""Windows: convolutions, their transpose, pools, patches and padding."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from tazza.operator import OpSchema, operator_def
from tazza.ops.nn.window import Window
from tests.judge.hand import Hand, Shape, Sketch, channels_of, divisors, draws, orders_of, spatial_of

FEW, PLAIN, TALL, WHOLE, MOST_OF_A_STEM = 0.2, 0.3, 0.1, 0.15, 8
"""How many convolutions have few channels, how many are like those of most nets, how many have a window that is the
whole image; which engines are made for."""
KERNELS = (1, 1, 2, 3, 3, 3, 4, 5, 5, 7, 9)


def sides(hand: Hand, name: str, values: tuple[int, ...], *, default: int) -> dict[str, Any]:
    """Return arguments that say `values` in one of the ways there are; none, sometimes, where it is the default."""
    if set(values) <= {default} and hand.chance(0.6):
        return {}
    flat = len(values) == 2 and hand.chance(0.6)
    if flat and len(set(values)) == 1 and hand.chance(0.5):
        return {name: values[0]}
    return {f"{name}_h": values[0], f"{name}_w": values[1]} if flat else {f"{name}s": list(values)}


def padding(hand: Hand, kernel: tuple[int, ...], *, most: int = 99) -> dict[str, Any]:
    """Return pads smaller than the kernel, in one of the ways to say them."""
    if hand.chance(0.35):
        return {}
    D = len(kernel)
    if D == 2 and hand.chance(0.4):
        return {"pad": hand.integer(0, min(min(kernel) - 1, most))}
    pads = [hand.integer(0, min(k - 1, most)) for k in (*kernel, *kernel)]
    if hand.chance(0.5):
        pads = pads[:D] * 2
    if D == 2 and hand.chance(0.4):
        return dict(zip(("pad_t", "pad_l", "pad_b", "pad_r"), pads, strict=True))
    return {"pads": pads}


def windowed(hand: Hand, image: Shape, *, dilated: bool = True) -> tuple[dict[str, Any], tuple[int, ...]]:
    """Return the arguments of a window over an image of these extents, and the kernel's sizes."""
    kernel = tuple(min(hand.pick(KERNELS), extent + 2) if extent > 0 else 1 for extent in image)
    if kernel and hand.chance(0.4):
        kernel = (kernel[0],) * len(kernel)
    found = sides(hand, "kernel", kernel, default=0)
    found |= sides(hand, "stride", tuple(hand.pick((1, 1, 2, 3)) for _ in kernel), default=1)
    legacy = hand.pick((0, 0, 0, 0, 1, 2, 3))
    if dilated and legacy < 2 and hand.chance(0.3):
        found |= sides(hand, "dilation", tuple(hand.pick((1, 2, 3)) for _ in kernel), default=1)
    if legacy not in (1, 2):
        found |= padding(hand, kernel)
    return found | ({"legacy_pad": legacy} if legacy > 0 else {}), kernel


def rank_of(schema: OpSchema) -> tuple[int, int]:
    """Return the spatial dimensions that a type may have, by the number in its name."""
    digit = next((int(c) for c, d in zip(schema.type, schema.type[1:], strict=False) if d == "D" and c.isdigit()), None)
    return (1, 3) if digit is None else (digit, digit)


def with_channels(hand: Hand, order: str, X: Shape, most: int) -> Shape:
    """Return an image with few channels, unless its shape is given."""
    if "X" in hand.given:
        return X
    C = hand.integer(1, most)
    return (*X[:3], C) if order == "NHWC" else (X[0], C, *X[2:])


def plain(hand: Hand, dense: bool) -> tuple[dict[str, Any], tuple[int, ...], int]:
    """Return the arguments, kernel and groups of convolutions as most nets have them, which engines have code for."""
    k = hand.pick((3, 3, 5) if dense else (3, 5, 7))
    found: dict[str, Any] = {"kernel": k, "pad": k // 2}
    return found | ({} if dense or hand.chance(0.5) else {"stride": 2}), (k, k), 1


def tall(hand: Hand) -> Sketch:
    """Return a convolution without bias of an image with many pixels: dW is a product of tall matrices."""
    order, k = hand.pick(("NCHW", "NHWC")), hand.pick((1, 1, 3))
    C, M = hand.pick((30, 32)), hand.pick((24, 32))
    inner = (hand.integer(20, 24), hand.integer(20, 24))
    N, kernel = 2 if k == 1 else hand.integer(2, 3), (k, k)
    found: dict[str, Any] = {"order": order, "kernel": k} | ({"stride": 2, "pad": 1} if k > 1 else {})
    if order == "NHWC":
        return Sketch(found, {"X": (N, *inner, C), "W": (M, *kernel, C)})
    return Sketch(found, {"X": (N, C, *inner), "W": (M, C, *kernel)})


@draws("Conv", "Conv1D", "Conv2D", "Conv3D")
def conv(hand: Hand, schema: OpSchema) -> Sketch:
    if "X" not in hand.given and rank_of(schema)[0] <= 2 <= rank_of(schema)[1] and hand.chance(TALL):
        return tall(hand)
    order, images = hand.image(spatial=rank_of(schema), most=12)
    few = len(images) == 4 and hand.chance(FEW)
    X = with_channels(hand, order, images, MOST_OF_A_STEM) if few else images
    C = channels_of(order, X)
    found, kernel = windowed(hand, spatial_of(order, X))
    group = hand.pick((1, 1, C, hand.pick(divisors(C))))
    if few or (len(X) == 4 and hand.chance(PLAIN)):
        found, kernel, group = plain(hand, not few)
    M = group * hand.integer(1, max(1, 70 // group)) if group > 0 else hand.channels()
    image = spatial_of(order, X)
    if not few and group == 1 and math.prod(image) > 0 and hand.chance(WHOLE):
        found, kernel = {"kernels": list(image)}, tuple(image)
    W = (M, C // group, *kernel) if order == "NCHW" else (M, *kernel, C // group)
    found |= {"order": order} | ({"group": group} if group != 1 else {})
    shapes: dict[str, Any] = {"X": X, "W": W}
    if hand.chance(0.6):
        shapes["b"] = (M,)
    return Sketch(found, shapes)


@draws("ConvRelu")
def conv_relu(hand: Hand, schema: OpSchema) -> Sketch:
    return conv(hand, schema)


@draws("LC", "LC1D", "LC2D", "LC3D")
def locally_connected(hand: Hand, schema: OpSchema) -> Sketch:
    """A filter for each place of Y, so few channels."""
    order, images = hand.image(spatial=rank_of(schema), most=6)
    X = with_channels(hand, order, images, 6)
    C, image = channels_of(order, X), spatial_of(order, X)
    found, kernel = windowed(hand, image)
    if hand.chance(0.1):
        found, kernel = {"global_pooling": True}, image
    group = hand.pick((1, 1, C, hand.pick(divisors(C))))
    found |= {"order": order} | ({"group": group} if group != 1 else {})
    made: dict[str, Any] = {} if "global_pooling" in found else found
    op = schema.typed_view(operator_def(schema.type, ["X", "W"], ["Y"], **made))
    out = (1,) * len(image) if "global_pooling" in found else Window.of(op).over(op, image)[1]
    M = group * hand.integer(1, 3)
    W = (*out, M, C // group, *kernel) if order == "NCHW" else (*out, M, *kernel, C // group)
    return Sketch(found, {"X": X, "W": W} | ({"b": (*out, M)} if hand.chance(0.6) else {}))


@draws("ConvTranspose")
def conv_transpose(hand: Hand, schema: OpSchema) -> Sketch:
    order, X = hand.image(spatial=rank_of(schema), most=7, orders=orders_of(schema))
    C = channels_of(order, X)
    found, kernel = windowed(hand, spatial_of(order, X), dilated=hand.chance(0.2))
    group = hand.pick((1, 1, 1, C, hand.pick(divisors(C)))) if "group" in schema.args else 1
    per_group = hand.integer(1, max(1, 70 // group))
    W = (C, per_group, *kernel) if order == "NCHW" else (C, *kernel, per_group)
    found |= {"order": order} | ({"group": group} if group != 1 else {})
    if hand.chance(0.3):
        found |= sides(hand, "adj", tuple(hand.integer(0, 2) for _ in kernel), default=0)
    shapes: dict[str, Any] = {"X": X, "W": W}
    if hand.chance(0.6):
        shapes["b"] = (per_group * group,)
    return Sketch(found, shapes)


@draws(
    *("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D"),
    *("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D"),
    "LpPool",
)
def pool(hand: Hand, schema: OpSchema) -> Sketch:
    order, X = hand.image(spatial=rank_of(schema), most=12)
    found: dict[str, Any] = {"global_pooling": True}
    if hand.chance(0.85):
        found = windowed(hand, spatial_of(order, X), dilated=False)[0]
    if "count_include_pad" in schema.args and hand.chance(0.4):
        found["count_include_pad"] = hand.chance(0.7)
    if "p" in schema.args and hand.chance(0.6):
        found["p"] = hand.pick((1.0, 1.5, 3.0))
    return Sketch(found | {"order": order}, {"X": X})


@draws("DeformConv")
def deform_conv(hand: Hand, schema: OpSchema) -> Sketch:
    """Points between pixels: at pixels slopes jump."""
    _, images = hand.image(spatial=(2, 2), most=7, orders=("NCHW",))
    group, alike = hand.pick((1, 1, 2, 3)), hand.pick((1, 1, 2, 3))
    channels, M = (math.lcm(group, alike) * hand.integer(1, 3) for _ in range(2))
    N, C, *image = X = hand.given.get("X", (images[0], channels, *images[2:]))
    if C != channels:
        group, alike = 1, 1
    kernel = tuple(min(hand.pick((1, 2, 3)), extent) for extent in image)
    found: dict[str, Any] = {"kernels": list(kernel), "stride": hand.integer(1, 2), "pad": hand.integer(0, 2)}
    found |= {"group": group, "deformable_group": alike} if group * alike > 1 else {}
    op = schema.typed_view(operator_def(schema.type, ["X", "offset", "W"], ["Y"], **found))
    out = cast("Shape", Window.of(op).over(op, image)[1])
    shape = (N, 2 * alike * math.prod(kernel), *out)
    offset = hand.rng.integers(-2, 2, shape) + hand.rng.uniform(0.1, 0.9, shape)
    shapes: dict[str, Any] = {"X": X, "W": (M, C // group, *kernel)} | ({"b": (M,)} if hand.chance(0.6) else {})
    return Sketch(found, shapes, {"offset": offset.astype(np.float32)})


@draws("MaxPoolWithIndex")
def max_pool_with_index(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    _, X = hand.image(spatial=(2, 2), most=12, orders=("NCHW",))
    found: dict[str, Any] = {"global_pooling": True}
    return Sketch(windowed(hand, X[2:], dilated=False)[0] if hand.chance(0.85) else found, {"X": X})


@draws("Im2Col")
def im2col(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    order, X = hand.image(spatial=(2, 2))
    return Sketch(_patches(hand, spatial_of(order, X)) | {"order": order}, {"X": X})


@draws("Col2Im")
def col2im(hand: Hand, schema: OpSchema) -> Sketch:
    """The shape of the columns, from what Im2Col says for such an image."""
    del schema
    order, X = hand.image("image", spatial=(2, 2))
    found = _patches(hand, spatial_of(order, X))
    out: list[int] = []
    kernel: list[int] = []
    for axis, extent in zip("hw", spatial_of(order, X), strict=True):
        k, s, d = (found.get(f"{name}_{axis}", found.get(name, 1)) for name in ("kernel", "stride", "dilation"))
        kernel.append(k)
        out.append(max((extent + 2 * found.get("pad", 0) - d * (k - 1) - 1) // s + 1, 0))
    taps = channels_of(order, X) * kernel[0] * kernel[1]
    Y = (X[0], taps, *out) if order == "NCHW" else (X[0], *out, taps)
    return Sketch(found | {"order": order}, {"Y": Y, "X": X})


def _patches(hand: Hand, image: Shape) -> dict[str, Any]:
    kernel = tuple(min(hand.pick(KERNELS), extent + 1) for extent in image)
    found: dict[str, Any] = dict(zip(("kernel_h", "kernel_w"), kernel, strict=True))
    if kernel[0] == kernel[1] and hand.chance(0.5):
        found = {"kernel": kernel[0]}
    if hand.chance(0.5):
        found |= {"stride_h": hand.integer(1, 3), "stride_w": hand.integer(1, 3)}
    if hand.chance(0.3):
        found["dilation"] = hand.integer(1, 2)
    return found | ({"pad": hand.integer(0, 2)} if hand.chance(0.6) else {})


@draws("PadImage")
def pad_image(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    order, X = hand.image(spatial=(2, 2))
    sizes = spatial_of(order, X)
    found = hand.some({"mode": hand.pick(("constant", "reflect", "edge")), "value": hand.real(-2, 2)}, 0.7)
    found |= padding(hand, tuple(max(1, size) for size in sizes), most=4)
    return Sketch(found | {"order": order}, {"X": X})
