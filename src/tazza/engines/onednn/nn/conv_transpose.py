"""Transposed convolution: ConvTranspose, FusedConvTranspose and the gradient operator.

Letters as in `ops.conv_transpose`. oneDNN's extents are (N, C, in...), (M, C, k...) or with groups (G, M/G, C/G, k...),
and (N, M, out...). The blob W is (C, M/G, k...), so input and output channels are swapped to see it so. Further
elements at the tail (`adj`) make the padding there smaller.

Layouts: as for convolutions, see `conv`.
"""

from __future__ import annotations

import math
from functools import partial

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.epilogue import epilogue_launch, overwritten_operand, post_ops, translate_epilogue
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import Operand, PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.nn.conv import PostOps, no_post_ops
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, PostOp, PrimitiveDescriptor, describe, first_fast
from tazza.engines.onednn.reach import far_steps, spatial_dimensions
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE, CONV_TRANSPOSE_GRADIENT, conv_transpose_window
from tazza.ops.nn.fused import FUSED_CONV_TRANSPOSE, epilogue_of
from tazza.ops.nn.window import Window
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import ROW_MAJOR, Layout, Opaque, TensorSpec


@dataclass(frozen=True)
class Geometry:
    """A transposed convolution as oneDNN takes it; `tail` is the padding behind, which `adj` makes smaller."""

    window: Window
    tail: tuple[int, ...]
    group: int
    order: Order

    @classmethod
    def of(cls, op: OpView, X: TensorSpec, W: TensorSpec) -> Geometry:
        """Return the geometry for these inputs."""
        window, out = conv_transpose_window(op, X.shape, W.shape)
        order = Order.of(op, X)
        image = order.see(TensorSpec(X.shape, X.dtype)).dims[2:]
        sides = zip(image, window.stride, window.kernel, window.head, out, strict=True)
        tail = tuple((extent - 1) * s + k - head - (0 if n is None else n) for extent, s, k, head, n in sides)
        return cls(window, tail, op.group if "group" in op.schema.args else 1, order)

    @property
    def obstacle(self) -> Unsupported | None:
        """Why oneDNN does not take it."""
        refused = spatial_dimensions(self.window)
        if refused is not None:
            return refused
        pairs = zip(self.tail, self.window.stride, strict=True)
        if any(tail + stride <= 0 for tail, stride in pairs):
            return Unsupported(f"adj leaves pads {self.tail} behind the image, oneDNN adds less than a stride")
        return far_steps(self.window, self.tail)

    @property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """Strides, dilations (0 is dense), pads before and behind."""
        return self.window.stride, (0,) * self.window.rank, self.window.head, self.tail

    def filter_dims(self, W: TensorSpec) -> tuple[int, ...]:
        """Return (M, C, k...), or (G, M/G, C/G, k...) with groups."""
        C, M, *kernel = self.order.see(TensorSpec(W.shape, W.dtype)).dims
        return (M, C, *kernel) if self.group == 1 else (self.group, M, C // self.group, *kernel)

    def filters(self, W: TensorSpec) -> Descriptor:
        """Return the descriptor of W as it lies.

        Raises:
            Unimplemented: it lies in a form that cannot be seen so.
        """
        found = Descriptor.of(W)
        rank = self.window.rank + 2
        if self.group == 1:
            return self.order.see(W).permute((1, 0, *range(2, rank)))
        if isinstance(W.layout, Opaque):
            if len(found.dims) != rank + 1:
                raise Unimplemented(f"{W} is not split into groups")
        else:
            found = found.reshape((self.group, W.shape[0] // self.group, *W.shape[1:]))
        return found.permute(self._from_blob)

    @property
    def _from_blob(self) -> tuple[int, ...]:
        """The axes of (G, C/G, M/G, k...), with NHWC (G, C/G, k..., M/G), in the order (G, M/G, C/G, k...)."""
        rank = self.window.rank + 2
        return (0, rank, 1, *range(2, rank)) if self.order.last else (0, 2, 1, *range(3, rank + 1))

    def filter_layout(self, found: Descriptor, W: TensorSpec) -> Layout:
        """Return the layout of the blob W that a descriptor of oneDNN's says."""
        rank = self.window.rank + 2
        if self.group == 1:
            return self.order.layout(found.permute((1, 0, *range(2, rank))))
        back = [0] * (rank + 1)
        for new, old in enumerate(self._from_blob):
            back[old] = new
        return found.permute(back).layout(W.shape)

    def requests(self, shown: TensorSpec, *others: TensorSpec) -> list[Descriptor]:
        """Return the descriptors by which an image may be asked for, best first: see `conv.Geometry.requests`."""
        free = self.order.any(shown)
        both = [Descriptor.channels_last(free.dims, shown.dtype), free]
        return both[::-1] if any(isinstance(one.layout, Opaque) for one in (shown, *others)) else both


def _fast(found: PrimitiveDescriptor) -> PrimitiveDescriptor:
    """Return what was found, unless it hands the work on to oneDNN's reference code ("conv:any+ref:any").

    Raises:
        Unimplemented: it does.
    """
    if found.is_slow or "+ref" in found.implementation:
        raise Unimplemented(f"oneDNN has only its reference code ({found.implementation})")
    return found


def _flops(X: TensorSpec, W: TensorSpec) -> int:
    """Return 2 * N * C * P * M/G * K."""
    return 2 * X.size * math.prod(W.shape[1:])


def describe_conv_transpose(
    shape: Geometry, specs: dict[str, TensorSpec], follow: PostOps = no_post_ops, *, in_place: bool = False
) -> PrimitiveDescriptor:
    """Return the primitive descriptor of Y from X, W and maybe b, with post-ops.

    With `in_place` Y must have the layout of its spec, else that is a wish.
    """
    X, W, Y = specs["X"], specs["W"], specs["Y"]
    weights = Descriptor.any(shape.filter_dims(W), W.dtype)
    bias = Descriptor.of(specs["b"]) if "b" in specs else None

    def ask(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        kinds = "forward_inference", "deconvolution_direct"
        given = source, weights, bias, target, *shape.numbers
        attributes = Attributes(follow(target), FPMATH.value)
        return _fast(describe("deconvolution_forward", *kinds, *given, attributes=attributes, flops=_flops(X, W)))

    pairs = list(zip(shape.requests(X, Y), shape.requests(Y, X), strict=True))
    if in_place or wished(Y):
        fixed = [(source, shape.order.see(Y)) for source, _ in pairs]
        pairs = fixed if in_place else fixed + pairs
    return first_fast(partial(ask, *pair) for pair in pairs)


def _layouts(shape: Geometry, found: PrimitiveDescriptor, W: TensorSpec) -> dict[str, Layout]:
    return {
        "X": shape.order.layout(found.argument("src")),
        "W": shape.filter_layout(found.argument("weights"), W),
        "Y": shape.order.layout(found.argument("dst")),
        "b": ROW_MAJOR,
    }


def _arguments(specs: dict[str, TensorSpec]) -> dict[str | int, Operand]:
    bias: dict[str | int, Operand] = {"bias": "b"} if "b" in specs else {}
    return {"src": "X", "weights": "W", "dst": "Y", **bias}


@onednn(CONV_TRANSPOSE, empty="zero")
def conv_transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, W and b."""
    shape = Geometry.of(op, specs["X"], specs["W"])
    if shape.obstacle is not None:
        return shape.obstacle
    found = describe_conv_transpose(shape, specs)
    layouts = _layouts(shape, found, specs["W"])
    return LaidOut(PrimitiveLaunch(found, _arguments(specs)), _named(op, layouts))


@onednn(FUSED_CONV_TRANSPOSE, empty="zero")
def fused_conv_transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(conv_transpose(X, W, b), S ...)."""
    shape = Geometry.of(op, specs["X"], specs["W"])
    if shape.obstacle is not None:
        return shape.obstacle
    steps = translate_epilogue(epilogue_of(op))
    overwritten = overwritten_operand(tuple(op.definition.input), op.definition.output[0], op.operands)

    def follow(target: Descriptor) -> tuple[PostOp, ...]:
        return post_ops(steps, target, overwritten)[0]

    found = describe_conv_transpose(shape, specs, follow, in_place=overwritten is not None)
    layouts = _layouts(shape, found, specs["W"])
    launch = epilogue_launch(found, _arguments(specs), steps, overwritten)
    return LaidOut(launch, _named(op, layouts | {"S": layouts["Y"]}))


def _named(op: OpView, layouts: dict[str, Layout]) -> dict[str, Layout]:
    letters = {*op.input_letters, *op.output_letters}
    return {letter: layout for letter, layout in layouts.items() if letter in letters}


@onednn(CONV_TRANSPOSE_GRADIENT, empty="zero")
def conv_transpose_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DW and db by one primitive, dX by another."""
    W = specs["W"]
    shape = Geometry.of(op, specs["X"], W)
    if shape.obstacle is not None:
        return shape.obstacle
    found = _describe_weights(shape, specs)
    arguments: dict[str | int, Operand] = {"src": "X", "diff_dst": "dY", "diff_weights": "dW"}
    if "db" in specs:
        arguments["diff_bias"] = "db"
    steps = [PrimitiveLaunch(found, arguments)]
    layouts = {
        "X": shape.order.layout(found.argument("src")),
        "dY": shape.order.layout(found.argument("diff_dst")),
        "dW": shape.filter_layout(found.argument("diff_weights"), W),
    }
    if "dX" in specs:
        data = _describe_data(shape, specs, found.argument("diff_dst"))
        steps.append(PrimitiveLaunch(data, {"diff_dst": "dY", "weights": "W", "diff_src": "dX"}))
        layouts["W"] = shape.filter_layout(data.argument("weights"), W)
        layouts["dX"] = shape.order.layout(data.argument("diff_src"))
    return LaidOut(SequenceLaunch(tuple(steps)), layouts)


def _forward(shape: Geometry, flops: int, *descriptors: Descriptor | None) -> PrimitiveDescriptor:
    """Return the forward primitive descriptor that oneDNN wants to see beside a backward one."""
    kinds = "forward_training", "deconvolution_direct"
    return describe("deconvolution_forward", *kinds, *descriptors, *shape.numbers, flops=flops)


def _describe_weights(shape: Geometry, specs: dict[str, TensorSpec]) -> PrimitiveDescriptor:
    """Return the primitive descriptor that gives dW, in the layout wished for if it can, and db."""
    X, W, dY, dW = (specs[letter] for letter in ("X", "W", "dY", "dW"))
    filters = [Descriptor.any(shape.filter_dims(W), W.dtype)]
    if wished(dW):
        filters.insert(0, shape.filters(dW))
    bias, flops = Descriptor.of(specs["db"]) if "db" in specs else None, _flops(X, W)

    def ask(weights: Descriptor, source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        forward = _forward(shape, flops, source, weights, bias, target)
        given = source, weights, bias, target, *shape.numbers, forward
        return _fast(describe("deconvolution_backward_weights", "deconvolution_direct", *given, flops=flops))

    pairs = list(zip(shape.requests(X, dY), shape.requests(dY, X), strict=True))
    return first_fast(partial(ask, weights, *pair) for weights in filters for pair in pairs)


def _describe_data(shape: Geometry, specs: dict[str, TensorSpec], target: Descriptor) -> PrimitiveDescriptor:
    """Return the primitive descriptor that gives dX from dY, as `target` lies, and W, as it lies if that does."""
    W, dX = specs["W"], specs["dX"]
    filters = [Descriptor.any(shape.filter_dims(W), W.dtype)]
    if isinstance(W.layout, Opaque):
        filters.insert(0, shape.filters(W))
    images = ([shape.order.see(dX)] if wished(dX) else []) + shape.requests(dX, specs["dY"])
    flops = _flops(specs["X"], W)

    def ask(weights: Descriptor, source: Descriptor) -> PrimitiveDescriptor:
        forward = _forward(shape, flops, source, weights, None, target)
        given = source, weights, target, *shape.numbers, forward
        return _fast(describe("deconvolution_backward_data", "deconvolution_direct", *given, flops=flops))

    return first_fast(partial(ask, weights, source) for weights in filters for source in images)
