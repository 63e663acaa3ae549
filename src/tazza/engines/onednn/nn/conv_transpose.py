"""Transposed convolution: ConvTranspose, FusedConvTranspose and the gradient operator.

Letters as in `ops.conv_transpose`. oneDNN's extents are (N, C, in...), (M, C, k...) or with groups (G, M/G, C/G, k...),
and (N, M, out...). The blob W is (C, M/G, k...), so input and output channels are swapped to see it so. Further
elements at the tail (`adj`) make the padding there smaller.

Layouts: as for convolutions, see `conv`.
"""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.estimate import conv_flops
from tazza.engines.onednn.image import Order
from tazza.engines.onednn.nn import conv
from tazza.engines.onednn.nn.conv_gradient import convolution, with_data
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import PrimitiveDescriptor
from tazza.operator import OpView, Unsupported
from tazza.ops.nn.conv_transpose import CONV_TRANSPOSE, CONV_TRANSPOSE_GRADIENT, conv_transpose_window, groups
from tazza.ops.nn.fused import FUSED_CONV_TRANSPOSE
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import DataType, TensorSpec


@dataclass(frozen=True)
class Geometry(conv.Geometry):
    """A transposed convolution as oneDNN takes it."""

    @classmethod
    def of(cls, op: OpView, X: TensorSpec, W: TensorSpec) -> Geometry:
        """Return the geometry for these inputs."""
        window, out = conv_transpose_window(op, X.shape, W.shape)
        order = Order.of(op, X)
        image = order.see(TensorSpec(X.shape, X.dtype)).dims[2:]
        sides = zip(image, window.stride, window.kernel, window.head, out, strict=True)
        tail = tuple((extent - 1) * s + k - head - (0 if n is None else n) for extent, s, k, head, n in sides)
        return cls(window, tail, groups(op), order)

    @property
    def operation(self) -> str:
        """What oneDNN calls it."""
        return "deconvolution"

    @property
    def first(self) -> tuple[int, ...]:
        """The axes of the blob W, which begins with C, in the order (M, C, k...)."""
        C, M, *kernel = self.order.to_first
        return (M, C, *kernel)

    def check_cut(self) -> None:
        """Refuse what lies beyond the image and is not oneDNN's."""
        if any(tail + stride <= 0 for tail, stride in zip(self.tail, self.window.stride, strict=True)):
            raise Unsupported(f"adj leaves pads {self.tail} behind the image, oneDNN adds less than a stride")

    def math(self, X: TensorSpec, W: TensorSpec) -> tuple[str, DataType]:
        """Return the type that products may be computed in, and that of the elements, which are never narrow."""
        del W
        return FPMATH.value, X.dtype

    def flops(self, X: TensorSpec, W: TensorSpec, Y: TensorSpec) -> int:
        """Return 2 * N * C * P * M/G * K."""
        del Y
        return conv_flops(W, X)

    def hint(self, flops: int, *given: Descriptor | None) -> PrimitiveDescriptor | None:
        """Return the forward primitive that oneDNN wants to see beside a backward one of these descriptors."""
        source, weights, *bias, target = given
        return self.forward(source, weights, *(bias if bias else [None]), target, flops=flops, kind="forward_training")


@onednn(CONV_TRANSPOSE, FUSED_CONV_TRANSPOSE, empty="zero")
def conv_transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = epilogue(conv_transpose(X, W, b), S ...), without an epilogue the convolution itself."""
    return conv.requests_of(Geometry.of(op, specs["X"], specs["W"]), op, specs).best()


@onednn(CONV_TRANSPOSE_GRADIENT, empty="zero")
def conv_transpose_gradient(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """DW and db by one primitive, dX by another."""
    shape = Geometry.of(op, specs["X"], specs["W"])
    shape.check()
    return with_data(shape, specs, convolution(shape, specs))
