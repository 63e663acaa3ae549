"""Sums of blobs on several GPUs, which each of them gets: as a tree where they read each other's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from caffe2.python import core, workspace
from tazza.errors import ArgumentError


def OnGPU(gpu_id: int) -> Any:
    """Return the option of a GPU."""
    return core.DeviceOption(1, gpu_id)


def OnCPU() -> Any:
    """Return the option of the CPU."""
    return core.DeviceOption(0)


def Allreduce(net: Any, blobs: Sequence[Any], reduced_affix: str = "_reduced", gpu_indices: Any = None) -> Any:
    """Add what sums blobs, one on each GPU, into blobs of their own; returns these.

    Args:
        net: gets the operators.
        blobs: what is summed.
        reduced_affix: behind the names of the sums.
        gpu_indices: where the blobs are; on the first GPUs by default.

    Raises:
        ArgumentError: no blobs, or not one GPU for each.
    """
    gpus = list(range(len(blobs))) if gpu_indices is None else gpu_indices
    _check_counts(blobs, gpus)
    return _way(len(blobs))(net, blobs, reduced_affix, gpus)


def _check_counts(blobs: Sequence[Any], gpus: Sequence[int]) -> None:
    if len(gpus) != len(blobs) or not blobs:
        raise ArgumentError(f"{len(gpus)} GPUs for {len(blobs)} blobs: one each, and one at least")


def _way(count: int) -> Any:
    """Return how so many blobs are summed: by what the first GPUs can read of each other."""
    pattern = workspace.GetGpuPeerAccessPattern()

    def peers(begin: int, end: int) -> bool:
        return bool(pattern.shape[0] >= count and np.all(pattern[begin:end, begin:end]))

    if count == 2 and peers(0, 2):
        return Allreduce2
    if count == 4 and peers(0, 4):
        return Allreduce4
    if count == 4 and peers(0, 2) and peers(2, 4):
        return Allreduce4Group2
    if count == 8 and peers(0, 8):
        return Allreduce8
    return AllreduceFallback


class _Tree:
    """Sums and copies of blobs that are numbered; `sums` holds the sum that each GPU has so far."""

    def __init__(self, net: Any, blobs: Sequence[Any], affix: str, gpus: Sequence[int], count: int) -> None:
        _check_counts(blobs, gpus)
        if len(blobs) != count:
            raise ArgumentError(f"this way sums blobs of {count} GPUs, not {len(blobs)} blobs")
        self._net, self._blobs, self._affix, self._gpus = net, blobs, affix, gpus
        self.sums: list[Any] = [None] * count

    def pair(self, position: int) -> None:
        """Sum a blob and the next one, on the GPU of the first."""
        first, second = self._blobs[position], self._blobs[position + 1]
        self.sums[position] = self._add(first, second, self._name(position), position)

    def join(self, target: int, source: int, copies: bool = False) -> None:
        """Add the sum of one GPU to that of another, which reads it there or gets a copy."""
        other = self.sums[source]
        if copies:
            other = self._net.Copy(other, f"{other}_copy", device_option=OnGPU(self._gpus[target]))
        self.sums[target] = self._add(self.sums[target], other, self.sums[target], target)

    def hand_on(self, source: int, target: int) -> None:
        """Give the sum of one GPU to another."""
        option = OnGPU(self._gpus[target])
        self.sums[target] = self._net.Copy(self.sums[source], self._name(target), device_option=option)

    def _add(self, left: Any, right: Any, out: Any, position: int) -> Any:
        return self._net.Add([left, right], out, device_option=OnGPU(self._gpus[position]))

    def _name(self, position: int) -> Any:
        return self._blobs[position] + self._affix


def Allreduce2(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Any) -> tuple[Any, ...]:
    """Sum on two GPUs that read each other's memory."""
    tree = _Tree(net, blobs, reduced_affix, gpu_indices, 2)
    tree.pair(0)
    tree.hand_on(0, 1)
    return tuple(tree.sums)


def _four(net: Any, blobs: Sequence[Any], affix: str, gpus: Sequence[int], copies: bool) -> tuple[Any, ...]:
    tree = _Tree(net, blobs, affix, gpus, 4)
    for position in (0, 2):
        tree.pair(position)
    tree.join(0, 2, copies)
    for source, target in ((0, 2), (0, 1), (2, 3)):
        tree.hand_on(source, target)
    return tuple(tree.sums)


def Allreduce4(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Any) -> tuple[Any, ...]:
    """Sum on four GPUs that read each other's memory."""
    return _four(net, blobs, reduced_affix, gpu_indices, copies=False)


def Allreduce4Group2(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Any) -> tuple[Any, ...]:
    """Sum on four GPUs, of which two and two read each other's memory."""
    return _four(net, blobs, reduced_affix, gpu_indices, copies=True)


def Allreduce8(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Any) -> list[Any]:
    """Sum on eight GPUs, of which four and four read each other's memory."""
    tree = _Tree(net, blobs, reduced_affix, gpu_indices, 8)
    for position in (0, 2, 4, 6):
        tree.pair(position)
    tree.join(0, 2)
    tree.join(4, 6)
    tree.join(0, 4, copies=True)
    for source, target in ((0, 4), (0, 2), (4, 6), (0, 1), (2, 3), (4, 5), (6, 7)):
        tree.hand_on(source, target)
    return tree.sums


def AllreduceFallback(net: Any, blobs: Sequence[Any], reduced_affix: str, gpu_indices: Any) -> list[Any]:
    """Sum on the first GPU, one copy after the other, and hand the sum to the others."""
    _check_counts(blobs, gpu_indices)
    on_first = OnGPU(gpu_indices[0])
    total = net.Copy(blobs[0], blobs[0] + reduced_affix, device_option=on_first)
    for blob in blobs[1:]:
        copy = net.Copy(blob, f"{blobs[0] + reduced_affix}_temp_copy", device_option=on_first)
        total = net.Add([copy, total], total, device_option=on_first)
    others = zip(blobs[1:], gpu_indices[1:], strict=True)
    return [total, *(net.Copy(total, blob + reduced_affix, device_option=OnGPU(gpu)) for blob, gpu in others)]
