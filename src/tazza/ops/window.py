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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tazza.errors import ArgumentError
from tazza.operator import ArgSpec, Array, Dims, OpView, arg, find_argument
from tazza.proto import OperatorDef


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


def window_args() -> list[ArgSpec]:
    """Return the declarations of all arguments that describe windows."""
    singular = [
        arg("kernel", int, None, minimum=1, doc="kernel size in both of two dimensions"),
        arg("stride", int, None, minimum=1, doc="step between windows in both of two dimensions"),
        arg("dilation", int, None, minimum=1, doc="step between kernel elements in both of two dimensions"),
        arg("pad", int, None, doc="padding on all four sides of two dimensions"),
    ]
    plural = [
        arg("kernels", list[int], [], minimum=1, doc="kernel size per dimension"),
        arg("strides", list[int], [], minimum=1, doc="stride per dimension"),
        arg("dilations", list[int], [], minimum=1, doc="dilation per dimension"),
        arg("pads", list[int], [], doc="all heads, then all tails; negative ones cut off"),
    ]
    sided = [
        arg(name, int, None, minimum=None if "pad" in name else 1, doc=f"counts together with {', '.join(group)}")
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
    order = arg("order", str, "NCHW", choices=("NCHW", "NHWC", "nchw", "nhwc"), doc="where the channels stand")
    return [*singular, *plural, *sided, legacy, order]


def half_pairs(definition: OperatorDef) -> list[str]:
    """Return arguments of which a partner is missing (`stride_h` alone); Caffe2 ignores them without a word."""
    lonely: list[str] = []
    for group in PAIRS:
        present = [name for name in group if find_argument(definition, name) is not None]
        if len(present) < len(group):
            lonely.extend(present)
    return lonely


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
        return int(np.prod(self.kernel, dtype=np.int64))

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
            min(step, max(extent + head + tail, 1)) if out == 1 and extent is not None else step
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
            head = int(needed / 2)
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
        rounded_down = int((extent + 2 * head - k) / s) + 1  # to zero, as C divides
        op.require(
            rounded_up >= max(rounded_down, 1),
            f"a kernel of {k} with stride {s} and pad {head} gives {rounded_up} windows over {extent} elements"
            f" of dimension {axis}",
        )
        return head + s * (rounded_up - rounded_down), rounded_up

    def overlap(self, image: Sequence[int]) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
        """Return which part of an image (in...) lies in the padded one, and where; all unless a pad is negative."""
        sides = list(zip(self.head, image, self.tail, strict=True))
        inside = tuple(slice(max(-head, 0), extent - max(-tail, 0)) for head, extent, tail in sides)
        where = tuple(
            slice(max(h, 0), max(h, 0) + part.stop - part.start) for h, part in zip(self.head, inside, strict=True)
        )
        return inside, where

    def padded(self, x: Array, value: float = 0.0) -> Array:
        """Return x (N, C, in...) with `value` around it, (N, C, head + in + tail ...); negative pads cut off."""
        inner = x[(..., *self.overlap(x.shape[2:])[0])]
        widths = [(0, 0), (0, 0), *((max(h, 0), max(t, 0)) for h, t in zip(self.head, self.tail, strict=True))]
        if not any(before or after for before, after in widths):
            return inner
        return np.pad(inner, widths, constant_values=value)

    def patches(self, padded: Array) -> Array:
        """Return a view (N, C, out..., k...) of an array (N, C, head + in + tail ...)."""
        axes = tuple(range(2, 2 + self.rank))
        view = sliding_window_view(padded, self.cover, axis=cast("Any", axes))
        steps = (*(slice(None, None, s) for s in self.stride), *(slice(None, None, d) for d in self.dilation))
        return view[(slice(None), slice(None), *steps)]

    def taps(self, padded: Array, out: Sequence[int]) -> Iterator[tuple[tuple[int, ...], Array]]:
        """Yield each kernel element and the view (N, C, out...) of what it touches in all windows of `padded`."""
        for tap in np.ndindex(*self.kernel):
            starts = [i * d for i, d in zip(tap, self.dilation, strict=True)]
            steps = tuple(slice(a, a + s * (n - 1) + 1, s) for a, s, n in zip(starts, self.stride, out, strict=True))
            yield tap, padded[(slice(None), slice(None), *steps)]

    def scatter(self, patches: Array, image: Array) -> None:
        """Write image (N, C, in...): the sum of all patches (N, C, out..., k...) where they came from, else 0."""
        sizes = list(zip(self.head, image.shape[2:], self.tail, strict=True))
        padded = np.zeros((*image.shape[:2], *(h + n + t for h, n, t in sizes)), image.dtype)
        for tap, view in self.taps(padded, patches.shape[2 : 2 + self.rank]):
            view += patches[(..., *tap)]
        self.unpad(padded, image)

    def unpad(self, padded: Array, image: Array) -> None:
        """Write image (N, C, in...) from one with padding (N, C, head + in + tail ...); 0 where negative pads cut."""
        inside, where = self.overlap(image.shape[2:])
        image[...] = 0
        image[(..., *inside)] = padded[(..., *where)]


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
