"""What tests of the kernels for few channels share: problems, their words, and P as NumPy packs it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count
from tazza.engines.native.few_channels.packing import Packing

Array = NDArray[Any]


@dataclass(frozen=True)
class Windows:
    """Windows of kH x kW pixels, `down` rows and `across` pixels apart, over images with pads above and to the left."""

    C: int
    kernel: tuple[int, int]
    step: tuple[int, int]
    pads: tuple[int, int]
    planes: bool = False
    N: int = 2
    image: tuple[int, int] = (9, 12)
    out: tuple[int, int] = (5, 7)
    band: int = 2

    @property
    def packing(self) -> Packing:
        """What the code depends on."""
        return Packing(self.C, self.kernel[1], self.step[1], self.planes)

    @property
    def packed_rows(self) -> int:
        """Rows of P that a whole band takes."""
        return (self.band - 1) * self.step[0] + self.kernel[0]

    def pitch(self, tile: int) -> int:
        """Return the floats of a row of P, where pixels are computed `tile` at a time."""
        read = (-(-self.out[1] // tile) * tile - 1) * self.step[1] + self.kernel[1]
        floats = max(read, self.pads[1] + self.image[1]) * self.C
        return -(-floats // lane_count()) * lane_count()

    def images(self) -> Array:
        """Return X (N, H, W, C)."""
        return np.random.default_rng(self.C).standard_normal((self.N, *self.image, self.C)).astype(np.float32)

    def laid(self, X: Array) -> Array:
        """Return X as the kernel reads it: in planes, or with its channels last."""
        return np.ascontiguousarray(X.transpose(0, 3, 1, 2)) if self.planes else X

    def patches(self, X: Array) -> Array:
        """Return what windows see, (N, oH, oW, kH, kW, C), 0 outside of the image."""
        (oH, oW), (kH, kW), (down, across) = self.out, self.kernel, self.step
        (top, left), (H, W) = self.pads, self.image
        below, right = (max(0, (o - 1) * s + k) for o, s, k in zip(self.out, self.step, self.kernel, strict=True))
        padded = np.pad(X, ((0, 0), (top, below), (left, right), (0, 0)))
        assert padded.shape[1] >= top + H
        assert padded.shape[2] >= left + W
        rows = [padded[:, i * down : i * down + kH] for i in range(oH)]
        found = [[row[:, :, j * across : j * across + kW] for j in range(oW)] for row in rows]
        return np.array(found).transpose(2, 0, 1, 3, 4, 5)

    def words(self, tile: int, threads: int, scratch_floats: int) -> dict[str, int]:
        """Return the words of packing; X and scratch are not among them."""
        (H, W), pixel = self.image, 1 if self.planes else self.C
        return {
            **{"threads": threads, "N": self.N, "H": H, "W": W, "oH": self.out[0], "kH": self.kernel[0]},
            **{"top": self.pads[0], "left": self.pads[1], "down": self.step[0]},
            **{"x_image": H * W * self.C, "x_row": W * pixel, "x_plane": H * W if self.planes else 1},
            **{"band": self.band, "pitch": self.pitch(tile), "scratch_floats": scratch_floats},
        }


CASES = {
    "three channels, last": Windows(3, (3, 2), (1, 1), (1, 0)),
    "three channels in planes": Windows(3, (3, 2), (2, 1), (0, 2), planes=True),
    "one channel": Windows(1, (2, 5), (2, 2), (3, 4)),
    "five in planes, the last band short": Windows(5, (4, 3), (2, 2), (2, 1), planes=True, band=3),
    "eight, the image smaller than a window": Windows(8, (6, 5), (1, 2), (4, 3), image=(2, 3), out=(3, 2), band=4),
    "rows that no window reads": Windows(2, (1, 2), (2, 3), (0, 0), out=(4, 3)),
}
