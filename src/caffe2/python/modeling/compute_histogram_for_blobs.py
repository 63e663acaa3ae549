"""Histograms of blobs, printed while a net runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.python import core
from caffe2.python.modeling.net_modifier import NetModifier, printed, recorded, references


class ComputeHistogramForBlobs(NetModifier):
    """Adds what share of a blob lies in which of some intervals; of one run, or of all so far."""

    def __init__(
        self,
        blobs: Sequence[str],
        logging_frequency: int,
        num_buckets: int = 30,
        lower_bound: float = 0.0,
        upper_bound: float = 1.0,
        accumulate: bool = False,
    ) -> None:
        """Take names of blobs, in how many runs they are printed once, and the intervals."""
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._accumulate = accumulate
        self._field_name_suffix = "_acc_normalized_hist" if accumulate else "_curr_normalized_hist"
        self._num_buckets = int(num_buckets)
        assert self._num_buckets > 0, f"num_buckets need to be greater than 0, got {num_buckets}"
        self._lower_bound = float(lower_bound)
        self._upper_bound = float(upper_bound)

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add the histograms."""
        single = core.DataType.FLOAT
        for blob in references(net, self._blobs):
            wide = net.Cast(blob, net.NextScopedBlob(prefix=f"{blob}_float"), to=single)
            outputs = [net.NextScopedBlob(prefix=f"{blob}{end}") for end in ("_curr_hist", "_acc_hist")]
            present, so_far = net.AccumulateHistogram(
                [wide],
                outputs,
                num_buckets=self._num_buckets,
                lower_bound=self._lower_bound,
                upper_bound=self._upper_bound,
            )
            chosen = so_far if self._accumulate else present
            counts = net.Cast(chosen, net.NextScopedBlob(prefix=f"{blob}_cast_hist"), to=single)
            shares = net.NormalizeL1(counts, net.NextScopedBlob(prefix=f"{blob}{self._field_name_suffix}"))
            printed(net, shares, self._logging_frequency)
            if modify_output_record:
                recorded(net, str(blob) + self._field_name_suffix, shares, ("float", (self._num_buckets + 2,)))

    def field_name_suffix(self) -> str:
        """Return what stands behind the name of a blob in that of its histogram."""
        return self._field_name_suffix
