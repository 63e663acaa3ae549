"""Clips of videos: frames that are decoded by PyAV, scaled as they come, so that no more than a clip is in memory.

Of the formats that FFmpeg reads those are left out that lead to other files (playlists): a video is read from the bytes
at hand alone.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.db.picture import PIXELS_MAX
from tazza.errors import FormatError, ShapeError, TazzaError, UnavailableError
from tazza.runtime.files import one_line

FORMATS = ("avi", "mov", "mp4", "matroska", "webm", "mpeg", "mpegts", "flv", "ogg", "asf")
"""Containers that are read, as FFmpeg calls them."""

Frame = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Span:
    """Frames of a clip: `length` of them, `step` apart, from number `start` on."""

    start: int
    length: int
    step: int

    @property
    def places(self) -> range:
        """Their numbers."""
        return range(self.start, self.start + self.length * self.step, self.step)

    @staticmethod
    def needed(length: int, step: int) -> int:
        """Return how many frames lie between the first and the last, these included."""
        return (length - 1) * step + 1


def count_frames(file: BinaryIO, what: str) -> int:
    """Return how many frames a video has: its packets, of which none is decoded; the file is at its start afterwards.

    Raises:
        FormatError: it is no video, or has no frames.
        UnavailableError: PyAV is not there.
    """
    with _opened(file, what) as container:
        count = sum(packet.size > 0 for packet in container.demux(video=0))
    file.seek(0)
    if count == 0:
        raise FormatError(f"{what} has no frames")
    return count


def read_clips(
    file: BinaryIO, spans: Sequence[Span], size_of: Callable[[int, int], tuple[int, int]], what: str
) -> list[NDArray[np.uint8]]:
    """Return the clips of a video, each (length, H, W, 3), red, green, blue; behind its end the last frame is repeated.

    `size_of(height, width)` is the size to which frames are scaled.

    Raises:
        FormatError: it is no video, or one that cannot be decoded.
        ShapeError: its frames are too large.
        UnavailableError: PyAV is not there.
    """
    wanted = {place for span in spans for place in span.places}
    kept: dict[int, Frame] = {}
    latest: Any = None
    with _opened(file, what) as container:
        for place, latest in enumerate(container.decode(video=0)):
            if place in wanted:
                kept[place] = _scaled(latest, size_of, what)
                if len(kept) == len(wanted):
                    break
        if latest is None:
            raise FormatError(f"{what} has no frames")
        if len(kept) < len(wanted):
            end = _scaled(latest, size_of, what)
            kept.update(dict.fromkeys(wanted - set(kept), end))
    return [np.stack([kept[place] for place in span.places]) for span in spans]


def _scaled(frame: Any, size_of: Callable[[int, int], tuple[int, int]], what: str) -> Frame:
    H, W = size_of(frame.height, frame.width)
    if max(H * W, frame.height * frame.width) > PIXELS_MAX:
        raise ShapeError(
            f"{what} has frames of {frame.height} x {frame.width}, to be {H} x {W}: over {PIXELS_MAX} pixels"
        )
    return frame.to_ndarray(format="rgb24", width=W, height=H, interpolation="BILINEAR")


@contextmanager
def _opened(file: BinaryIO, what: str) -> Generator[Any]:
    """Open a video for the block, and say of what cannot be read there that it is none."""
    try:
        av: Any = importlib.import_module("av")
    except ImportError as error:
        raise UnavailableError(
            f"videos need PyAV, which is not available: {error}", hint="pip install 'tazza[video]'"
        ) from error
    try:
        options = {"format_whitelist": ",".join(FORMATS)}
        with av.open(file, options=options) as container:
            if not container.streams.video:
                raise FormatError(f"{what} has no pictures that move")
            yield container
    except TazzaError:
        raise
    except (av.error.FFmpegError, ValueError, EOFError) as error:  # what decoders raise of damaged files
        raise FormatError(f"{what} is no video that can be read: {one_line(error)}") from error
