"""How large things are in a picture, in pixels: once for the page and for the picture in SVG."""

from __future__ import annotations

from dataclasses import asdict

from tazza.data_class import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of items, gaps and tracks.

    Attributes:
        width: of an operator.
        height: of an operator.
        pill: height of an input or output of the net.
        heading: height of the heading of what is unfolded.
        pad: between a frame and what lies in it.
        row_gap: between two rows, where edges bend.
        lane_gap: between two lanes.
        gutter: between a lane and its first track.
        track: between two tracks; less where they would take more than `tracks_width` together.
        fold_from: operators above which blocks are folded at first.
    """

    width: int = 250
    height: int = 48
    pill: int = 28
    heading: int = 28
    pad: int = 16
    row_gap: int = 28
    lane_gap: int = 26
    gutter: int = 16
    track: int = 9
    tracks_width: int = 160
    fold_from: int = 40

    def json(self) -> dict[str, int]:
        """Return them by name."""
        return asdict(self)


SIZES = Sizes()
TIMES = "\N{MULTIPLICATION SIGN}"
"""Between extents, and before the number of blocks."""
