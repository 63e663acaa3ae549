"""Factors of an exact product, as kernels read them: plain integers, or rows of packed planes.

Letters: C = A B^T, A is (M, K), B is (N, K). A `Factor` is one of them, R rows of K integers. Packed rows are
(G, W, P, V) words of 64 bits: V rows side by side, G = ceil(R / V) groups; W = ceil(K / 64) words of each row; P planes
in two's complement, the last one the sign if there is one. What pads rows and words is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.array.quantized.planes import BITS_PER_BYTE, Octets, planes_of_bytes, twos_complement
from tazza.array.quantized.qtensor import QTensor
from tazza.data_class import dataclass
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

WORD_BYTES = 8
WORD_BITS = WORD_BYTES * BITS_PER_BYTE


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows as planes of bits, ready for a kernel; see the module. `words` is int64, aligned to 64 bytes."""

    words: Tensor
    rows: int
    depth: int
    planes: int
    signed: bool

    @property
    def word_count(self) -> int:
        """W."""
        return self.words.shape[1]


@dataclass(frozen=True, slots=True)
class Factor:
    """One side of a product: a QTensor's integers, or an array of int8 or uint8.

    `transposed` means that the source is (K, R), not (R, K).
    """

    source: QTensor | npt.NDArray[Any]
    transposed: bool = False

    @property
    def rows(self) -> int:
        """R."""
        return self.source.shape[1 if self.transposed else 0]

    @property
    def depth(self) -> int:
        """K."""
        return self.source.shape[0 if self.transposed else 1]

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest integer that can occur."""
        if isinstance(self.source, QTensor):
            return self.source.limits
        info = np.iinfo(self.source.dtype)
        return int(info.min), int(info.max)

    @property
    def largest(self) -> int:
        """The largest absolute value that can occur."""
        low, high = self.limits
        return max(-low, high)

    @property
    def signed(self) -> bool:
        """Whether negative integers can occur."""
        return self.limits[0] < 0

    @property
    def planes(self) -> int:
        """P: bits of an element in two's complement."""
        return self.source.plane_count if isinstance(self.source, QTensor) else BITS_PER_BYTE

    @property
    def is_packed(self) -> bool:
        """Whether the source is planes of bits."""
        return isinstance(self.source, QTensor)

    def integers(self) -> npt.NDArray[Any]:
        """Return the integers as (R, K), maybe a transposed view."""
        source = self.source.integer_array() if isinstance(self.source, QTensor) else self.source
        return source.T if self.transposed else source

    def packed(self, lanes: int) -> PackedRows:
        """Return the packed rows for vectors of so many words; those of a QTensor are made once."""
        if isinstance(self.source, QTensor):
            key = ("packed rows", lanes, self.transposed, tuple(self.source.shape))
            return self.source.derived(key, lambda: self._pack(lanes))
        return self._pack(lanes)

    def _pack(self, lanes: int) -> PackedRows:
        words = -(-self.depth // WORD_BITS)
        groups = -(-self.rows // lanes)
        rows = np.zeros((self.planes, groups * lanes, words * WORD_BYTES), np.uint8)
        source = self.source
        if isinstance(source, QTensor) and not self.transposed and self.depth % BITS_PER_BYTE == 0:
            # Rows end with whole bytes: planes are cut into rows without unpacking a bit.
            whole = twos_complement(source.planes) if source.signed else source.planes
            rows[:, : self.rows, : self.depth // BITS_PER_BYTE] = whole.reshape(self.planes, self.rows, -1)
        else:
            rows[:, : self.rows] = self._split(words).reshape(self.planes, self.rows, -1)
        result = Tensor((groups, words, self.planes, lanes), DataType.INT64)
        split = rows.view(np.int64).reshape(self.planes, groups, lanes, words)  # (P, G, V, W)
        np.copyto(result.array, split.transpose(1, 3, 0, 2))
        return PackedRows(result, self.rows, self.depth, self.planes, self.signed)

    def _split(self, words: int) -> Octets:
        """Return the planes of all rows, each row padded to whole words."""
        x = self.integers()
        low = np.zeros((self.rows, words * WORD_BITS), np.uint8)
        low[:, : self.depth] = x.astype(np.uint8)  # the lowest bits of two's complement, whatever the width
        planes = planes_of_bytes(low.reshape(-1), min(self.planes, BITS_PER_BYTE))
        if self.planes == len(planes):
            return planes
        low[:, : self.depth] = x < 0  # the ninth bit of 8 bits and a sign
        return np.concatenate((planes, planes_of_bytes(low.reshape(-1), 1)))
