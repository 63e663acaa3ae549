"""Convolution: Conv, Conv1D, Conv2D, Conv3D.

Letters as in `ops.conv`. oneDNN's extents are (N, C, in...), (G, M/G, C/G, k...) and (N, M, out...) in both orders; a
blob in order NHWC is seen through a permutation of its axes.

Layouts: channels-last is what activations have throughout. Where X comes blocked, or a blocked Y is wished for, and
where channels-last has no good code, oneDNN chooses. W has whatever oneDNN wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import islice
from typing import TypeAlias

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow, is_blocked
from tazza.engines.onednn.estimate import conv_flops, conv_ns
from tazza.engines.onednn.launch import Operand, PrimitiveLaunch
from tazza.engines.onednn.narrow import narrowed
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, PostOp, PrimitiveDescriptor, at_least, describe, first_fast
from tazza.engines.onednn.reach import far_steps, spatial_dimensions
from tazza.engines.onednn.search import Requests, best, searched
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.nn.conv import CONVS, conv_window
from tazza.ops.nn.window import Window
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import DataType, Layout, Opaque, TensorSpec


@dataclass(frozen=True)
class Geometry:
    """A convolution as oneDNN takes it."""

    window: Window
    group: int
    last: bool

    @classmethod
    def of(cls, op: OpView, X: TensorSpec, W: TensorSpec) -> Geometry:
        """Return the geometry of a convolution of these inputs."""
        window, _ = conv_window(op, X.shape, W.shape)
        return cls(window, op.group, op.order.upper() == "NHWC")

    @property
    def obstacle(self) -> Unsupported | None:
        """Why oneDNN does not take it."""
        window = self.window
        refused = spatial_dimensions(window)
        if refused is not None:
            return refused
        if min(window.head) < 0:
            return Unsupported(f"pads {window.head} before the image: oneDNN cuts nothing off")
        if any(tail + stride <= 0 for tail, stride in zip(window.tail, window.stride, strict=True)):
            return Unsupported(f"pads {window.tail} behind the image: oneDNN cuts less than a stride off")
        return far_steps(window, window.tail)

    @property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """Strides, dilations (0 is dense), pads before and behind."""
        window = self.window
        return window.stride, tuple(step - 1 for step in window.dilation), window.head, window.tail

    @property
    def _to_first(self) -> tuple[int, ...]:
        rank = self.window.rank + 2
        return (0, rank - 1, *range(1, rank - 1)) if self.last else tuple(range(rank))

    @property
    def _to_blob(self) -> tuple[int, ...]:
        rank = self.window.rank + 2
        return (0, *range(2, rank), 1) if self.last else tuple(range(rank))

    def image(self, spec: TensorSpec) -> Descriptor:
        """Return the descriptor of X or Y as it lies, channels first."""
        return Descriptor.of(spec).permute(self._to_first)

    def filters(self, spec: TensorSpec) -> Descriptor:
        """Return the descriptor of W as it lies: (M, C, k...), or (G, M/G, C/G, k...) with groups.

        Raises:
            Unimplemented: it lies in a form that cannot be seen so.
        """
        if isinstance(spec.layout, Opaque):
            found = Descriptor.of(spec)
            rank = self.window.rank + 2
            axes = self._to_first if len(found.dims) == rank else (0, *(axis + 1 for axis in self._to_first))
            return found.permute(axes)
        return Descriptor.of(spec).permute(self._to_first).reshape(self.filter_dims(spec))

    def filter_dims(self, spec: TensorSpec) -> tuple[int, ...]:
        """Return (M, C, k...), or (G, M/G, C/G, k...) with groups."""
        M, *rest = (spec.shape[axis] for axis in self._to_first)
        return (M, *rest) if self.group == 1 else (self.group, M // self.group, *rest)

    def image_layout(self, found: Descriptor, spec: TensorSpec) -> Layout:
        """Return the layout of X or Y for its blob."""
        return found.permute(self._to_blob).layout(dtype=spec.dtype)

    def filter_layout(self, found: Descriptor, spec: TensorSpec) -> Layout:
        """Return the layout of W for its blob."""
        if self.group == 1:
            return found.permute(self._to_blob).layout(dtype=spec.dtype)
        axes = (0, *(axis + 1 for axis in self._to_blob))
        # With the channels last, G and M/G are neighbours in both; so the blob's extents are a reshape of these.
        return found.permute(axes).layout(spec.shape, dtype=spec.dtype)

    def requests(self, shown: TensorSpec, *others: TensorSpec, dtype: DataType) -> dict[str, Descriptor]:
        """Return the descriptors by which an image may be asked for, best first, with elements of `dtype`.

        Channels-last, unless it or one of `others` lies in blocks already: then first whatever oneDNN likes.
        """
        dims = [shown.shape[axis] for axis in self._to_first]
        last, free = Descriptor.channels_last(dims, dtype), Descriptor.any(dims, dtype)
        if any(is_blocked(one) for one in (shown, *others)):
            return {"free": free, "channels-last": last}
        return {"channels-last": last, "free": free}


PostOps: TypeAlias = Callable[[Descriptor], tuple[PostOp, ...]]
"""Post-ops for a destination that is asked for by this descriptor."""


def no_post_ops(target: Descriptor) -> tuple[PostOp, ...]:
    del target
    return ()


def conv_ways(
    shape: Geometry,
    specs: dict[str, TensorSpec],
    follow: PostOps = no_post_ops,
    *,
    in_place: bool = False,
    whole: bool = False,
) -> dict[str, Callable[[], PrimitiveDescriptor]]:
    """Return the ways to ask for Y from X, W and maybe b, with post-ops; those by the layout of Y's spec come first.

    With `in_place` Y must have that layout, else it is a wish. With `whole` the elements of Y are not rounded to what X
    and W are multiplied in.
    """
    X, W, Y = specs["X"], specs["W"], specs["Y"]
    fpmath = "" if shape.group > 1 and _pairs_groups(shape.filter_dims(W)) else FPMATH.value
    dtype = narrowed(X.dtype) if fpmath else X.dtype
    weights = Descriptor.any(shape.filter_dims(W), dtype)
    bias = Descriptor.of(specs["b"]) if "b" in specs else None

    def ask(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        return describe(
            "convolution_forward",
            "forward_inference",
            "convolution_direct",
            *(source, weights, bias, target),
            *shape.numbers,
            attributes=Attributes(follow(target), fpmath),
            flops=conv_flops(W, Y),
        )

    sources, targets = shape.requests(X, Y, dtype=dtype), shape.requests(Y, X, dtype=Y.dtype if whole else dtype)
    ways = {name: partial(ask, sources[name], targets[name]) for name in sources}
    if not in_place and not wished(Y):
        return ways
    fixed = {f"{name}, Y as wished": partial(ask, source, shape.image(Y)) for name, source in sources.items()}
    return fixed if in_place else fixed | ways


def _pairs_groups(filters: tuple[int, ...]) -> bool:
    """Whether channels of two groups make a pair, for filters (G, M/G, C/G, k...): bfloat16 is multiplied by pairs.

    The last channel of a group stands with the first one of the next then, whose weight is 0: an infinite pixel there
    gives NaN here. Depthwise code multiplies channels one by one.
    """
    _, M, C = filters[:3]
    return C % 2 == 1 and M * C > 1


FASTER = {
    "brdgmm_dw": ("jit_dw", 1),
    "brgconv_1x1:avx512_core_bf16": ("jit_bf16_1x1", 128),
}
"""What oneDNN 3.2 comes up with first -> what is faster on processors with AVX-512, and for how many channels of Y.

For all depthwise convolutions of MobileNet v2 the second took 0.8 to 0.95 of the time of the first. For those of 1 x 1
in bfloat16 that ResNet-50 has it took 0.87 to 1.01 with 16 images, 0.94 to 1.03 with one, and 1.06 to 1.14 for Y of 64
channels.
"""


def conv_fast(ways: Iterable[Callable[[], PrimitiveDescriptor]]) -> PrimitiveDescriptor:
    """Return the first fast way, as `first_fast` does, or the second implementation where that is faster.

    Later versions of oneDNN are to be measured before they are overruled.
    """
    found = first_fast(ways)
    prefix = next((one for one in FASTER if found.implementation.startswith(one)), None)
    if prefix is None or at_least(3, 3):
        return found
    better, channels = FASTER[prefix]
    second = next(islice(found.alternatives(), 1, 2), found)
    same = all(second.argument(name) == found.argument(name) for name in ("src", "dst"))
    return second if same and second.implementation.startswith(better) and _channels(found) >= channels else found


def _channels(found: PrimitiveDescriptor) -> int:
    return found.argument("dst").dims[1]


def conv_choice(
    ways: Mapping[str, Callable[[], PrimitiveDescriptor]],
    answer: Callable[[PrimitiveDescriptor], LaidOut],
    otherwise: Requests | None = None,
) -> Requests:
    """Return requests of which `conv_fast` takes one."""
    return Requests(ways, answer, otherwise, conv_fast)


def conv_arguments(specs: dict[str, TensorSpec]) -> dict[str | int, Operand]:
    """Return which letter is which argument."""
    bias: dict[str | int, Operand] = {"bias": "b"} if "b" in specs else {}
    return {"src": "X", "weights": "W", "dst": "Y", **bias}


def conv_layouts(shape: Geometry, found: PrimitiveDescriptor, specs: dict[str, TensorSpec]) -> dict[str, Layout]:
    """Return the layouts of X, W and Y."""
    return {
        "X": shape.image_layout(found.argument("src"), specs["X"]),
        "W": shape.filter_layout(found.argument("weights"), specs["W"]),
        "Y": shape.image_layout(found.argument("dst"), specs["Y"]),
    }


@searched(*CONVS)
def conv_requests(op: OpView, specs: dict[str, TensorSpec]) -> Requests | Unsupported:
    shape = Geometry.of(op, specs["X"], specs["W"])
    if shape.obstacle is not None:
        return shape.obstacle

    def answer(found: PrimitiveDescriptor) -> LaidOut:
        return LaidOut(PrimitiveLaunch(found, conv_arguments(specs)), conv_layouts(shape, found, specs))

    return conv_choice(conv_ways(shape, specs), answer)


@onednn(*CONVS, empty="zero", accepts=accepts_narrow, estimate_ns=conv_ns)
def conv(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, W and b."""
    return best(conv_requests(op, specs))
