"""Norms of blobs, printed while a net runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.proto import caffe2_pb2
from caffe2.python import core
from caffe2.python._optimizer_build import get_param_device
from caffe2.python.modeling.net_modifier import NetModifier, printed, recorded, references


class ComputeNormForBlobs(NetModifier):
    """Adds the p-norm of blobs, without the root; of one row of each if that is wanted."""

    def __init__(
        self,
        blobs: Sequence[str],
        logging_frequency: int,
        p: int = 2,
        compute_averaged_norm: bool = False,
        row_index: int | None = None,
    ) -> None:
        """Take names of blobs, and in how many runs they are printed once."""
        self._blobs = blobs
        self._logging_frequency = logging_frequency
        self._p = p
        self._compute_averaged_norm = compute_averaged_norm
        self._field_name_suffix = "_averaged" * compute_averaged_norm + f"_l{p}_norm"
        if row_index and row_index < 0:
            raise Exception(f"{row_index} is not a valid row index, row_index should be >= 0")
        self._row_index = row_index

    def modify_net(
        self,
        net: Any,
        init_net: Any = None,
        grad_map: Any = None,
        blob_to_device: Any = None,
        modify_output_record: bool = False,
    ) -> None:
        """Add the norms."""
        cpu = core.DeviceOption(caffe2_pb2.CPU)
        for blob in references(net, self._blobs):
            gradient = grad_map.get(str(blob)) if grad_map else None
            with core.DeviceScope(get_param_device(str(blob), gradient, blob_to_device, cpu)):
                norm = self._norm(net, blob)
                if modify_output_record:
                    recorded(net, str(norm), norm, "float")

    def _norm(self, net: Any, blob: Any) -> Any:
        row = self._row_index
        if row:
            name = net.NextScopedBlob(prefix=f"{blob}_row_{row}")
            blob = net.Slice([blob], name, starts=[row, 0], ends=[row + 1, -1])
        wide = net.Cast(blob, net.NextScopedBlob(prefix=f"{blob}_float"), to=core.DataType.FLOAT)
        name = net.NextScopedBlob(prefix=f"{blob}{self._field_name_suffix}")
        norm = net.LpNorm(wide, name, p=self._p, average=self._compute_averaged_norm)
        net.StopGradient(norm, net.NextScopedBlob(f"{norm}_stop_gradient"))
        printed(net, norm, self._logging_frequency)
        return norm

    def field_name_suffix(self) -> str:
        """Return what stands behind the name of a blob in that of its norm."""
        return self._field_name_suffix
