"""Running a model of several devices: its initial values, its steps, what ranks wait for, what follows a checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from caffe2.python import core, workspace
from caffe2.python._parallel_blobs import compute_blobs_to_sync, noted, on_all, stripBlobName
from caffe2.python._parallel_collectives import create_or_clone_common_world, several_ranks, sync_all_params
from tazza.errors import ArgumentError

BARRIER_TIMEOUT_S = 300
"""How long ranks wait for all to begin a training."""


def nets_of(model: Any, name: str) -> list[Any]:
    """Return the nets that `Parallelize` has noted.

    Raises:
        ArgumentError: it has not made this model.
    """
    found: list[Any] | None = noted(model, name)
    if found is None:
        raise ArgumentError(f"the model {model.name!r} was not made parallel", hint="data_parallel_model.Parallelize")
    return found


def CreateNet(model: Any, overwrite: bool = False) -> None:
    """Create the nets of a step."""
    for one in nets_of(model, "_data_parallel_model_nets"):
        workspace.CreateNet(one[0] if isinstance(one, tuple) else one, overwrite=overwrite)


def RunInitNet(model: Any) -> None:
    """Make the initial values, and create the nets of a step."""
    for net in nets_of(model, "_data_parallel_model_init_nets"):
        workspace.RunNetOnce(net)
    CreateNet(model)


def RunWarmup(model: Any) -> None:
    """Run the steps that come before blocks, and give all devices the parameters of the first.

    Raises:
        ArgumentError: the model has no such steps.
    """
    steps: int | None = noted(model, "_warmup_iterations")
    if steps is None:
        raise ArgumentError(f"the model {model.name!r} has no warm-up", hint="Parallelize_BMUF(warmup_iterations=...)")
    workspace.RunNet(model.net, steps)
    workspace.RunNetOnce(model._warmup_broadcast)


def RunNet(model: Any, num_iterations: int) -> None:
    """Run so many steps, and then what comes once behind them."""
    for one in nets_of(model, "_data_parallel_model_nets"):
        net, times = cast("tuple[Any, int]", one) if isinstance(one, tuple) else (one, num_iterations)
        workspace.RunNet(net.Proto().name, times)


# -- barriers ----------------------------------------------------------------------------------------------------------


def create_barrier_net(model: Any, init_net: Any, name_prefix: str, timeout_sec: float) -> Any:
    """Return a net in which all ranks wait for each other; `init_net` makes its common world."""
    rendezvous = model._rendezvous
    world = create_or_clone_common_world(init_net, f"{name_prefix}_barrier_cw", rendezvous, timeout_sec=timeout_sec)
    net = core.Net(f"{name_prefix}_barrier_net")
    net.Barrier([world], [], engine=rendezvous["engine"])
    return net


def add_barrier_to_model_nets(model: Any, barrier_net_timeout_sec: float) -> None:
    """Let ranks wait for all before each step."""
    if model._rendezvous is None or model._rendezvous["engine"] != "GLOO":
        return
    model._barrier_init_net = core.Net("barrier_init_net")
    model._barrier_net = create_barrier_net(model, model._barrier_init_net, "pre_training", barrier_net_timeout_sec)
    model._data_parallel_model_init_nets.insert(0, model._barrier_init_net)
    model._data_parallel_model_nets.insert(0, model._barrier_net)


def Synchronize(model: Any, timeout_sec: float = BARRIER_TIMEOUT_S) -> None:
    """Wait for all ranks, at most so long; steps do so by themselves.

    Raises:
        ArgumentError: earlier calls have said another time.
    """
    warnings.warn("steps wait for all ranks by themselves: barrier_net_timeout_sec", DeprecationWarning, stacklevel=2)
    if model._rendezvous is None or model._rendezvous["num_shards"] <= 1:
        return
    if model._sync_barrier_net is None:
        init_net = core.Net("sync_barrier_init_net")
        model._sync_barrier_net = create_barrier_net(model, init_net, "sync", timeout_sec)
        workspace.RunNetOnce(init_net)
        workspace.CreateNet(model._sync_barrier_net)
        model._sync_barrier_net_timeout = timeout_sec
    if model._sync_barrier_net_timeout != timeout_sec:
        known = model._sync_barrier_net_timeout
        raise ArgumentError(f"{timeout_sec} seconds for a barrier that was made with {known}")
    workspace.RunNet(model._sync_barrier_net)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def FinalizeAfterCheckpoint(model: Any, blobs: Iterable[Any] | None = None, cpu_mode: bool = False) -> None:
    """Give all devices of all ranks what was loaded into the blobs of the first.

    Args:
        model: made by `Parallelize`.
        blobs: those that were loaded, all that devices begin with by default; the first call says which.
        cpu_mode: let what has no device of its own run on the CPU, and not on a GPU.
    """
    if noted(model, "_checkpoint_net") is None:
        names = compute_blobs_to_sync(model)[1] if blobs is None else list(dict.fromkeys(map(stripBlobName, blobs)))
        for name in names:
            if name not in model._device_grouped_blobs:
                model._device_grouped_blobs[name] = on_all(model, name)
        net = core.Net("checkpoint_sync_net")
        init_net = core.Net("checkpoint_init_net") if several_ranks(model._rendezvous) else None
        if not cpu_mode:
            for one in (net, init_net):
                if one is not None:
                    one.RunAllOnGPU()
        sync_all_params(model._devices, model, init_net, net, model._rendezvous, names, 1)
        if init_net is not None:
            workspace.RunNetOnce(init_net)
        workspace.CreateNet(net)
        model._checkpoint_net = net
    workspace.RunNet(model._checkpoint_net)


def run_comparison(model: Any, blob_name: str, device: Any = None) -> bool:
    """Check that the sum of the squares of a blob is the same on all ranks; returns True.

    Raises:
        AssertionError: it is not.
    """
    rendezvous = model._rendezvous
    if not several_ranks(rendezvous):
        return True
    ranks, own = rendezvous["num_shards"], rendezvous["shard_id"]
    workspace.FeedBlob("compare_arr", np.eye(ranks, dtype=np.float32)[own])
    option = core.DeviceOption(model._device_type, 0) if device is None else device
    net = core.Net("allcompare_net")
    with core.DeviceScope(option):
        world = net.CreateCommonWorld(
            rendezvous["kv_handler"],
            "initial_sync",
            name=f"{model.net.Proto().name}.cw_master_select",
            size=ranks,
            rank=own,
            engine=rendezvous["engine"],
        )
        checksum = net.SumSqrElements([blob_name], [f"{blob_name}_checksum"], average=0)
        gathered = net.Mul(["compare_arr", checksum], f"{blob_name}_gather", broadcast=1)
        net.Allreduce([world, gathered], [gathered], engine=rendezvous["engine"])
    workspace.RunNetOnce(net)
    found = workspace.FetchBlob(str(gathered))
    assert np.all(found == found[0]), f"{blob_name} differs from rank to rank: its sums of squares are {found.tolist()}"
    return True
