"""Convolution with its gradients: all names, both orders, groups, dilation, one to three dimensions.

The library's heuristic lists algorithms, fastest first. The first one is taken that gives the same numbers each time,
with a workspace of at most `ws_nbytes_limit` bytes, or else the one with the smallest. An image of one dimension gets
another one of one element.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.device.cuda import queue_of
from tazza.engines.cudnn import KIND, NAME
from tazza.engines.cudnn._declarations import NUMBERS
from tazza.engines.cudnn.library import CUDNN, Descriptor, integers
from tazza.errors import KernelError
from tazza.operator import Call, Launch, Operands, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.conv import conv_gradients, conv_window, convs
from tazza.tensor import DataType, TensorSpec

TYPES = {
    DataType.FLOAT: NUMBERS["CUDNN_DATA_FLOAT"],
    DataType.FLOAT16: NUMBERS["CUDNN_DATA_HALF"],
    DataType.BFLOAT16: NUMBERS["CUDNN_DATA_BFLOAT16"],
}
_FIRST, _LAST = NUMBERS["CUDNN_TENSOR_NCHW"], NUMBERS["CUDNN_TENSOR_NHWC"]
MOST_ALGORITHMS = 10
WORKSPACE_BYTES = 64 << 20
"""How large a workspace may be, where no argument `ws_nbytes_limit` says so; as in Caffe2."""


class Performance(ctypes.Structure):
    """What the library says of an algorithm: `cudnnConvolutionFwdAlgoPerf_t` and its like."""

    _fields_ = (
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("time", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("determinism", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    )


@dataclass(frozen=True, slots=True)
class Work:
    """One call of the library.

    Attributes:
        function: its name, without `cudnn`.
        operands: letters and descriptors of what is read.
        target: those of what is written.
        convolution: the descriptor; None where there is none.
        algorithm: number, and bytes of workspace.
        added: whether the result is added to what is there.
    """

    function: str
    operands: tuple[tuple[str, Descriptor], ...]
    target: tuple[str, Descriptor]
    convolution: Descriptor | None = None
    algorithm: tuple[int, int] = (0, 0)
    added: bool = False


@dataclass(frozen=True, slots=True)
class ConvLaunch:
    """Queues calls of the library, one behind the other."""

    works: tuple[Work, ...]

    @property
    def scratch_bytes(self) -> int:
        """The largest workspace."""
        return max(work.algorithm[1] for work in self.works)

    def bind(self, operands: Operands) -> Call:
        """Return what queues them on the stream of the context."""
        device, handle = queue_of(operands.context).device, CUDNN.handle_of(operands.context)
        calls = [(f"cudnn{work.function}", *_arguments(work, operands)) for work in self.works]

        def call() -> None:
            for name, arguments, _kept in calls:
                CUDNN.call(device, name, handle, *arguments)

        return call


def _arguments(work: Work, operands: Operands) -> tuple[list[object], list[object]]:
    """Return what the library is called with, and what has to live as long."""
    alpha, beta = ctypes.c_float(1.0), ctypes.c_float(float(work.added))
    found: list[object] = [ctypes.addressof(alpha)]
    for letter, descriptor in work.operands:
        found += [descriptor.handle, operands[letter].address]
    if work.convolution is not None:
        scratch = None if operands.scratch is None else operands.scratch.address
        found += [work.convolution.handle, work.algorithm[0], scratch, work.algorithm[1]]
    letter, descriptor = work.target
    found += [ctypes.addressof(beta), descriptor.handle, operands[letter].address]
    return found, [alpha, beta, operands]


class Plan:
    """The descriptors of one convolution, and the choice of algorithms."""

    def __init__(self, op: OpView, context: Context, X: TensorSpec, W: TensorSpec, Y: Sequence[int]) -> None:
        """Describe it; `Y` are the extents of the output."""
        self.context, self.device, self.limit = context, queue_of(context).device, _workspace_limit(op)
        self.last, self.kind = op.order.upper() == "NHWC", TYPES[X.dtype]
        window, _ = conv_window(op, X.shape, W.shape)
        flat = window.rank == 1
        self.X, self.Y = self._tensor(X.shape), self._tensor(Y)
        filters = self._first(W.shape)
        form = _LAST if self.last else _FIRST
        self.W = Descriptor(self.device, "Filter").set(
            "cudnnSetFilterNdDescriptor", self.kind, form, len(filters), integers(filters)
        )
        pads, strides, dilations = (
            integers((*numbers, *((fill,) if flat else ())))
            for numbers, fill in ((window.head, 0), (window.stride, 1), (window.dilation, 1))
        )
        made = Descriptor(self.device, "Convolution")
        made.set(
            "cudnnSetConvolutionNdDescriptor", len(pads), pads, strides, dilations,
            NUMBERS["CUDNN_CROSS_CORRELATION"], NUMBERS["CUDNN_DATA_FLOAT"],
        )  # fmt: skip
        made.set("cudnnSetConvolutionGroupCount", op.group)
        whole = X.dtype is DataType.FLOAT
        made.set("cudnnSetConvolutionMathType", NUMBERS["CUDNN_FMA_MATH" if whole else "CUDNN_DEFAULT_MATH"])
        self.convolution = made
        self.b = self._tensor(
            (1, *[1] * (len(Y) - 2), W.shape[0]) if self.last else (1, W.shape[0], *[1] * (len(Y) - 2))
        )

    def _first(self, dims: Sequence[int]) -> list[int]:
        """Return extents with the channels first, and with two dimensions at least."""
        found = [dims[0], dims[-1], *dims[1:-1]] if self.last else list(dims)
        return [*found, 1] if len(found) == 3 else found

    def _tensor(self, dims: Sequence[int]) -> Descriptor:
        extents = self._first(dims)
        order = [0, *range(2, len(extents)), 1] if self.last else list(range(len(extents)))
        steps, step = [0] * len(extents), 1
        for axis in reversed(order):
            steps[axis] = step
            step *= extents[axis]
        return Descriptor(self.device, "Tensor").set(
            "cudnnSetTensorNdDescriptor", self.kind, len(extents), integers(extents), integers(steps)
        )

    def algorithm(self, name: str, *descriptors: Descriptor) -> tuple[int, int]:
        """Return the number of an algorithm and the bytes of its workspace.

        Raises:
            KernelError: the library has none for this.
        """
        found, count = (Performance * MOST_ALGORITHMS)(), ctypes.c_int()
        handles = [one.handle for one in descriptors]
        CUDNN.call(
            self.device, f"cudnnGetConvolution{name}Algorithm_v7", CUDNN.handle_of(self.context), *handles,
            MOST_ALGORITHMS, ctypes.byref(count), found,
        )  # fmt: skip
        able = [one for one in found[: count.value] if one.status == NUMBERS["CUDNN_STATUS_SUCCESS"]]
        steady = [one for one in able if one.determinism == NUMBERS["CUDNN_DETERMINISTIC"]]
        fitting = [one for one in steady if one.memory <= self.limit]
        least = sorted(steady if steady else able, key=lambda one: one.memory)
        if not least:
            raise KernelError(f"cuDNN has no algorithm for {name} of this convolution")
        chosen = fitting[0] if fitting else least[0]
        return chosen.algorithm, chosen.memory


def _workspace_limit(op: OpView) -> int:
    """Return how many bytes a workspace may have; the argument is one of those that every operator may carry."""
    return next((given.i for given in op.definition.arg if given.name == "ws_nbytes_limit"), WORKSPACE_BYTES)


def _refusal(op: OpView, specs: Sequence[Spec], X: TensorSpec, W: TensorSpec) -> Unsupported | None:
    if X.dtype not in TYPES or any(cast("TensorSpec", spec).dtype is not X.dtype for spec in specs):
        return Unsupported(f"it takes float32, float16 and bfloat16, not {X.dtype.label}")
    if any(cast("TensorSpec", spec).size == 0 for spec in specs):
        return Unsupported("there is nothing to convolve")
    window, out = conv_window(op, X.shape, W.shape)
    image = X.shape[1:-1] if op.order.upper() == "NHWC" else X.shape[2:]
    sides = zip(image, window.head, window.dilation, window.kernel, window.stride, strict=True)
    even = tuple((extent + 2 * head - d * (k - 1) - 1) // s + 1 for extent, head, d, k, s in sides)
    if even != tuple(out) or min(window.head) < 0:
        return Unsupported(f"pads {window.head} before and {window.tail} behind the image differ")
    return Unsupported("images of more than three dimensions") if window.rank > 3 else None


def prepare_conv(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
    """Y from X, W and b."""
    X, W, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", inputs[1]), cast("TensorSpec", outputs[0])
    reason = _refusal(op, [*inputs, *outputs], X, W)
    if reason is not None:
        return reason
    plan = Plan(op, context, X, W, Y.shape)
    chosen = plan.algorithm("Forward", plan.X, plan.W, plan.convolution, plan.Y)
    read, Y_there = (("X", plan.X), ("W", plan.W)), ("Y", plan.Y)
    works = [Work("ConvolutionForward", read, Y_there, plan.convolution, chosen)]
    if len(inputs) > 2:
        works.append(Work("AddTensor", (("b", plan.b),), Y_there, added=True))
    return ConvLaunch(tuple(works))


def prepare_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Return dW, db and dX from X, W and dY."""
    X, W, dY = (cast("TensorSpec", spec) for spec in inputs)
    reason = _refusal(op, [*inputs, *outputs], X, W)
    if reason is not None:
        return reason
    plan = Plan(op, context, X, W, dY.shape)
    slope = ("dY", plan.Y)
    chosen = plan.algorithm("BackwardFilter", plan.X, plan.Y, plan.convolution, plan.W)
    works = [Work("ConvolutionBackwardFilter", (("X", plan.X), slope), ("dW", plan.W), plan.convolution, chosen)]
    if "db" in op.output_letters:
        works.append(Work("ConvolutionBackwardBias", (slope,), ("db", plan.b)))
    if "dX" in op.output_letters:
        chosen = plan.algorithm("BackwardData", plan.W, plan.Y, plan.convolution, plan.X)
        works.append(Work("ConvolutionBackwardData", (("W", plan.W), slope), ("dX", plan.X), plan.convolution, chosen))
    return ConvLaunch(tuple(works))


def _register(schemas: Sequence[object], prepare: Callable[..., Launch | Unsupported]) -> None:
    for schema in schemas:
        launcher(schema, engine=NAME, device=KIND, accepts=accepts_rows)(prepare)  # pyright: ignore[reportArgumentType]


_register(convs.schemas, prepare_conv)
_register(conv_gradients.schemas, prepare_gradient)
