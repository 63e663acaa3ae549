"""Concat and DepthConcat: parts are taken as they lie, Y lies like most of them.

oneDNN joins elements of one type. Where some parts lie narrow and others do not, Y has whole elements, and each part is
copied to its place in it by a reorder of its own.

split_info follows from the shapes alone, and is copied into its blob by a reorder of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tazza.data_class import dataclass
from tazza.engines.onednn.descriptor import Descriptor, accepts_narrow, seen_as_it_lies
from tazza.engines.onednn.launch import PrimitiveLaunch, SequenceLaunch
from tazza.engines.onednn.library import constant
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import Call, CallChain, LaidOut, Operands, OpView
from tazza.ops.shape.concat import adds_axis, concats, join_axis
from tazza.tensor import ROW_MAJOR, DataType, Dim, Layout, Opaque, Strided, Tensor, TensorSpec, channels_last


@dataclass(frozen=True)
class ConcatLaunch:
    """The join, and then the numbers of split_info."""

    join: PrimitiveLaunch | SequenceLaunch
    numbers: PrimitiveLaunch
    extents: tuple[int, ...]
    capturable: bool = False

    @property
    def scratch_bytes(self) -> int:
        """Bytes of scratch memory."""
        return max(self.join.scratch_bytes, self.numbers.scratch_bytes)

    @property
    def implementation(self) -> str:
        """What oneDNN calls the code of the join."""
        return self.join.implementation

    def bind(self, operands: Operands) -> Call:
        """Return both native calls as one."""
        extents = Tensor.from_numpy(np.array(self.extents, np.int32))
        tensors = {"X": extents, "Y": operands["split_info"]}
        return CallChain((self.join.bind(operands), self.numbers.bind(replace(operands, tensors=tensors))))


@onednn(*concats.schemas, accepts=accepts_narrow, batch_invariant=True)
def concat(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X0, X1 ... along the axis."""
    Y, parts = specs["Y"], [specs[f"X{i}"] for i in range(len(op.input_letters))]
    axis = join_axis(op, "Y", len(Y.shape))
    layout = _joined_layout(op, Y, parts)
    sources = tuple(_source(op, axis, spec) for spec in parts)
    join = _joined(sources, Descriptor.of(Y.shape, Y.dtype, layout), axis)
    numbers = Descriptor.of((len(parts),), DataType.INT32)
    copy = PrimitiveLaunch(reorder(numbers, numbers), {"src": "X", "dst": "Y"})
    layouts: dict[str, Layout] = {"X": ROW_MAJOR, "Y": layout} if adds_axis(op) else {"Y": layout}
    return LaidOut(ConcatLaunch(join, copy, tuple(source.dims[axis] for source in sources)), layouts)


def _joined(sources: tuple[Descriptor, ...], target: Descriptor, axis: int) -> PrimitiveLaunch | SequenceLaunch:
    """Return what joins the parts, in one primitive where all have elements of one type, else one for each."""
    if len({source.dtype for source in sources}) == 1:
        found = describe("concat", target, len(sources), axis, sources, attributes=Attributes())
        first = constant("DNNL_ARG_MULTIPLE_SRC")
        return PrimitiveLaunch(found, {first + i: ("X", i) for i in range(len(sources))} | {"dst": "Y"})
    steps: list[PrimitiveLaunch] = []
    start = 0
    for i, source in enumerate(sources):
        place = target.part(axis, start, source.dims)
        steps.append(PrimitiveLaunch(reorder(source, place), {"src": ("X", i), "dst": "Y"}))
        start += source.dims[axis]
    return SequenceLaunch(tuple(steps))


def _source(op: OpView, axis: int, spec: TensorSpec) -> Descriptor:
    """Return the descriptor of a part; with `add_axis` it is read row-major, and gets the axis."""
    if not adds_axis(op):
        return Descriptor.of(spec)
    return Descriptor.of((*spec.shape[:axis], 1, *spec.shape[axis:]), spec.dtype)


def _joined_layout(op: OpView, Y: TensorSpec, parts: Sequence[TensorSpec]) -> Layout:
    """Return the order of axes in memory that most parts have, for the whole; narrow where all parts are."""
    if adds_axis(op):
        return ROW_MAJOR
    order = Counter(axes_in_memory(part) for part in parts).most_common(1)[0][0]
    last = len(Y.shape) > 2 and order == (0, *range(2, len(Y.shape)), 1)
    layout = channels_last(Y.shape) if last else ROW_MAJOR
    kinds = {seen_as_it_lies(part).dtype for part in parts}
    return Descriptor.of(Y.shape, kinds.pop(), layout).layout(dtype=Y.dtype) if len(kinds) == 1 else layout


def axes_in_memory(spec: TensorSpec) -> tuple[int, ...]:
    """Return the axes from the slowest to the fastest in memory; those of blocks as if row-major."""
    axes = tuple(range(len(spec.shape)))
    layout = spec.layout.nearest if isinstance(spec.layout, Opaque) else spec.layout
    if not isinstance(layout, Strided):
        return axes
    steps = layout.steps(Dim(spec.shape))
    return tuple(sorted(axes, key=lambda axis: (-steps[axis], axis)))
