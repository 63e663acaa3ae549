"""Pictures of filters and images by matplotlib, loaded when something is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tazza.observers.drawing import check_drawing


def ChannelFirst(arr: Any) -> Any:
    """Return an array whose channels lay innermost with the channels before the last two axes."""
    axes = list(range(arr.ndim))
    return arr.transpose([*axes[:-3], axes[-1], axes[-3], axes[-2]])


def ChannelLast(arr: Any) -> Any:
    """Return an array whose channels lay before the last two axes with the channels innermost."""
    axes = list(range(arr.ndim))
    return arr.transpose([*axes[:-3], axes[-2], axes[-1], axes[-3]])


def _pyplot() -> Any:
    """Return what draws.

    Raises:
        UnavailableError: matplotlib cannot be imported.
    """
    check_drawing()
    from matplotlib import pyplot

    return pyplot


class PatchVisualizer:
    """Shows patches: arrays of (height, width) or (height, width, channels)."""

    def __init__(self, gap: int = 1) -> None:
        """Leave pixels between patches."""
        self.gap = gap

    def ShowSingle(self, patch: Any, cmap: Any = None) -> Any:
        """Show a patch; returns it as it was drawn."""
        if len(patch.shape) == 1:
            patch = patch.reshape(self.get_patch_shape(patch))
        if len(patch.shape) == 3 and patch.shape[2] not in (1, 3):
            raise ValueError(f"A patch has 1 or 3 channels, not {patch.shape[2]}")
        if len(patch.shape) > 2 and patch.shape[2] == 1:
            patch = patch[:, :, 0]
        _pyplot().imshow(patch, cmap=_gray(patch, cmap))
        return patch

    def ShowMultiple(
        self, patches: Any, ncols: int | None = None, cmap: Any = None, bg_func: Callable[[Any], Any] = np.mean
    ) -> Any:
        """Show patches as a table; returns the picture."""
        count = patches.shape[0]
        if patches.ndim == 2:
            patches = patches.reshape((count, *self.get_patch_shape(patches)))
        columns = int(np.ceil(np.sqrt(count))) if ncols is None else ncols
        rows = int(np.ceil(count / columns))
        height, width = patches.shape[1] + self.gap, patches.shape[2] + self.gap
        shape = (height * rows - self.gap, width * columns - self.gap, *patches.shape[3:])
        image = np.full(shape, bg_func(patches), dtype=patches.dtype)
        for place in range(count):
            top, left = height * (place // columns), width * (place % columns)
            image[top : top + height - self.gap, left : left + width - self.gap] = patches[place]
        return self.ShowSingle(image, cmap=cmap)

    def ShowImages(self, patches: Any, *args: Any, **kwargs: Any) -> Any:
        """Show patches of whole numbers from 0 to 255, or such numbers as floats."""
        if np.issubdtype(patches.dtype, np.floating):
            patches = patches.astype(np.uint8)
        return self.ShowMultiple(patches, *args, **kwargs)

    def ShowChannels(self, patch: Any, cmap: Any = None, bg_func: Callable[[Any], Any] = np.mean) -> Any:
        """Show the channels of a patch side by side."""
        if len(patch.shape) == 2:
            return self.ShowSingle(patch, cmap=cmap)
        return self.ShowMultiple(np.moveaxis(patch, -1, 0), cmap=cmap, bg_func=bg_func)

    def get_patch_shape(self, patch: Any) -> tuple[int, ...]:
        """Return the extents of a patch that is one row: a square, with 3 channels or without."""
        size = patch.shape[-1]
        side = int(np.sqrt(size))
        if side * side == size:
            return side, side
        side = int(np.sqrt(size / 3))
        if side * side * 3 == size:
            return side, side, 3
        raise ValueError(f"{size} numbers are no square patch")


def _gray(patch: Any, cmap: Any) -> Any:
    return "gray" if cmap is None and len(patch.shape) == 2 else cmap


_default_visualizer = PatchVisualizer()


def ShowSingle(*args: Any, **kwargs: Any) -> Any:
    """Show a patch."""
    return _default_visualizer.ShowSingle(*args, **kwargs)


def ShowMultiple(*args: Any, **kwargs: Any) -> Any:
    """Show patches as a table."""
    return _default_visualizer.ShowMultiple(*args, **kwargs)


def ShowImages(*args: Any, **kwargs: Any) -> Any:
    """Show patches of bytes."""
    return _default_visualizer.ShowImages(*args, **kwargs)


def ShowChannels(*args: Any, **kwargs: Any) -> Any:
    """Show the channels of a patch."""
    return _default_visualizer.ShowChannels(*args, **kwargs)


class NHWC:
    """Patches whose channels lie innermost."""

    @staticmethod
    def ShowSingle(*args: Any, **kwargs: Any) -> Any:
        """Show a patch."""
        return _default_visualizer.ShowSingle(*args, **kwargs)

    @staticmethod
    def ShowMultiple(*args: Any, **kwargs: Any) -> Any:
        """Show patches as a table."""
        return _default_visualizer.ShowMultiple(*args, **kwargs)

    @staticmethod
    def ShowImages(*args: Any, **kwargs: Any) -> Any:
        """Show patches of bytes."""
        return _default_visualizer.ShowImages(*args, **kwargs)

    @staticmethod
    def ShowChannels(*args: Any, **kwargs: Any) -> Any:
        """Show the channels of a patch."""
        return _default_visualizer.ShowChannels(*args, **kwargs)


class NCHW:
    """Patches whose channels lie before height and width."""

    @staticmethod
    def ShowSingle(patch: Any, *args: Any, **kwargs: Any) -> Any:
        """Show a patch."""
        return _default_visualizer.ShowSingle(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowMultiple(patch: Any, *args: Any, **kwargs: Any) -> Any:
        """Show patches as a table."""
        return _default_visualizer.ShowMultiple(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowImages(patch: Any, *args: Any, **kwargs: Any) -> Any:
        """Show patches of bytes."""
        return _default_visualizer.ShowImages(ChannelLast(patch), *args, **kwargs)

    @staticmethod
    def ShowChannels(patch: Any, *args: Any, **kwargs: Any) -> Any:
        """Show the channels of a patch."""
        return _default_visualizer.ShowChannels(ChannelLast(patch), *args, **kwargs)
