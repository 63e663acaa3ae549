"""Reorders: the same elements in another layout, by the `Copy` kernel of whichever engine knows both layouts."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import replace
from functools import cache, partial
from weakref import WeakValueDictionary

import numpy as np

from tazza.data_class import dataclass
from tazza.device import Context, Generator
from tazza.errors import UnsupportedError
from tazza.operator.choice import find_kernel
from tazza.operator.definition import operator_def
from tazza.operator.engine import rank_engines, why_unavailable
from tazza.operator.kernel import Call, CallChain, LaidOut, Launch, Operands, Unsupported, taken
from tazza.operator.registry import find_schema
from tazza.operator.view import OpView
from tazza.runtime.fork import freed_in_child
from tazza.runtime.threads import at_most_threads
from tazza.tensor import ROW_MAJOR, Allocation, Layout, Opaque, Storage, Strided, Tensor, TensorSpec
from tazza.tensor.offer import answered
from tazza.tensor.residue import comes_back, keep_residue

REORDERING = freed_in_child(threading.RLock())
"""Held by who moves a blob into another layout, and by who binds calls to where blobs lie: weights are shared."""

SHARED_BYTES = 16 << 20
"""From this size on, moving a blob into another layout is worth more than one thread.

What takes the time of a smaller one are the pages of fresh memory, of which one thread gets as many in a second as two.
Between one weight and the next the others would wait awake: half of 0.1 s of processor time for those of a ResNet-50.
"""


@dataclass(frozen=True, slots=True)
class PlainCopy:
    """Copies into a layout that NumPy can look at, from any: an opaque one's engine makes it plain first."""

    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return the copy."""
        source, target = operands["X"], operands["Y"].array
        return lambda: np.copyto(target, source.plain())


@dataclass(frozen=True, slots=True)
class ThroughPlain:
    """Two copies, with a row-major one in between that lives as long as the call."""

    spec: TensorSpec
    first: Launch
    second: Launch
    capturable: bool = False

    @property
    def scratch_bytes(self) -> int:
        """That of the greedier copy."""
        return max(self.first.scratch_bytes, self.second.scratch_bytes)

    def bind(self, operands: Operands) -> Call:
        """Return both copies as one call."""
        between = Tensor(self.spec.shape, self.spec.dtype, self.spec.place)
        between.reserve()
        into = replace(operands, tensors={"X": operands["X"], "Y": between})
        out = replace(operands, tensors={"X": between, "Y": operands["Y"]})
        return CallChain((self.first.bind(into), self.second.bind(out)))


@cache
def copy_view() -> OpView:
    """Return the operator that every reorder is: Y = Copy(X)."""
    return find_schema("Copy").view(operator_def("Copy", ["X"], ["Y"]))


def reorder_launch(source: TensorSpec, target: TensorSpec, context: Context) -> Launch:
    """Return the launch that writes `target` (letter Y) from `source` (letter X): equal specs but for the layout.

    Raises:
        UnsupportedError: no engine knows both layouts.
    """
    found = _direct(source, target, context)
    if found is not None:
        return found
    if isinstance(target.layout, Strided) and context.place.is_host:
        return PlainCopy()
    if source.layout != ROW_MAJOR:  # axes that the target joins may not lie side by side
        plain = replace(source, layout=ROW_MAJOR)
        second = _direct(plain, target, context)
        if second is not None:
            return ThroughPlain(plain, reorder_launch(source, plain, context), second)
    raise UnsupportedError(f"no engine brings {source} into {target}")


def _direct(source: TensorSpec, target: TensorSpec, context: Context) -> Launch | None:
    """Return the launch of the first engine that knows both layouts."""
    for candidate in rank_engines("Copy", context.place.kind, ""):
        if why_unavailable("Copy", context.place.kind, candidate.engine) is not None:
            continue
        kernel = find_kernel("Copy", context.place.kind, candidate.engine)
        if kernel.prepare is None or not kernel.accepts("X", source):
            continue
        prepare = partial(kernel.prepare, copy_view(), context, [source], [target])
        answer = answered(lambda prepare=prepare: taken(prepare()))
        if isinstance(answer, LaidOut) and answer.layouts.get("Y") == target.layout and "X" not in answer.layouts:
            return answer.launch
        if not isinstance(answer, (LaidOut, Unsupported)) and source.layout == target.layout:
            return answer
    return None


def relayout(tensor: Tensor, layout: Layout, context: Context) -> None:
    """Bring the elements of a tensor into another layout, in other memory, and with it those who are the same data.

    Views that show them in another way keep the old memory.

    Raises:
        UnsupportedError: no engine knows both layouts.
    """
    with REORDERING:
        if tensor.layout == layout:
            return
        other = Tensor.over(Storage(tensor.place, holder=tensor.storage.holder), 0, replace(tensor.spec, layout=layout))
        other.reserve()
        few = at_most_threads(1) if tensor.nbytes < SHARED_BYTES else nullcontext()
        with few:
            bind_reorder(tensor, other, context)()
        if isinstance(layout, Opaque) and layout.derived and comes_back(layout):
            keep_residue(other, tensor.plain())
        for one in (tensor, *tensor.sharers()):
            one.share(other)


def bind_reorder(source: Tensor, target: Tensor, context: Context) -> Call:
    """Return the call that copies the elements of one tensor into another of the same shape and any layout."""
    launch = reorder_launch(source.spec, target.spec, context)
    scratch = context.scratch(launch.scratch_bytes) if launch.scratch_bytes else None
    call = launch.bind(Operands({"X": source, "Y": target}, scratch, _no_generator, context))
    return call if scratch is None else _Holding(call, scratch)


@dataclass(frozen=True, slots=True)
class _Holding:
    """A call with the scratch memory that it works in."""

    call: Call
    scratch: Allocation

    def __call__(self) -> None:
        self.call()


def _no_generator() -> Generator:
    raise UnsupportedError("a reorder draws no random numbers")


@dataclass(slots=True, eq=False, weakref_slot=True)
class Refresh:
    """A call that brings `target` up to date with `source`: it reorders where that was written since the last time."""

    source: Tensor
    target: Tensor
    reorder: Call
    storage: Storage
    version: int = -1

    def __call__(self) -> None:
        """Reorder where need be."""
        storage = self.source.storage
        if storage.version != self.version or storage.escaped:
            self.reorder()
            self.version = storage.version


_REFRESHES: WeakValueDictionary[tuple[object, ...], Refresh] = WeakValueDictionary()


def refreshed(tensor: Tensor, layout: Layout, context: Context) -> Refresh:
    """Return what keeps a copy of a tensor in another layout, the same for all that run on one context.

    The steps of a recurrent net read the same weights: these are packed once, not once for each step. Calls of one
    context run one after the other, so nobody reads a copy while another one brings it up to date.
    """
    storage = tensor.storage
    key = (context, id(storage), storage.generation, tensor.offset_bytes, tensor.spec, layout)
    with REORDERING:
        found = _REFRESHES.get(key)
        if found is None or found.source.storage is not storage:
            other = Tensor(tensor.shape, tensor.dtype, tensor.place)
            other.resize_to(replace(tensor.spec, layout=layout))
            other.reserve()
            found = _REFRESHES[key] = Refresh(tensor, other, bind_reorder(tensor, other, context), storage)
        return found
