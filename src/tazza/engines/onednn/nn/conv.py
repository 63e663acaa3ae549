"""Convolution: Conv, Conv1D, Conv2D, Conv3D.

Letters as in `ops.conv`. oneDNN's extents are (N, C, in...), (G, M/G, C/G, k...) and (N, M, out...) in both orders; a
blob in order NHWC is seen through a permutation of its axes.

Layouts: channels-last is what activations have throughout. Where X comes blocked, or a blocked Y is wished for, and
where channels-last has no good code, oneDNN chooses. W has whatever oneDNN wants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow, is_blocked, seen_as_it_lies
from tazza.engines.onednn.epilogue import Epilogue
from tazza.engines.onednn.estimate import conv_flops, conv_ns
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.launch import LETTERS, Part, PrimitiveLaunch, SequenceLaunch, by_letter
from tazza.engines.onednn.narrow import narrowed
from tazza.engines.onednn.prepare import Answer, onednn, wished
from tazza.engines.onednn.primitive import Attributes, PrimitiveDescriptor, at_least, describe, first_fast
from tazza.engines.onednn.reach import check_dimensions, check_steps
from tazza.engines.onednn.search import Requests, searched
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.nn.conv import CONVS, conv_window
from tazza.ops.nn.window import Window
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import DataType, Layout, Opaque, TensorSpec

FORWARD = "src", "weights", "bias", "dst"
RESULT = Part("result")


@dataclass(frozen=True)
class Geometry:
    """A convolution as oneDNN takes it; `tail` is the padding behind the image."""

    window: Window
    tail: tuple[int, ...]
    group: int
    order: Order

    @classmethod
    def of(cls, op: OpView, X: TensorSpec, W: TensorSpec) -> Geometry:
        """Return the geometry of a convolution of these inputs."""
        window, _ = conv_window(op, X.shape, W.shape)
        return cls(window, window.tail, op.group, Order.of(op, X))

    # -- what transposed convolutions have otherwise -------------------------------------------------------------------

    @property
    def operation(self) -> str:
        """What oneDNN calls it."""
        return "convolution"

    @property
    def first(self) -> tuple[int, ...]:
        """The axes of the blob W in the order (M, C, k...)."""
        return self.order.to_first

    def check_cut(self) -> None:
        """Refuse what lies beyond the image and is not oneDNN's."""
        if min(self.window.head) < 0:
            raise Unsupported(f"pads {self.window.head} before the image: oneDNN cuts nothing off")
        if any(tail + stride <= 0 for tail, stride in zip(self.tail, self.window.stride, strict=True)):
            raise Unsupported(f"pads {self.tail} behind the image: oneDNN cuts less than a stride off")

    def math(self, X: TensorSpec, W: TensorSpec) -> tuple[str, DataType]:
        """Return the type that products may be computed in, and that of the elements of X and W in memory."""
        if self.group > 1 and _pairs_groups(self.filter_dims(W)):
            return "", X.dtype
        return FPMATH.value, narrowed(X.dtype)

    def flops(self, X: TensorSpec, W: TensorSpec, Y: TensorSpec) -> int:
        """Return how much there is to compute."""
        del X
        return conv_flops(W, Y)

    def hint(self, flops: int, *given: Descriptor | None) -> PrimitiveDescriptor | None:
        """Return the forward primitive that oneDNN wants to see beside a backward one of these descriptors."""
        del flops, given
        return None

    # -- what it is to oneDNN ------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Refuse what oneDNN does not take.

        Raises:
            Unsupported: why.
        """
        check_dimensions(self.window)
        self.check_cut()
        check_steps(self.window, self.tail)

    @property
    def numbers(self) -> tuple[tuple[int, ...], ...]:
        """Strides, dilations (0 is dense), pads before and behind."""
        window = self.window
        return window.stride, tuple(step - 1 for step in window.dilation), window.head, self.tail

    def forward(
        self,
        *given: Descriptor | None,
        flops: int,
        attributes: Attributes | None = None,
        kind: str = "forward_inference",
    ) -> PrimitiveDescriptor:
        """Return what gives Y, for the descriptors of X, W, b and Y."""
        described = f"{self.operation}_forward", kind, f"{self.operation}_direct", *given, *self.numbers
        return describe(*described, attributes=attributes, flops=flops)

    def backward(self, of: str, flops: int, *given: Descriptor | None) -> PrimitiveDescriptor:
        """Return what gives dW and db, for X, dW, db and dY; of "data" what gives dX, for dX, W and dY."""
        described = f"{self.operation}_backward_{of}", f"{self.operation}_direct", *given, *self.numbers
        return describe(*described, self.hint(flops, *given), flops=flops)

    # -- layouts -------------------------------------------------------------------------------------------------------

    @property
    def _axes(self) -> tuple[int, ...]:
        """The axes of the blob W in oneDNN's order; with groups its axis 0 counts as two, G and what is of a group."""
        return self.first if self.group == 1 else (0, *(axis + 1 for axis in self.first))

    def _split(self, W: TensorSpec) -> tuple[int, ...]:
        return tuple(W.shape) if self.group == 1 else (self.group, W.shape[0] // self.group, *W.shape[1:])

    def filter_dims(self, W: TensorSpec) -> tuple[int, ...]:
        """Return (M, C, k...), or (G, M/G, C/G, k...) with groups."""
        return tuple(self._split(W)[axis] for axis in self._axes)

    def filters(self, W: TensorSpec) -> Iterator[Descriptor]:
        """Yield the descriptor of W as it lies, if it can be seen so, with these extents."""
        found = seen_as_it_lies(W)
        if not isinstance(W.layout, Opaque):
            found = found.reshape(self._split(W))
        if len(found.dims) == len(self._axes):
            yield found.permute(self._axes)

    def layouts(self, found: PrimitiveDescriptor, specs: dict[str, TensorSpec], *names: str) -> dict[str, Layout]:
        """Return the layouts of the blobs that are these arguments of a primitive."""
        made: dict[str, Layout] = {}
        for name in names:
            letter = LETTERS[name]
            if letter in specs:
                see = self.filter_layout if letter.endswith("W") else self.image_layout
                made[letter] = see(found.argument(name), specs[letter])
        return made

    def image_layout(self, found: Descriptor, spec: TensorSpec) -> Layout:
        """Return the layout of X or Y for its blob."""
        return self.order.layout(found, spec.dtype)

    def filter_layout(self, found: Descriptor, W: TensorSpec) -> Layout:
        """Return the layout of W for its blob."""
        # With the channels last, G and M/G are neighbours in both; so the blob's extents are a reshape of these.
        axes = self._axes
        return found.permute(sorted(range(len(axes)), key=axes.__getitem__)).layout(W.shape, dtype=W.dtype)

    def requests(self, shown: TensorSpec, *others: TensorSpec, dtype: DataType) -> dict[str, Descriptor]:
        """Return the descriptors by which an image may be asked for, best first, with elements of `dtype`.

        Channels-last, unless it or one of `others` lies in blocks already: then first whatever oneDNN likes.
        """
        free = self.order.any(shown, dtype)
        last = Descriptor.channels_last(free.dims, dtype)
        if any(is_blocked(one) for one in (shown, *others)):
            return {"free": free, "channels-last": last}
        return {"channels-last": last, "free": free}


def conv_ways(
    shape: Geometry,
    specs: dict[str, TensorSpec],
    follow: Epilogue,
    *,
    in_place: bool = False,
    whole: bool = False,
) -> dict[str, Callable[[], PrimitiveDescriptor]]:
    """Return the ways to ask for Y from X, W and maybe b, with post-ops; those by the layout of Y's spec come first.

    With `in_place` Y must have that layout, else it is a wish. With `whole` the elements of Y are not rounded to what X
    and W are multiplied in.
    """
    X, W, Y = specs["X"], specs["W"], specs["Y"]
    fpmath, dtype = shape.math(X, W)
    weights = Descriptor.any(shape.filter_dims(W), dtype)
    bias = Descriptor.of(specs["b"]) if "b" in specs else None

    def ask(source: Descriptor, target: Descriptor) -> PrimitiveDescriptor:
        attributes = Attributes(follow.post_ops(target), fpmath)
        return shape.forward(source, weights, bias, target, flops=shape.flops(X, W, Y), attributes=attributes)

    sources, targets = shape.requests(X, Y, dtype=dtype), shape.requests(Y, X, dtype=Y.dtype if whole else dtype)
    ways = {name: partial(ask, sources[name], targets[name]) for name in sources}
    if not in_place and not wished(Y):
        return ways
    fixed = {f"{name}, Y as wished": partial(ask, source, shape.order.see(Y)) for name, source in sources.items()}
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
    wide = found.argument("dst").dims[1] >= channels
    return second if same and wide and second.implementation.startswith(better) else found


def requests_of(shape: Geometry, op: OpView, specs: dict[str, TensorSpec]) -> Requests:
    """Return the ways to ask; where Y overwrites an S in a layout that nothing fast writes, also to write elsewhere."""
    shape.check()
    follow = Epilogue.of(op)
    whole = follow.keeps_whole(narrowed(specs["Y"].dtype))
    moved = whole and specs["Y"].layout != specs["Y"].layout.whole  # what Y overwrites will lie as Y does
    if moved:
        specs = specs | {"Y": replace(specs["Y"], layout=specs["Y"].layout.whole)}
    arguments = by_letter(specs, *FORWARD)

    def layouts(found: PrimitiveDescriptor) -> dict[str, Layout]:
        made = shape.layouts(found, specs, "src", "weights", "dst")
        return made | ({"S": made["Y"]} if follow.operands else {})

    def direct(found: PrimitiveDescriptor) -> LaidOut:
        return LaidOut(follow.launch(found, arguments), layouts(found))

    def detour(found: PrimitiveDescriptor) -> LaidOut:
        main = PrimitiveLaunch(found, {**arguments, "dst": RESULT, **follow.elsewhere.arguments})
        back = describe("reorder", found.argument("dst"), shape.order.see(specs["Y"]), attributes=Attributes())
        copied = PrimitiveLaunch(back, {"src": RESULT, "dst": "Y"})
        return LaidOut(SequenceLaunch((main, copied)), layouts(found) | {"Y": specs["Y"].layout})

    if follow.overwritten is None or moved:
        return Requests(conv_ways(shape, specs, follow, whole=whole), direct, first=conv_fast)
    elsewhere = Requests(conv_ways(shape, specs, follow.elsewhere, whole=whole), detour, first=conv_fast)
    return Requests(conv_ways(shape, specs, follow, in_place=True, whole=whole), direct, elsewhere, conv_fast)


@searched(*CONVS)
def conv_requests(op: OpView, specs: dict[str, TensorSpec]) -> Requests:
    return requests_of(Geometry.of(op, specs["X"], specs["W"]), op, specs)


@onednn(*CONVS, empty="zero", accepts=accepts_narrow, estimate_ns=conv_ns)
def conv(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, W and b."""
    return conv_requests(op, specs).best()
