"""Gradients of convolutions: ConvGradient, Conv1DGradient, Conv2DGradient, Conv3DGradient.

Letters as in `ops.conv`, with P the pixels of all images. oneDNN has a primitive for dW and db, and one for dX. What it
has for dW is slow in two cases, which go another way:

- 1 x 1 filters: dW = dY^T X, (M, P) @ (P, C), or its transpose where that has fewer rows, is a product of matrices.
  Tall ones have a kernel of our own (`codegen.tall_product`: 0.80 to 1.0 of the time of oneDNN's product for ResNet-50
  at batch 16). Others oneDNN computes as a product of plain matrices, unless there is a stride, in 0.7 to 1.0 of the
  time of its convolutions for all shapes of ResNet-50, and 0.5 to 1.1 for those of MobileNet v2;
- larger filters with a stride: the same kernel of our own takes windows for rows. Where it refuses them, or there is a
  bias, copies are worth while: of blocked images oneDNN took half of the time that it takes of channels-last ones.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tazza.codegen.block import all_float32
from tazza.codegen.kernel import unavailable
from tazza.codegen.tall_product import Grid, Windows, tall_product
from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor, is_blocked
from tazza.engines.onednn.estimate import conv_gradient_ns
from tazza.engines.onednn.launch import LETTERS, Operand, Part, PrimitiveLaunch, SequenceLaunch, by_letter
from tazza.engines.onednn.nn.conv import Geometry
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import PrimitiveDescriptor, describe, first_fast
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, Launch, LaunchChain, OpView
from tazza.ops.nn.conv import CONV_GRADIENTS
from tazza.runtime.fpmath import why_narrow
from tazza.runtime.threads import thread_count
from tazza.tensor import Layout, Opaque, TensorSpec

PLAIN = "gemm:jit"
"""What oneDNN 3.2 calls its products of plain matrices; what it comes up with first copies those that are transposed.
Tests notice another name."""
BLOCK = 16
"""Channels in a block with AVX-512; without it there are 8."""


@dataclass(frozen=True)
class Weights:
    """How dW and db are computed: how that reads dY, and the layouts of X, dY and dW."""

    launch: Launch
    dY: Descriptor
    layouts: Mapping[str, Layout]


@onednn(*CONV_GRADIENTS, empty="zero", estimate_ns=conv_gradient_ns)
def conv_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DW and db by one primitive, or what is faster; dX by another, which reads W in another layout than Conv."""
    shape = Geometry.of(op, specs["X"], specs["W"])
    shape.check()
    weights = product(shape, specs)
    return with_data(shape, specs, convolution(shape, specs) if weights is None else weights)


def with_data(shape: Geometry, specs: dict[str, TensorSpec], weights: Weights) -> LaidOut:
    """Return dW and db, and dX where it is asked for."""
    if "dX" not in specs:
        return LaidOut(weights.launch, weights.layouts)
    data = describe_data(shape, specs, weights.dY)
    second = PrimitiveLaunch(data, by_letter(specs, "diff_dst", "weights", "diff_src"))
    layouts = {**weights.layouts, **shape.layouts(data, specs, "weights", "diff_src")}
    return LaidOut(LaunchChain((weights.launch, second)), layouts)


# -- dW by a product ---------------------------------------------------------------------------------------------------


def product(shape: Geometry, specs: dict[str, TensorSpec]) -> Weights | None:
    """Return dW as a product of matrices, None where that is none or nothing here takes it."""
    X, dY = specs["X"], specs["dY"]
    window = shape.window
    if shape.group != 1 or "db" in specs or is_blocked(X) or is_blocked(dY):
        return None
    if set(window.kernel) != {1} or any((*window.head, *window.tail)):
        return _window_product(shape, specs)
    x, dy = (_pixels(shape, spec) for spec in (X, dY))
    strided = set(window.stride) != {1}
    turned = x.dims[1] < dy.dims[1] and not strided
    found = _own_product(shape, specs, turned=turned)
    if found is None and not strided:
        found = _plain_product(x, dy, turned=turned)
    if found is None:
        return None
    target = Descriptor.of((x.dims[1], dy.dims[1]) if turned else (dy.dims[1], x.dims[1]), X.dtype)
    dW = (target.permute((1, 0)) if turned else target).reshape(shape.filter_dims(specs["W"]))
    return _of_channels_last(shape, specs, found, dW)


def _of_channels_last(shape: Geometry, specs: dict[str, TensorSpec], launch: Launch, dW: Descriptor) -> Weights:
    """Return a launch that reads channels-last images, with the layouts."""
    dims = {letter: shape.order.see(specs[letter]).dims for letter in ("X", "dY")}
    images = {letter: Descriptor.channels_last(dims[letter], specs[letter].dtype) for letter in dims}
    layouts = {letter: shape.image_layout(image, specs[letter]) for letter, image in images.items()}
    return Weights(launch, images["dY"], {**layouts, "dW": shape.filter_layout(dW, specs["dW"])})


def _own_product(shape: Geometry, specs: dict[str, TensorSpec], *, turned: bool) -> Launch | None:
    """Return dW of filters of one pixel, or its transpose if `turned`, by a kernel of our own."""
    if not _own_kernels(specs):
        return None
    C, M = (shape.order.see(specs[letter]).dims[1] for letter in ("X", "dY"))
    P = specs["dY"].size // M
    if turned:
        return tall_product(("X", "dY", "dW"), C, M, Grid((1, 1, P), (0, 0, M)), thread_count())
    if set(shape.window.stride) == {1}:
        return tall_product(("dY", "X", "dW"), M, C, Grid((1, 1, P), (0, 0, C)), thread_count())
    grid = _grid(shape, specs)
    return None if grid is None else tall_product(("dY", "X", "dW"), M, C, grid, thread_count())


def _window_product(shape: Geometry, specs: dict[str, TensorSpec]) -> Weights | None:
    """Return dW of larger filters with a stride by a kernel of our own, None where that refuses them."""
    window, grid = shape.window, _grid(shape, specs)
    if grid is None or set(window.stride) == {1} or set(window.dilation) != {1} or not _own_kernels(specs):
        return None
    C, M = (shape.order.see(specs[letter]).dims[1] for letter in ("X", "dY"))
    kernel, image, strides = (_plane(of) for of in (window.kernel, shape.order.see(specs["X"]).dims[2:], window.stride))
    windows = Windows(kernel, image, _plane(window.head, 0), strides, (image[1] * C, C))
    found = tall_product(("dY", "X", "dW"), M, C, replace(grid, windows=windows), thread_count())
    dW = Descriptor.channels_last(shape.filter_dims(specs["W"]), specs["dW"].dtype)
    return None if found is None else _of_channels_last(shape, specs, found, dW)


def _own_kernels(specs: dict[str, TensorSpec]) -> bool:
    """Whether kernels of our own can be had, and compute as is wished."""
    return unavailable() is None and why_narrow() is None and all_float32(specs["X"], specs["dY"])


def _grid(shape: Geometry, specs: dict[str, TensorSpec]) -> Grid | None:
    """Return which pixels of X, channels last, the windows begin at; None where there are more than two dimensions."""
    (N, C, *extents), (_, _, *out) = (shape.order.see(specs[letter]).dims for letter in ("X", "dY"))
    if len(out) > 2:
        return None
    (H, W), (down, across) = _plane(extents), _plane(shape.window.stride)
    return Grid((N, *_plane(out)), (H * W * C, down * W * C, across * C))


def _plane(numbers: Sequence[int], missing: int = 1) -> tuple[int, int]:
    """Return the numbers of two dimensions, of which the first may be missing."""
    first, second = (missing, *numbers)[-2:]
    return first, second


def _plain_product(x: Descriptor, dy: Descriptor, *, turned: bool) -> Launch | None:
    """Return dW, or its transpose if `turned`, by oneDNN, None where it has no code for plain matrices."""
    sides: list[tuple[Operand, Descriptor]] = [("X", x), ("dY", dy)]
    first, second = sides if turned else sides[::-1]
    target = Descriptor.of((first[1].dims[1], second[1].dims[1]), x.dtype)
    flops = 2 * math.prod((*x.dims, dy.dims[1]))
    ways = describe("matmul", first[1].permute((1, 0)), second[1], None, target, flops=flops).alternatives()
    found = next((way for way in ways if way.implementation.startswith(PLAIN)), None)
    return None if found is None else PrimitiveLaunch(found, {"src": first[0], "weights": second[0], "dst": "dW"})


def _pixels(shape: Geometry, spec: TensorSpec) -> Descriptor:
    """Return X or dY, with dense channels, as a matrix (P, channels)."""
    dims = shape.order.see(spec).dims
    return Descriptor.of((math.prod((dims[0], *dims[2:])), dims[1]), spec.dtype)


# -- dW and db by a convolution ----------------------------------------------------------------------------------------

IMAGES = "src", "diff_dst"


def convolution(shape: Geometry, specs: dict[str, TensorSpec]) -> Weights:
    """Return dW, in the layout wished for if that can be, and db."""
    found = describe_weights(shape, specs)
    arguments = by_letter(specs, *IMAGES, "diff_weights", "diff_bias")
    layouts = shape.layouts(found, specs, *IMAGES, "diff_weights")
    blocked = _blocked(shape, specs, found)
    if blocked is None:
        return Weights(PrimitiveLaunch(found, arguments), found.argument("diff_dst"), layouts)
    copies: list[PrimitiveLaunch] = []
    for name in IMAGES:
        copy = reorder(found.argument(name), blocked.argument(name))
        copies.append(PrimitiveLaunch(copy, {"src": LETTERS[name], "dst": Part(f"{LETTERS[name]} in blocks")}))
        arguments[name] = copies[-1].arguments["dst"]
    layouts |= shape.layouts(blocked, specs, "diff_weights")
    launch = SequenceLaunch((*copies, PrimitiveLaunch(blocked, arguments)))
    return Weights(launch, found.argument("diff_dst"), layouts)


def _blocked(shape: Geometry, specs: dict[str, TensorSpec], found: PrimitiveDescriptor) -> PrimitiveDescriptor | None:
    """Return the primitive for blocked images where it is so much faster than what was found that copies pay."""
    window = shape.window
    images = [found.argument(name) for name in ("src", "diff_dst")]
    whole = all(image.dims[1] % BLOCK == 0 for image in images)
    strided = max(window.stride) > 1 and max(window.kernel) > 1 and shape.group == 1
    if not (strided and whole and found.implementation.startswith("jit:") and all(one.is_plain for one in images)):
        return None
    other = describe_weights(shape, specs, free=True)
    return None if any(other.argument(name).is_plain for name in ("src", "diff_dst")) else other


def describe_weights(shape: Geometry, specs: dict[str, TensorSpec], *, free: bool = False) -> PrimitiveDescriptor:
    """Return the primitive descriptor that gives dW, in the layout wished for if it can, and db.

    With `free` oneDNN chooses the layouts of the images.
    """
    X, W, dY, dW = (specs[letter] for letter in ("X", "W", "dY", "dW"))
    filters = [*(shape.filters(dW) if wished(dW) else ()), Descriptor.any(shape.filter_dims(W), W.dtype)]
    bias, flops = Descriptor.of(specs["db"]) if "db" in specs else None, shape.flops(X, W, dY)
    x, dy = shape.requests(X, dY, dtype=X.dtype), shape.requests(dY, X, dtype=dY.dtype)
    ways = ["free"] if free else list(x)
    asked = partial(shape.backward, "weights", flops)
    return first_fast(partial(asked, x[way], weights, bias, dy[way]) for weights in filters for way in ways)


# -- dX ----------------------------------------------------------------------------------------------------------------


def describe_data(shape: Geometry, specs: dict[str, TensorSpec], target: Descriptor) -> PrimitiveDescriptor:
    """Return the primitive descriptor that gives dX from dY, as `target` lies, and W, as it lies if that does."""
    W, dX, dY = specs["W"], specs["dX"], specs["dY"]
    there = isinstance(W.layout, Opaque)
    filters = [*(shape.filters(W) if there else ()), Descriptor.any(shape.filter_dims(W), W.dtype)]
    images = [*([shape.order.see(dX)] if wished(dX) else ()), *shape.requests(dX, dY, dtype=dX.dtype).values()]
    asked = partial(shape.backward, "data", shape.flops(dX, W, dY))
    return first_fast(partial(asked, source, weights, target) for weights in filters for source in images)
