"""Sliding windows: the arguments, sizes and paddings that convolution and pooling share.

Letters: D spatial dimensions; for each one `in` (image size), `out` (number of windows), `k` (kernel), `s` (stride),
`d` (dilation), `head` and `tail` (padding before and after). A dilated kernel covers d * (k - 1) + 1 elements.

The size rules by `legacy_pad` (from recorded runs of Caffe2, which took them from Caffe and TensorFlow):

    NOTSET                  out = floor((in + head + tail - cover) / s) + 1
    VALID                   the same without padding
    SAME                    out = ceil(in / s); half of the padding that this needs, rounded to zero, is the head, the
                            rest the tail; both may be negative; no dilation
    CAFFE_LEGACY_POOLING    out = ceil((in + 2 head - k) / s) + 1, one less when head > 0 and the last window would
                            begin behind in + head; the tail grows by what rounding up added; no dilation
"""

from __future__ import annotations

import enum
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import ArgSpec, Array, Dims, OpView, arg, find_argument
from tazza.ops.nn.channel import ORDER
from tazza.proto import OperatorDef

LOWEST = np.finfo(np.float32).min
"""What the largest of a window begins with: NaN and -infinity are not seen."""


class LegacyPad(enum.IntEnum):
    """How padding and output size follow from each other; the numbers of `caffe2.LegacyPadding`."""

    NOTSET = 0
    VALID = 1
    SAME = 2
    CAFFE_LEGACY_POOLING = 3


PAIRS = (
    ("kernel_h", "kernel_w"),
    ("stride_h", "stride_w"),
    ("dilation_h", "dilation_w"),
    ("pad_t", "pad_l", "pad_b", "pad_r"),
)
"""Arguments that count only together."""


def window_args(*, least_kernel: int = 1) -> list[ArgSpec]:
    """Return the declarations of all arguments that describe windows; `least_kernel` 0 lets `Window.of` refuse it."""
    singular = [
        arg("kernel", int, None, minimum=least_kernel, doc="kernel size in both of two dimensions"),
        arg("stride", int, None, minimum=1, doc="step between windows in both of two dimensions"),
        arg("dilation", int, None, minimum=1, doc="step between kernel elements in both of two dimensions"),
        arg("pad", int, None, doc="padding on all four sides of two dimensions"),
    ]
    plural = [
        arg("kernels", list[int], [], minimum=least_kernel, doc="kernel size per dimension"),
        arg("strides", list[int], [], minimum=1, doc="stride per dimension"),
        arg("dilations", list[int], [], minimum=1, doc="dilation per dimension"),
        arg("pads", list[int], [], doc="all heads, then all tails; negative ones cut off"),
    ]
    least = {"kernel": least_kernel, "stride": 1, "dilation": 1, "pad": None}
    sided = [
        arg(name, int, None, minimum=least[name.split("_")[0]], doc=f"counts together with {', '.join(group)}")
        for group in PAIRS
        for name in group
    ]
    legacy = arg(
        "legacy_pad",
        int,
        LegacyPad.NOTSET,
        choices=tuple(LegacyPad),
        doc="NOTSET 0, VALID 1, SAME 2, CAFFE_LEGACY_POOLING 3",
    )
    return [*singular, *plural, *sided, legacy, ORDER]


def half_pairs(definition: OperatorDef) -> list[str]:
    """Return arguments of which a partner is missing (`stride_h` alone); Caffe2 ignores them without a word."""
    lonely: list[str] = []
    for group in PAIRS:
        present = [name for name in group if find_argument(definition, name) is not None]
        if len(present) < len(group):
            lonely.extend(present)
    return lonely


@dataclass(frozen=True, slots=True)
class Touch:
    """A kernel element of one dimension, the windows in which it lies in the image, and the places where it does."""

    tap: int
    windows: slice
    places: slice


@dataclass(frozen=True, slots=True)
class Window:
    """The windows of one operator over D dimensions; all tuples have D elements."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    head: tuple[int, ...]
    tail: tuple[int, ...]
    legacy_pad: LegacyPad = LegacyPad.NOTSET

    @classmethod
    def of(cls, op: OpView, *, default_kernel: tuple[int, ...] | None = None) -> Window:
        """Read the window of an operator from its arguments; pads are those asked for, see `over`.

        Raises:
            ArgumentError: no kernel, or lists of different lengths, or pads where `legacy_pad` makes them.
        """
        kernel = given_sizes(op, "kernel")
        if kernel is None:
            kernel = default_kernel
        if kernel is None:
            raise op.error(ArgumentError, "no kernel size", hint="give kernel, kernels, or kernel_h with kernel_w")
        if min(kernel, default=1) < 1:
            raise op.error(
                ArgumentError, f"kernel {list(kernel)} is below its minimum 1", hint="global_pooling takes 0"
            )
        rank = len(kernel)
        legacy = LegacyPad(op.legacy_pad)
        pads = given_sizes(op, "pad")
        if pads is not None and legacy in (LegacyPad.VALID, LegacyPad.SAME):
            raise op.error(
                ArgumentError,
                f"legacy_pad = {legacy.name} makes its own pads, {list(pads)} are given too",
                hint="drop one",
            )
        stride = _expect(op, "stride", given_sizes(op, "stride"), rank, 1)
        dilation = _expect(op, "dilation", given_sizes(op, "dilation"), rank, 1)
        pads = _expect(op, "pad", pads, 2 * rank, 0)
        return cls(kernel, stride, dilation, pads[:rank], pads[rank:], legacy)

    @property
    def rank(self) -> int:
        """D."""
        return len(self.kernel)

    @property
    def cover(self) -> tuple[int, ...]:
        """Elements from the first to the last that a window touches."""
        return tuple(d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilation, strict=True))

    @property
    def size(self) -> int:
        """Number of elements of the kernel."""
        return math.prod(self.kernel)

    @property
    def far(self) -> int:
        """The largest stride, dilation, or number of places by which a pad exceeds what the kernel covers.

        Code that lays the padded image out, or counts it out, refuses windows for which this is large.
        """
        pads = (max(sides) for sides in zip(self.head, self.tail, strict=True))
        beyond = (pad - cover for pad, cover in zip(pads, self.cover, strict=True))
        return max((*self.stride, *self.dilation, *beyond), default=0)

    def over(self, op: OpView, image: Sequence[int | None]) -> tuple[Window, Dims]:
        """Return the window with its final pads over an image of sizes `image`, and the output sizes; None stays None.

        A stride that leads from the first window beyond the image is as good as any other such: it is given as one that
        ends right behind the padded image, so that nobody computes with 2**62.

        Raises:
            ShapeError: the kernel covers more than the padded image has.
        """
        sizes = [self._size(op, axis, extent) for axis, extent in enumerate(image)]
        heads = tuple(head for head, _, _ in sizes)
        tails = tuple(tail for _, tail, _ in sizes)
        strides = tuple(
            min(step, max(extent + head + max(tail, 0), 1)) if out == 1 and extent is not None else step
            for step, extent, (head, tail, out) in zip(self.stride, image, sizes, strict=True)
        )
        final = Window(self.kernel, strides, self.dilation, heads, tails, self.legacy_pad)
        return final, tuple(out for _, _, out in sizes)

    def _size(self, op: OpView, axis: int, extent: int | None) -> tuple[int, int, int | None]:
        k, s, head, tail, cover = (
            self.kernel[axis],
            self.stride[axis],
            self.head[axis],
            self.tail[axis],
            self.cover[axis],
        )
        if extent is None:
            return head, tail, None
        if self.legacy_pad is LegacyPad.SAME:
            op.require(self.dilation[axis] == 1, f"legacy_pad = SAME does not take dilation {self.dilation[axis]}")
            out = -(-extent // s)
            needed = (out - 1) * s + k - extent
            head = _to_zero(needed, 2)
            return head, needed - head, out
        if self.legacy_pad is LegacyPad.CAFFE_LEGACY_POOLING:
            op.require(self.dilation[axis] == 1, f"{self.legacy_pad.name} does not take dilation {self.dilation[axis]}")
            return head, *self._caffe_size(op, axis, extent)
        op.require(
            min(head, tail) >= -extent,
            f"pads {head} and {tail} cut more off than the {extent} elements of dimension {axis}",
            hint="a negative pad may cut off at most the image",
        )
        op.require(
            extent + head + tail >= cover,
            f"the kernel covers {cover} elements of dimension {axis}, the padded image has {extent} + {head} + {tail}",
            hint="pad more, or use a smaller kernel or dilation",
        )
        return head, tail, (extent + head + tail - cover) // s + 1

    def _caffe_size(self, op: OpView, axis: int, extent: int) -> tuple[int, int]:
        """Return tail and output size: rounded up, as Caffe did."""
        k, s, head = self.kernel[axis], self.stride[axis], self.head[axis]
        rounded_up = -(-(extent + 2 * head - k) // s) + 1
        if head > 0 and (rounded_up - 1) * s >= extent + head:
            rounded_up -= 1
        rounded_down = _to_zero(extent + 2 * head - k, s) + 1
        op.require(
            rounded_up >= max(rounded_down, 1),
            f"a kernel of {k} with stride {s} and pad {head} gives {rounded_up} windows over {extent} elements"
            f" of dimension {axis}",
        )
        # Division rounds to zero, so a kernel larger than the padded image has its one window without a step more.
        behind = head + s * (rounded_up - rounded_down), (rounded_up - 1) * s + k - extent - head
        return max(behind), rounded_up

    def overlap(self, image: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return which part of an image (in...) lies in the padded one, and where; all unless a pad is negative."""
        sides = list(zip(self.head, image, self.tail, strict=True))
        inside = tuple(slice(max(-head, 0), extent - max(-tail, 0)) for head, extent, tail in sides)
        where = tuple(
            slice(max(h, 0), max(h, 0) + part.stop - part.start) for h, part in zip(self.head, inside, strict=True)
        )
        return inside, where

    def clipped(self, image: Sequence[int], out: Sequence[int]) -> Window:
        """Return the window without those kernel elements that no window has in the image, as large as it may be.

        What is left of a kernel is no larger than the image and all steps from the first window to the last.
        """
        taps = [self.taps(axis, *sizes) for axis, sizes in enumerate(zip(image, out, strict=True))]
        kernel = tuple(max(len(some), 1) for some in taps)
        head = tuple(h - d * some.start for h, d, some in zip(self.head, self.dilation, taps, strict=True))
        cover = (d * (k - 1) + 1 for k, d in zip(kernel, self.dilation, strict=True))
        rows = zip(cover, self.stride, head, image, out, strict=True)
        tail = tuple((n - 1) * s + c - extent - h for c, s, h, extent, n in rows)
        return Window(kernel, self.stride, self.dilation, head, tail)

    def taps(self, axis: int, extent: int, out: int) -> range:
        """Return the kernel elements of one dimension that may lie in the image.

        Element j of window p lies at p * s + j * d - head: j is the last one that can in the first window, p = 0, and
        the first one that can in the last window.
        """
        k, s, d, head = self.kernel[axis], self.stride[axis], self.dilation[axis], self.head[axis]
        first = max(0, -(((out - 1) * s - head) // d))
        last = min(k - 1, (extent - 1 + head) // d)
        return range(first, last + 1) if first <= last and out > 0 else range(0)

    def touches(self, axis: int, extent: int, out: int) -> list[Touch]:
        """Return for each kernel element of one dimension what it touches in an image of `extent`, if anything."""
        s, d, head = self.stride[axis], self.dilation[axis], self.head[axis]
        found: list[Touch] = []
        for tap in self._touching(axis, extent, out):
            offset = tap * d - head
            first, last = max(0, -(offset // s)), min(out - 1, (extent - 1 - offset) // s)
            if first <= last:
                places = slice(first * s + offset, last * s + offset + 1, s)
                found.append(Touch(tap, slice(first, last + 1), places))
        return found

    def _touching(self, axis: int, extent: int, out: int) -> Sequence[int]:
        """Return the kernel elements of `taps`, without those between two windows that are far apart.

        >>> Window((100,), (90,), (1,), (95,), (95,))._touching(0, 3, 2)
        [5, 6, 7, 95, 96, 97]
        """
        taps = self.taps(axis, extent, out)
        if len(taps) <= out * extent:
            return taps
        s, d, head = self.stride[axis], self.dilation[axis], self.head[axis]
        near: set[int] = set()
        for begin in (head - p * s for p in range(out)):
            near.update(range(max(taps.start, -(-begin // d)), min(taps.stop, (begin + extent - 1) // d + 1)))
        return sorted(near)

    def all_touches(
        self, image: Sequence[int], out: Sequence[int]
    ) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]]:
        """Yield each kernel element, the windows in which it lies in the image (in...), and where it lies there."""
        lists = [self.touches(axis, *sizes) for axis, sizes in enumerate(zip(image, out, strict=True))]
        for some in itertools.product(*lists):
            yield tuple(t.tap for t in some), tuple(t.windows for t in some), tuple(t.places for t in some)

    def patches(self, x: Array, out: Sequence[int]) -> Array:
        """Return (N, C, out..., k...) of an array (N, C, in...), with 0 around it; negative pads cut off."""
        found = np.zeros((*x.shape[:2], *out, *self.kernel), x.dtype)
        for tap, windows, places in self.all_touches(x.shape[2:], out):
            found[(..., *windows, *tap)] = x[(..., *places)]
        return found

    def patches_of_padded(self, padded: Array) -> Array:
        """Return a view (N, C, out..., k...) of an array (N, C, head + in + tail ...); without windows if none fits."""
        if any(extent < size for extent, size in zip(padded.shape[2:], self.cover, strict=True)):
            fits = zip(padded.shape[2:], self.cover, self.stride, strict=True)
            out = [max(0, (extent - size) // stride + 1) for extent, size, stride in fits]
            return np.zeros((*padded.shape[:2], *out, *self.kernel), padded.dtype)
        axes = tuple(range(2, 2 + self.rank))
        view = sliding_window_view(padded, self.cover, axis=cast("Any", axes))
        steps = (*(slice(None, None, s) for s in self.stride), *(slice(None, None, d) for d in self.dilation))
        return view[(slice(None), slice(None), *steps)]

    def scatter(self, patches: Array, image: Array) -> None:
        """Write image (N, C, in...): the sum of all patches (N, C, out..., k...) where they came from, else 0."""
        image[...] = 0
        for tap, windows, places in self.all_touches(image.shape[2:], patches.shape[2 : 2 + self.rank]):
            image[(..., *places)] += patches[(..., *windows, *tap)]


def _to_zero(number: int, by: int) -> int:
    """Divide as C does, exactly."""
    return number // by if number >= 0 else -(-number // by)


def channels_first(order: str, array: Array) -> Array:
    """Return a view with the channels as dimension 1, of an array (N or M, ..., C) or (N or M, C, ...)."""
    return np.moveaxis(array, -1, 1) if order.upper() == "NHWC" else array


def channels_first_dims(order: str, dims: Sequence[int | None]) -> Dims:
    """Return the extents of `channels_first` of an array."""
    last = order.upper() == "NHWC" and len(dims) > 2
    return (dims[0], dims[-1], *dims[1:-1]) if last else tuple(dims)


def given_sizes(op: OpView, name: str) -> tuple[int, ...] | None:
    """Return what the arguments say about `kernel`, `stride`, `dilation` or `pad`, or None when they say nothing."""
    plural = cast("list[int]", op.arguments[f"{name}s"])
    if plural:
        return tuple(plural)
    sided = next(group for group in PAIRS if group[0].startswith(f"{name}_"))
    single = cast("int | None", op.arguments[name])
    if single is not None:
        return (single,) * len(sided)
    values = tuple(cast("int | None", op.arguments[side]) for side in sided)
    return None if None in values else cast("tuple[int, ...]", values)


def _expect(op: OpView, name: str, values: tuple[int, ...] | None, count: int, default: int) -> tuple[int, ...]:
    if values is None:
        return (default,) * count
    if len(values) != count:
        raise op.error(
            ArgumentError,
            f"{name}s has {len(values)} elements {list(values)}, it needs {count}",
            hint="one per dimension of the kernel; pads two",
        )
    return values
