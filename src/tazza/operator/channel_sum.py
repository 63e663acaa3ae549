"""Sums over all but the channels, the gradient of a bias: a part of an operator that engines offer to each other.

A library that convolves may sum more slowly than another engine of the same device. So who prepares such an operator
asks for an offer; engines that have one have a file `channel_sum.py`. Letters: N images, C channels, S places of each.
"""

from __future__ import annotations

from typing import NamedTuple

from tazza.operator.kernel import Launch
from tazza.tensor import DataType, Place
from tazza.tensor.tasks import Tasks


class ChannelSum(NamedTuple):
    """A sum of an operator's blob `read`, to be written to `written`, of the same element type.

    `last` says whether channels lie last: (N, S, C), and not (N, C, S).
    """

    read: str
    written: str
    images: int
    channels: int
    spots: int
    last: bool
    dtype: DataType
    place: Place

    @property
    def rank(self) -> int:
        """The number of axes."""
        return 3

    @property
    def nbytes(self) -> int:
        """How many bytes are read."""
        return self.images * self.channels * self.spots * self.dtype.itemsize

    def __str__(self) -> str:
        lies = "(N, S, C)" if self.last else "(N, C, S)"
        return f"the sum of channels of {lies}, C = {self.channels}, in {self.dtype.label}"


CHANNEL_SUMS: Tasks[ChannelSum, Launch] = Tasks("sum of channels", "channel_sum")
