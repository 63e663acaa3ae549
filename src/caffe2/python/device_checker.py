"""Whether operators and nets give the same on several devices."""

from __future__ import annotations

import copy
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from caffe2.python import workspace
from caffe2.python.core import InferOpBlobDevicesAsDict
from tazza.proto import DeviceOption, NetDef, OperatorDef


@contextmanager
def _own_workspace() -> Generator[None]:
    with workspace.WorkspaceGuard("_device_check_"):
        try:
            yield
        finally:
            workspace.ResetWorkspace()


class DeviceChecker:
    """Runs the same on each of some devices, and compares with the first."""

    def __init__(self, threshold: float, device_options: Sequence[DeviceOption]) -> None:
        """Take the devices, and how far apart results may lie, absolutely and relatively."""
        self._threshold = threshold
        self._device_options = device_options

    def _agree(self, names: Sequence[str], results: Sequence[Sequence[Any]]) -> bool:
        """Whether each device gave what the first one did; what differs is printed."""
        near = True
        for number, found in enumerate(results[1:], 1):
            for name, value, first in zip(names, found, results[0], strict=True):
                if not np.allclose(value, first, atol=self._threshold, rtol=self._threshold):
                    print(f"Failure in checking device option {number} and output {name}. The outputs are:")
                    print(value.flatten(), first.flatten(), np.max(np.abs(value - first)), sep="\n")
                    near = False
        return near

    def CheckSimple(
        self,
        op: OperatorDef,
        inputs: Iterable[Any],
        outputs_to_check: Iterable[int],
        input_device_options: Mapping[str, DeviceOption] | None = None,
    ) -> bool:
        """Whether an operator gives the same for the same inputs; outputs are those of the given numbers."""
        op = copy.deepcopy(op)
        given = list(inputs)
        names = [op.output[position] for position in outputs_to_check]
        results: list[list[Any]] = []
        for device_option in self._device_options:
            op.device_option.CopyFrom(device_option)
            places = input_device_options or InferOpBlobDevicesAsDict(op)[0]
            with _own_workspace():
                for name, value in zip(op.input, given, strict=False):
                    workspace.FeedBlob(name, np.array(value), places.get(name, device_option))
                workspace.RunOperatorOnce(op)
                results.append(workspace.FetchBlobs(names))
        return self._agree(names, results)

    def CheckNet(
        self,
        net: NetDef,
        inputs: Mapping[str, Any] | None = None,
        blobs_to_check: Iterable[str] | None = None,
        ignore: Collection[str] | None = None,
    ) -> bool:
        """Whether a net leaves the same in all blobs, but those to ignore; its operators get the devices."""
        checked = [name for op in net.op for name in op.output] if blobs_to_check is None else blobs_to_check
        names = [name for name in checked if ignore is None or name not in ignore]
        results: list[list[Any]] = []
        with _own_workspace():
            for device_option in self._device_options:
                for name, value in () if inputs is None else inputs.items():
                    workspace.FeedBlob(name, value, device_option)
                for op in net.op:
                    op.device_option.CopyFrom(device_option)
                workspace.RunNetOnce(net)
                results.append(workspace.FetchBlobs(names))
        return self._agree(names, results)
