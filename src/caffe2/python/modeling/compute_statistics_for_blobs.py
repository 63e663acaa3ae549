"""Smallest, largest, mean and deviation of blobs, printed while a net runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.python import core
from caffe2.python.modeling.net_modifier import NetModifier, printed, recorded, references


class ComputeStatisticsForBlobs(NetModifier):
    """Adds four numbers for each of some blobs."""

    def __init__(self, blobs: Sequence[str], logging_frequency: int) -> None:
        """Take names of blobs, and in how many runs they are printed once."""
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._field_name_suffix = "_summary"

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add the statistics."""
        for blob in references(net, self._blobs):
            wide = net.Cast(blob, to=core.DataType.FLOAT)
            name = net.NextScopedBlob(prefix=f"{blob}{self._field_name_suffix}")
            summary = net.Summarize(wide, name, to_file=0)
            printed(net, summary, self._logging_frequency)
            if modify_output_record:
                recorded(net, str(blob) + self._field_name_suffix, summary, ("float", (1,)))

    def field_name_suffix(self) -> str:
        """Return what stands behind the name of a blob in that of its statistics."""
        return self._field_name_suffix
