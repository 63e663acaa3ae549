"""One element of blobs, printed while a net runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.python.modeling.net_modifier import NetModifier, printed, recorded, references


class GetEntryFromBlobs(NetModifier):
    """Adds the element at (i1, i2) of each of some matrices."""

    def __init__(self, blobs: Sequence[str], logging_frequency: int, i1: int = 0, i2: int = 0) -> None:
        """Take names of blobs, in how many runs they are printed once, and the element."""
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._i1 = i1
        self._i2 = i2
        self._field_name_suffix = f"_{i1}_{i2}"

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add the elements."""
        i1, i2 = self._i1, self._i2
        for blob in references(net, self._blobs):
            row = net.Slice([blob], starts=[i1, 0], ends=[i1 + 1, -1])
            name = net.NextScopedBlob(prefix=f"{blob}{self._field_name_suffix}")
            entry = net.Slice([row], name, starts=[0, i2], ends=[-1, i2 + 1])
            printed(net, entry, self._logging_frequency)
            if modify_output_record:
                recorded(net, str(blob) + self._field_name_suffix, entry, "float")

    def field_name_suffix(self) -> str:
        """Return what stands behind the name of a blob in that of its element."""
        return self._field_name_suffix
