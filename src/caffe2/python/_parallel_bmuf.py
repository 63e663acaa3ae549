"""Training in blocks: devices learn by themselves for a while, then all go on from a mean of what they learned.

Source: Chen, Huo 2016, Scalable training of deep learning machines by incremental block training with intra-block
parallel optimization and blockwise model-update filtering.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from caffe2.python import core
from caffe2.python._parallel_blobs import infer_blob_device
from caffe2.python._parallel_collectives import AddBlobSync, all_reduce_blobs, sync_all_params
from tazza.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class Block:
    """What happens behind each block: settings, and the nets that it is added to."""

    model: Any
    device_count: int
    learning_rate: float
    momentum: float
    nesterov: bool
    master: int
    """The device that filters."""
    most_at_once: int

    @property
    def devices(self) -> list[int]:
        """The devices, first the one that filters: what all are given is taken from the first."""
        return [self.master, *(device for device in self.model._devices if device != self.master)]

    @property
    def names(self) -> list[str]:
        """The parameters that are learned, without their devices."""
        return list(self.model._param_names)

    def blob(self, name: str, affix: str = "") -> Any:
        """Return a parameter of the device that filters, or what belongs to it: `_v` velocity, `_g` global value."""
        return self.model._device_grouped_blobs[name][self.master] + affix

    def here(self) -> Any:
        """Return the scope of the device that filters."""
        return core.DeviceScope(core.DeviceOption(self.model._device_type, self.master))


def check_master(devices: Sequence[int], master: int) -> None:
    """Check that the device that filters is one of the model.

    Raises:
        ArgumentError: it is not.
    """
    if master not in devices:
        raise ArgumentError(f"master_device = {master} is none of the devices {list(devices)}")


def add_first_values(block: Block, net: Any) -> None:
    """Add to a net velocities of 0, and global values that are those of the parameters."""
    with block.here():
        for name in block.names:
            param = block.blob(name)
            net.ConstantFill(param, block.blob(name, "_v"), value=0.0)
            net.Copy(param, block.blob(name, "_g"))
            if block.nesterov:
                net.ConstantFill(param, block.blob(name, "_prev"), value=0.0)


def add_warmup(block: Block, net: Any) -> None:
    """Add to a net what ends a warm-up: all devices, and the global values, get the parameters of the first."""
    model = block.model
    sync_all_params(block.devices, model, model.param_init_net, net, model._rendezvous, block.names, block.most_at_once)
    with block.here():
        for name in block.names:
            net.Copy(block.blob(name), block.blob(name, "_g"))


def add_updates(block: Block, net: Any, use_nccl: bool, add_blobs_to_sync: Sequence[Any] | None) -> None:
    """Add to a net what filters the mean of the parameters of all devices, and gives it to all."""
    model = block.model
    infer_blob_device(model)
    all_reduce_blobs(block.names, model._devices, model, net, model._rendezvous, use_nccl, block.most_at_once)
    with block.here():
        for name in block.names:
            _filter(block, net, name)
    sync_all_params(block.devices, model, model.param_init_net, net, model._rendezvous, block.names, block.most_at_once)
    if add_blobs_to_sync is not None:
        AddBlobSync(model, add_blobs_to_sync, net=net)


def _filter(block: Block, net: Any, name: str) -> None:
    """Add `v = m v + lr (mean - g)`, `g += v`, of which Nesterov's form takes back `m (v - v of before)`."""
    param, v, g = block.blob(name), block.blob(name, "_v"), block.blob(name, "_g")
    net.Scale(param, param, scale=1.0 / block.device_count)
    net.Sub([param, g], param)
    net.Scale(param, param, scale=block.learning_rate)
    net.Scale(v, v, scale=block.momentum)
    net.Add([v, param], v)
    net.Add([g, v], g)
    if block.nesterov:
        before = block.blob(name, "_prev")
        net.Sub([v, before], before)
        net.Scale(before, before, scale=block.momentum)
        net.Sub([g, before], g)
        net.Copy(v, before)
    net.Copy(g, param)


def reset_momentum(ops: Iterable[Any], net: Any) -> None:
    """Add what lets the momentum of each device begin anew."""
    for op in ops:
        if op.type == "MomentumSGDUpdate":
            with core.DeviceScope(op.device_option):
                net.ConstantFill([op.input[1]], [op.input[1]], value=0.0)
