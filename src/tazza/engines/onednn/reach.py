"""Windows that oneDNN does not take, or takes long for: over many dimensions, or far beyond the image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from tazza.operator import Unsupported
from tazza.ops.nn.window import Window

MOST_SPATIAL = 3
"""Dimensions that oneDNN's windows may have."""
MOST_STEP = 1 << 14
"""Strides, dilations and pads beyond the kernel up to here are oneDNN's."""
MOST_TAPS = 1 << 12
"""Elements that a pooling kernel may have if the image has fewer."""


def check_dimensions(window: Window) -> None:
    """Refuse windows over no dimension, or more than oneDNN has."""
    if not 0 < window.rank <= MOST_SPATIAL:
        raise Unsupported(f"X has {window.rank} spatial dimensions, oneDNN takes 1 to {MOST_SPATIAL}")


def check_steps(window: Window, tail: tuple[int, ...]) -> None:
    """Refuse steps and pads over which oneDNN's loops run, although the image has nothing there."""
    whole = replace(window, tail=tail)
    if whole.far > MOST_STEP:
        pads = f"pads {list(whole.head)} and {list(whole.tail)}"
        steps = f"strides {list(whole.stride)}, dilations {list(whole.dilation)}"
        raise Unsupported(f"{steps}, {pads}: oneDNN counts them out")


def check_taps(window: Window, image: Sequence[int | None]) -> None:
    """Refuse kernels that have more elements than the image has places."""
    places = math.prod(1 if extent is None else extent for extent in image)
    if window.size > max(MOST_TAPS, places):
        raise Unsupported(f"a kernel {window.kernel} over {places} places: oneDNN counts all its elements")
