"""Scales and zero points as attributes and arguments, and constants in the form in which oneDNN multiplies bytes.

Letters: q a byte, s and z its scale and zero point. oneDNN multiplies unsigned bytes by signed ones, so filters lie as
q - 128 in whatever layout it wants, with sums for the zero point of the other side behind them where it asks for that.
Filters of any other zero point than 128 are left to other engines. Both forms are computed from blobs, in copies.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, cast

import numpy as np

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import Numbers, Operand, PrimitiveLaunch
from tazza.engines.onednn.primitive import Attributes, Eltwise, PostOp, describe, scale_argument, zero_point_argument
from tazza.operator import Call, Launch, Operands
from tazza.tensor import DataType, Layout, Opaque, PerChannel, PerTensor, Tensor, TensorSpec

SHIFT = 128
CLOSE = 1e-4
"""How far scales of a bias may be from those of the products: rounding."""


@dataclass
class Scaling:
    """Attributes of a primitive and the arguments that they need, gathered."""

    post_ops: tuple[PostOp, ...] = ()
    scales: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    zero_points: list[str] = field(default_factory=list[str])
    arguments: dict[str | int, Operand] = field(default_factory=dict[str | int, Operand])

    def scale(self, name: str, *values: float, mask: int = 0) -> None:
        """Give an argument scales; a single 1 is none."""
        if values != (1.0,):
            self.scales.append((name, mask))
            self.arguments[scale_argument(name)] = Numbers(values)

    def zero_point(self, name: str, value: int) -> None:
        """Give an argument a zero point; 0 is none."""
        if value:
            self.zero_points.append(name)
            self.arguments[zero_point_argument(name)] = Numbers((value,), DataType.INT32)

    def meaning(self, name: str, meaning: PerTensor) -> None:
        """Give an argument the scale and the zero point of a blob."""
        self.scale(name, meaning.scale)
        self.zero_point(name, meaning.zero_point)

    @property
    def attributes(self) -> Attributes:
        """The attributes."""
        return Attributes(self.post_ops, scales=tuple(self.scales), zero_points=tuple(self.zero_points))


def meaning_of(spec: TensorSpec) -> PerTensor:
    """Return the one scale and zero point of a blob."""
    return cast("PerTensor", spec.quantization)


NUMBERS = PerTensor(1.0, 0)
"""What numbers mean that stand for themselves."""


def reordered(
    source: Descriptor,
    target: Descriptor,
    *,
    src: PerTensor = NUMBERS,
    dst: PerTensor = NUMBERS,
    read: Operand = "X",
    write: Operand = "Y",
) -> PrimitiveLaunch:
    """Return what copies `source` to `target`, from integers of the meaning `src` to those of `dst`.

    Raises:
        Unimplemented: oneDNN has no code for it, or only its reference code, which is slower than NumPy.
    """
    scaling = Scaling()
    if src != dst:
        scaling.meaning("src", src)
        scaling.meaning("dst", dst)
    found = describe("reorder", source, target, attributes=scaling.attributes).unless_slow
    return PrimitiveLaunch(found, {"src": read, "dst": write, **scaling.arguments})


def requantizing(before: PerTensor, after: PerTensor) -> tuple[PostOp, ...]:
    """Return the post-op that makes integers of one meaning those of another; none where they are the same."""
    if before == after:
        return ()
    ratio = before.scale / after.scale
    return (Eltwise("eltwise_linear", ratio, after.zero_point - ratio * before.zero_point),)


@dataclass(frozen=True)
class Sums:
    """How sums of products of bytes become the result: what is scaled where.

    `unit` is what an integer of the sums counts before post-ops: 1 where W has one scale, which then belongs to that
    of the result, so that b may stay whole; else numbers.
    """

    X: PerTensor
    W: PerTensor | PerChannel
    Y: PerTensor

    @classmethod
    def of(cls, specs: dict[str, TensorSpec]) -> Sums:
        """Return it for the blobs of an operator."""
        return cls(
            meaning_of(specs["X"]), cast("PerTensor | PerChannel", specs["W"].quantization), meaning_of(specs["Y"])
        )

    @property
    def of_bias(self) -> PerTensor | PerChannel:
        """What the integers of b mean, whatever they are said to mean: as in Caffe2 their scale does not count."""
        if isinstance(self.W, PerTensor):
            return PerTensor(float(np.float32(self.X.scale) * np.float32(self.W.scale)))
        scales = np.float32(self.X.scale) * np.array(self.W.scales, np.float32)
        return PerChannel(0, tuple(map(float, scales)), (0,) * len(scales))

    @property
    def unit(self) -> float:
        """What 1 stands for before the result is scaled."""
        return float(np.float32(self.X.scale) * np.float32(self.W.scale)) if isinstance(self.W, PerTensor) else 1.0

    def scaling(self, post_ops: tuple[PostOp, ...], mask: int) -> Scaling:
        """Return the attributes; `mask` are the axes of output channels in the filters."""
        made = Scaling(post_ops)
        if isinstance(self.W, PerChannel):
            made.scale("src", self.X.scale)
            made.scale("weights", *self.W.scales, mask=mask)
        made.scale("dst", float(np.float32(self.Y.scale / self.unit)))
        made.zero_point("src", self.X.zero_point)
        made.zero_point("dst", self.Y.zero_point)
        return made

    def obstacle(self, b: TensorSpec) -> str | None:
        """Return why these blobs are not multiplied as bytes, or None."""
        points = {self.W.zero_point} if isinstance(self.W, PerTensor) else set(self.W.zero_points)
        if points != {SHIFT}:
            return f"filters with zero points {sorted(points)}: oneDNN multiplies by those of {SHIFT}"
        if isinstance(self.W, PerTensor):
            return None
        wanted = np.float32(self.X.scale) * np.array(self.W.scales, np.float32)
        found = np.array(b.quantization.scales if isinstance(b.quantization, PerChannel) else meaning_of(b).scale)
        if not np.allclose(found, wanted, rtol=CLOSE, atol=0):
            return "scales of b are not those of X and W"
        return None

    def bias(self, b: TensorSpec, dims: tuple[int, ...]) -> tuple[Descriptor, Layout]:
        """Return the descriptor of b for these extents, and how b lies."""
        if isinstance(self.W, PerTensor):
            return Descriptor.of(dims, DataType.INT32), TensorSpec(b.shape, b.dtype).layout
        found = Descriptor.of(dims, DataType.FLOAT)
        return found, numbered_layout(found)


# -- constants ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rewritten:
    """Elements of a quantized blob in another form: bytes less 128, or the numbers that they stand for.

    Numbers are those of `meaning`, where that is given, in float32. Where `axes` are given, elements are seen in that
    order and with the extents of the descriptor, in its layout; else they are row-major.
    """

    descriptor: Descriptor
    axes: tuple[int, ...] | None
    signed: bool = False
    meaning: PerTensor | PerChannel | None = None

    def launch(self, source: TensorSpec) -> Launch:
        """Return what computes them from the blob as it lies."""
        meaning = source.quantization if self.meaning is None else self.meaning
        assert meaning is not None, f"{source} has no scale"

        def real(tensor: Tensor, target: Any) -> None:
            np.copyto(target, meaning.real(tensor.plain()))

        compute, dtype = (shift, DataType.INT8) if self.signed else (real, DataType.FLOAT)
        if self.axes is None:
            return _Computed(compute, None, dtype)
        plain = Descriptor.of(source.shape, dtype).permute(self.axes).reshape(self.descriptor.dims)
        found = describe("reorder", plain, self.descriptor, attributes=Attributes())  # maybe slow code, which runs once
        return _Computed(compute, PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), dtype)


def shift(tensor: Tensor, target: Any) -> None:
    """Write bytes less 128 as signed ones."""
    np.copyto(target, (tensor.plain() ^ np.uint8(SHIFT)).view(np.int8))


def signed_layout(descriptor: Descriptor, axes: tuple[int, ...]) -> Opaque:
    """Return the layout of filters that lie signed; `axes` bring those of the blob into oneDNN's order."""
    return Opaque("onednn", Rewritten(descriptor, axes, signed=True), descriptor.nbytes, derived=True)


def numbered_layout(
    descriptor: Descriptor, axes: tuple[int, ...] | None = None, meaning: PerTensor | PerChannel | None = None
) -> Opaque:
    """Return the layout of a constant that lies as numbers."""
    return Opaque("onednn", Rewritten(descriptor, axes, meaning=meaning), descriptor.nbytes, derived=True)


@dataclass(frozen=True)
class _Computed:
    """Computes elements with NumPy, and then reorders them, if need be."""

    compute: Any
    reorder: PrimitiveLaunch | None
    dtype: DataType
    capturable: bool = False

    @property
    def scratch_bytes(self) -> int:
        return 0 if self.reorder is None else self.reorder.scratch_bytes

    def bind(self, operands: Operands) -> Call:
        source, target, compute = operands["X"], operands["Y"], self.compute
        if self.reorder is None:
            window = target.storage.window(DataType.FLOAT, target.shape, target.offset_bytes, None)
            return lambda: compute(source, window)
        between = Tensor(source.shape, self.dtype)
        between.reserve()
        bound = Operands({"X": between, "Y": target}, operands.scratch, operands.random, operands.context)
        reorder = self.reorder.bind(bound)

        def call() -> None:
            compute(source, between.array)
            reorder()

        return call
