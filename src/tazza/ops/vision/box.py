"""Boxes in images: how deltas move them, how borders cut them off, and how much of two is the same.

A box is (x1, y1, x2, y2) in pixels, or where it may be turned (x and y of the center, width, height, angle) with the
angle in degrees counter-clockwise. The first pixel behind a box that is not turned is at x2 + plus, where plus is 1
(the argument `legacy_plus_one`) or 0. K boxes stand as (K, 4) or (K, 5), in float32.

Source: Ren, He, Girshick, Sun 2015, arXiv 1506.01497; Ma and others 2018, arXiv 1703.01086 (turned boxes).
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import Array, OpView, arg

LARGEST_DELTA = math.log(1000 / 16)
"""Of a size, so that exp does not overflow: a box may grow by that factor."""

ROUNDED = 1e-9
"""By what part of a side points may lie outside, and sines of angles differ from 0, because they are rounded."""

PLUS_ONE = arg("legacy_plus_one", bool, True, doc="a box reaches to the end of the pixel x2, y2")
ANGLE_ARGS = (
    arg(
        "angle_bound_on",
        bool,
        True,
        doc="of boxes that may be turned: bring angles that are moved nearer to the bounds",
    ),
    arg("angle_bound_lo", int, -90, doc="degrees; the bounds lie a multiple of 180 apart"),
    arg("angle_bound_hi", int, 90, doc="degrees"),
    arg("clip_angle_thresh", float, 1.0, doc="boxes that are turned by more degrees are not cut off; below 0: none is"),
)


class Boxes(Protocol):
    """What operators ask of either kind of boxes."""

    @property
    def numbers(self) -> int:
        """How many numbers a box has."""
        ...

    @property
    def plus(self) -> np.float32:
        """How far behind its last pixel a box ends."""
        ...

    def moved(self, boxes: Array, deltas: Array) -> Array:
        """Return the boxes (K, n) that deltas (K, n) make of boxes, of which center and size are scaled."""
        ...

    def cut(self, boxes: Array, height: Array, width: Array) -> Array:
        """Return the parts of boxes that lie in images of that height and width, (K) or one number."""
        ...

    def centered(self, boxes: Array) -> tuple[Array, Array]:
        """Return centers (K, 2) and sizes (K, 2)."""
        ...

    def overlap(self, box: Array, boxes: Array) -> Array:
        """Return for each of boxes intersection over union with `box`; 0 / 0 is NaN."""
        ...


@dataclass(frozen=True, slots=True)
class Upright:
    """Boxes with sides along the axes."""

    plus: np.float32
    numbers: int = 4

    def centered(self, boxes: Array) -> tuple[Array, Array]:
        size = boxes[:, 2:] - boxes[:, :2] + self.plus
        return boxes[:, :2] + np.float32(0.5) * size, size

    def moved(self, boxes: Array, deltas: Array) -> Array:
        center, size = _scaled(*self.centered(boxes), deltas)
        half = np.float32(0.5) * size
        return np.concatenate([center - half, center + half - self.plus], axis=1)

    def cut(self, boxes: Array, height: Array, width: Array) -> Array:
        ends = np.stack(np.broadcast_arrays(width, height, width, height), axis=-1) - self.plus
        return np.maximum(np.minimum(boxes, ends), 0)

    def overlap(self, box: Array, boxes: Array) -> Array:
        sides = np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]) + self.plus
        both = np.maximum(sides, 0).prod(axis=1)
        areas = (boxes[:, 2:] - boxes[:, :2] + self.plus).prod(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return both / ((box[2:] - box[:2] + self.plus).prod() + areas - both)


@dataclass(frozen=True, slots=True)
class Turned:
    """Boxes that may be turned; `bounds` of their angles, in degrees, where there are any."""

    plus: np.float32
    bounds: tuple[int, int] | None
    level: float
    """By how many degrees a box may be turned that is cut off."""
    numbers: int = 5

    def centered(self, boxes: Array) -> tuple[Array, Array]:
        return boxes[:, :2], boxes[:, 2:4]

    def moved(self, boxes: Array, deltas: Array) -> Array:
        angle = boxes[:, 4:] + deltas[:, 4:] * np.float32(180 / math.pi)
        if self.bounds is not None:
            low, high = self.bounds
            angle = np.where(angle < low, angle + (high - low), np.where(angle > high, angle - (high - low), angle))
        return np.concatenate([*_scaled(*self.centered(boxes), deltas), angle.astype(boxes.dtype)], axis=1)

    def cut(self, boxes: Array, height: Array, width: Array) -> Array:
        """As upright boxes, those that are hardly turned; none gets larger."""
        upright, half = Upright(self.plus), (boxes[:, 2:4] - self.plus) / 2
        ends = upright.cut(np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], axis=1), height, width)
        center, size = (ends[:, :2] + ends[:, 2:]) / 2, upright.centered(ends)[1]
        whole = np.concatenate([center, np.minimum(size, boxes[:, 2:4]), boxes[:, 4:]], axis=1)
        return np.where(np.abs(boxes[:, 4:]) <= self.level, whole, boxes)

    def overlap(self, box: Array, boxes: Array) -> Array:
        one, many = _corners(box[None].astype(np.float64)), _corners(boxes.astype(np.float64))
        one = np.broadcast_to(one, many.shape)
        both = _common_area(one, many)
        areas = boxes[:, 2].astype(np.float64) * boxes[:, 3]
        with np.errstate(invalid="ignore", divide="ignore"):
            return both / (float(box[2]) * float(box[3]) + areas - both)


def boxes_of(op: OpView, turned: bool) -> Boxes:
    """Return the kind of boxes that an operator works on.

    Raises:
        ArgumentError: the bounds of angles are not a multiple of 180 degrees apart.
    """
    plus = np.float32(1 if op.legacy_plus_one else 0)
    if not turned:
        return Upright(plus)
    level = op.arguments.get("clip_angle_thresh", 0.0)
    if not op.arguments.get("angle_bound_on", False):
        return Turned(plus, None, level)
    low, high = op.angle_bound_lo, op.angle_bound_hi
    if high <= low or (high - low) % 180:
        message = f"angle_bound_lo = {low} and angle_bound_hi = {high} are {high - low} degrees apart"
        raise op.error(ArgumentError, message, "a box looks the same after 180: give a multiple of it, above 0")
    return Turned(plus, (low, high), level)


def suppress(kind: Boxes, boxes: Array, threshold: float, most: int) -> Array:
    """Return the numbers of boxes that stay, of which the best comes first: at most so many.

    A box goes where it has more than `threshold` (intersection over union) in common with one that stays before it.
    """
    stay: list[int] = []
    left = np.arange(len(boxes))
    while left.size and len(stay) < most:
        i, left = int(left[0]), left[1:]
        stay.append(i)
        left = left[kind.overlap(boxes[i], boxes[left]) <= np.float32(threshold)]
    return np.array(stay, np.int64)


def _scaled(center: Array, size: Array, deltas: Array) -> tuple[Array, Array]:
    """Return center and size after deltas: of the center in sizes, of the size as a logarithm."""
    grown = np.exp(np.minimum(deltas[:, 2:4], np.float32(LARGEST_DELTA)))
    return center + deltas[:, :2] * size, grown * size


def _corners(boxes: Array) -> Array:
    """Return the corners of turned boxes, (K, 4, 2), one beside the other."""
    angle = np.deg2rad(boxes[:, 4])
    cos, sin = np.cos(angle), np.sin(angle)
    along = np.stack([cos, -sin], axis=1) * boxes[:, 2:3] / 2
    across = np.stack([sin, cos], axis=1) * boxes[:, 3:4] / 2
    return boxes[:, None, :2] + np.stack([-along - across, along - across, along + across, across - along], axis=1)


def _common_area(a: Array, b: Array) -> Array:
    """Return what rectangles (K, 4, 2) have in common with others.

    The corners of that are corners of either within the other, and places where sides cross. It is convex: in the
    order of the angle around their middle they go around it.
    """
    crossings, crossed = _crossings(a, b)
    points = np.concatenate([a, b, crossings], axis=1)  # (K, 24, 2)
    there = np.concatenate([_within(a, b), _within(b, a), crossed], axis=1)
    count = np.maximum(1, there.sum(axis=1))[:, None]
    middle = np.where(there[:, :, None], points, 0).sum(axis=1) / count
    around = np.where(there[:, :, None], points - middle[:, None], 0)
    order = np.argsort(np.where(there, np.arctan2(around[:, :, 1], around[:, :, 0]), np.inf), axis=1)
    rim = np.take_along_axis(around, order[:, :, None], axis=1)
    first = rim[:, :1]
    rim = np.where(np.arange(24)[:, None] < count[:, :, None], rim, first)  # the others lie on the first
    after = np.roll(rim, -1, axis=1)
    return np.abs(_cross(rim, after).sum(axis=1)) / 2


def _cross(a: Array, b: Array) -> Array:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _within(points: Array, boxes: Array) -> Array:
    """Return which points (K, 4, 2) lie in rectangles (K, 4, 2), on their sides too."""
    from_corner = points - boxes[:, :1]
    inside = np.ones(points.shape[:2], bool)
    for side in (boxes[:, 1] - boxes[:, 0], boxes[:, 3] - boxes[:, 0]):
        along, whole = (from_corner * side[:, None]).sum(axis=2), (side**2).sum(axis=1)[:, None]
        inside &= (along >= -ROUNDED * whole) & (along <= (1 + ROUNDED) * whole)
    return inside


def _crossings(a: Array, b: Array) -> tuple[Array, Array]:
    """Return where lines along the sides of rectangles cross, (K, 16, 2), and whether that is on both sides."""
    starts, sides = a[:, :, None], (np.roll(a, -1, axis=1) - a)[:, :, None]
    others, along = b[:, None], (np.roll(b, -1, axis=1) - b)[:, None]
    apart = _cross(sides, along)
    parallel = np.abs(apart) <= ROUNDED * np.hypot(*np.moveaxis(sides, -1, 0)) * np.hypot(*np.moveaxis(along, -1, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        s, t = (_cross(others - starts, way) / apart for way in (along, sides))
    on_both = ~parallel & (s >= 0) & (s <= 1) & (t >= 0) & (t <= 1)
    places = np.where(on_both[..., None], starts + np.where(on_both, s, 0)[..., None] * sides, 0)
    return places.reshape(len(a), 16, 2), on_both.reshape(len(a), 16)
