"""Sums and copies between the devices of a model, and between those of several ranks.

Devices of one process sum gradients by `Sum` and hand the sum on by `Copy`. Where there are several ranks, each an
equal model, `Allreduce` and `Broadcast` do both, over common worlds that the net of initial values makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from caffe2.python import core, workspace
from caffe2.python._parallel_blobs import (
    CPU,
    IDEEP,
    is_gpu_blob,
    is_ideep_blob,
    on_all,
    on_device,
    stripBlobName,
    without_device,
)
from tazza.errors import ArgumentError

TREES = (4, 8, 16)
"""As many devices sum by a tree, any other number at once."""


def check_rendezvous(rendezvous: Any) -> None:
    """Check that a rendezvous says all that ranks need to meet.

    Raises:
        ArgumentError: it does not.
    """
    absent = {"kv_handler", "num_shards", "shard_id", "engine"}.difference(() if rendezvous is None else rendezvous)
    if rendezvous is not None and absent:
        raise ArgumentError(f"the rendezvous has no {', '.join(sorted(absent))}")


def several_ranks(rendezvous: Any) -> bool:
    """Whether there are other ranks."""
    return rendezvous is not None and rendezvous["num_shards"] > 1


def _scope(device_type: int, device: int = 0) -> Any:
    return core.DeviceScope(core.DeviceOption(device_type, device))


def _host(model: Any, blob: Any) -> Any:
    """Return the scope in which blobs that are on no GPU are moved."""
    return _scope(IDEEP if is_ideep_blob(model, blob) else CPU)


# -- within a process --------------------------------------------------------------------------------------------------


def broadcast(devices: Sequence[int], model: Any, net: Any, param: str, use_nccl: bool = False) -> None:
    """Add what gives all devices the blob of the first."""
    master, group = devices[0], model._device_grouped_blobs[param]
    on_gpu = is_gpu_blob(model, param)
    if use_nccl and on_gpu:
        blobs = [group[device] for device in devices]
        with _scope(model._device_type, master):
            net.NCCLBroadcast(blobs, blobs, root=0)
        return
    for device in devices[1:]:
        with _scope(model._device_type, device) if on_gpu and _is_gpu(model, group[device]) else _host(model, param):
            net.Copy(group[master], group[device])


def _is_gpu(model: Any, blob: Any) -> bool:
    return isinstance(blob, core.GradientSlice) or is_gpu_blob(model, blob)


def all_reduce(
    devices: Sequence[int],
    model: Any,
    net: Any,
    param: str,
    use_nccl: bool = False,
    control_input: Any = None,
) -> None:
    """Add what gives all devices the sum of the blobs of a group, each in its place."""
    group = model._device_grouped_blobs[param]
    blobs = [group[device] for device in devices]
    if core.IsGPUDeviceType(model._device_type) and use_nccl:
        net.NCCLAllreduce(blobs, blobs, control_input=control_input)
        return
    if len(devices) in TREES:
        step = 1
        while step < len(devices):
            for first in range(0, len(devices), 2 * step):
                _sum(model, net, group, [devices[first], devices[first + step]])
            step *= 2
    else:
        _sum(model, net, group, devices)
    broadcast(devices, model, net, param)


def _sum(model: Any, net: Any, group: dict[int, Any], devices: Sequence[int]) -> None:
    """Add the sum of some devices to the first; what it cannot read elsewhere is copied."""
    on_gpu = core.IsGPUDeviceType(model._device_type)
    pattern = workspace.GetGpuPeerAccessPattern() if on_gpu else None
    first, target = devices[0], group[devices[0]]
    with _scope(model._device_type, first):
        blobs = [target]
        for device in devices[1:]:
            here = pattern is not None and max(first, device) < len(pattern)
            near = not here or bool(cast("Any", pattern)[first][device])  # nothing is known of GPUs that are not here
            blobs.append(group[device] if near else net.Copy(group[device], f"{target}_gpu{device}_copy"))
        net.Sum(blobs, [target], name="dpm")


def all_reduce_blobs_single_host(
    blob_names: Iterable[str], devices: Sequence[int], model: Any, net: Any, use_nccl: bool
) -> None:
    """Add what sums groups over the devices of this process."""
    if len(devices) == 1:
        return
    last: Any = None
    joined: set[str] = set()
    for name in blob_names:
        group = model._device_grouped_blobs[name]
        master = group[devices[0]]
        if isinstance(master, core.GradientSlice):
            _join_rows(model, net, name, devices, joined)
        elif is_gpu_blob(model, name):
            with _scope(model._device_type, devices[0]):
                all_reduce(devices, model, net, name, use_nccl, last)
            last = master
        else:
            with _host(model, name):
                net.Sum([group[device] for device in devices], [master])
            if not model._shared_model:
                broadcast(devices, model, net, name)


def _join_rows(model: Any, net: Any, name: str, devices: Sequence[int], joined: set[str]) -> None:
    """Add what gives all devices the rows of all, with their indices: gradients of rows are not added, but joined.

    On GPUs they come into the blobs of the gradients, as Caffe2 had it, and `joined` tells which indices have done so.
    Elsewhere, where Caffe2 refused them, they come into blobs of their own, since indices are what somebody has fed.
    """
    group = model._device_grouped_blobs[name]
    slices = [group[device] for device in devices]
    begin = f"{model._device_prefix}_{devices[0]}/{name}"
    on_gpu = is_gpu_blob(model, slices[0].values)
    with _scope(model._device_type, devices[0]) if on_gpu else _host(model, slices[0].values):
        made: list[Any] = []
        for part, blobs in (("index", [one.indices for one in slices]), ("val", [one.values for one in slices])):
            if on_gpu and str(blobs[0]) in joined:
                continue
            outputs = [f"{begin}_{part}_concat", f"{begin}_{part}_splitinfo"]
            whole, _ = net.Concat(
                blobs, [core.BlobReference(one) for one in outputs], axis=0, name="note:data_parallel_model"
            )
            made.append(whole)
            if on_gpu:
                joined.add(str(blobs[0]))
                for device, blob in zip(devices, blobs, strict=True):
                    with _scope(model._device_type, device):
                        net.Copy(whole, blob)
    if not on_gpu:
        with _host(model, slices[0].values):
            _replace_slices(model, net, dict(zip(devices, slices, strict=True)), made)


def _replace_slices(model: Any, net: Any, slices: dict[int, Any], joined: Sequence[Any]) -> None:
    """Let the parameters of all devices have joined rows for their gradients; others than the first get copies."""
    first = next(iter(slices))
    for device, old in slices.items():
        parts = list(joined)
        if device != first and not model._shared_model:
            parts = [net.Copy(one, on_device(model, device, stripBlobName(one))) for one in joined]
        new = core.GradientSlice(indices=parts[0], values=parts[1])
        for param, grad in model.param_to_grad.items():
            if grad == old:
                model.param_to_grad[param] = new
                model._parameters_info[param].grad = new


# -- common worlds -----------------------------------------------------------------------------------------------------


def create_or_clone_common_world(
    net: Any, common_world_blob: Any, rendezvous: Any, name: str | None = None, timeout_sec: float | None = None
) -> Any:
    """Add a common world of the ranks: a clone of one that the net makes with the same time-out, or else a new one."""
    from caffe2.python import data_parallel_model  # whose constant old programs change

    default_s: float = data_parallel_model._DEFAULT_TIMEOUT_SEC  # pyright: ignore[reportPrivateUsage]
    timeout_ms = int((default_s if timeout_sec is None else timeout_sec) * 1000)
    called = f"{common_world_blob}_op" if name is None else name
    for op in net.Proto().op:
        if op.type == "CreateCommonWorld" and any(one.name == "timeout_ms" and one.i == timeout_ms for one in op.arg):
            return net.CloneCommonWorld(op.output[0], common_world_blob, name=called, engine=rendezvous["engine"])
    chosen = {key: rendezvous[key] for key in ("transport", "interface", "mpi_rendezvous") if key in rendezvous}
    return net.CreateCommonWorld(
        rendezvous["kv_handler"],
        common_world_blob,
        name=called,
        size=rendezvous["num_shards"],
        rank=rendezvous["shard_id"],
        engine=rendezvous["engine"],
        timeout_ms=timeout_ms,
        **chosen,
    )


class CollectivesConcurrencyControl:
    """Hands out common worlds in turn, so that no more than so many collective operators run at once."""

    def __init__(self, name: str, max_concurrent_context: int, param_init_net: Any, rendezvous: Any) -> None:
        """Begin with none; they are made by a net, and called after `name`.

        Raises:
            ArgumentError: fewer than one at once.
        """
        if max_concurrent_context < 1:
            raise ArgumentError(f"{max_concurrent_context} collective operators at once, there is one at least")
        self.name = name
        self.param_init_net = param_init_net
        self.max_concurrent_context = max_concurrent_context
        self.counter = 0
        self.common_worlds: list[Any] = []
        self.control_inputs: list[Any] = []
        self.rendezvous = rendezvous

    def get_control_and_context(self, control_output_blob: Any) -> tuple[Any, Any]:
        """Return the next world, and what an operator has to wait for: the last one over it, which made this blob."""
        slot = self.counter % self.max_concurrent_context
        self.counter += 1
        control: Any = None
        if len(self.common_worlds) < self.max_concurrent_context:
            blob = f"{self.name}_{len(self.common_worlds)}_cw"
            world = create_or_clone_common_world(self.param_init_net, blob, self.rendezvous)
            self.common_worlds.append(world)
            self.control_inputs.append(control_output_blob)
        else:
            control = self.control_inputs[slot]
            self.control_inputs[slot] = control_output_blob
        return self.common_worlds[slot], control


# -- between ranks -----------------------------------------------------------------------------------------------------


def all_reduce_blobs(
    blob_names: Iterable[str],
    devices: Sequence[int],
    model: Any,
    net: Any,
    rendezvous: Any,
    use_nccl: bool,
    max_concurrent_distributed_ops: int,
) -> None:
    """Add what sums groups over all devices of all ranks."""
    if several_ranks(rendezvous):
        all_reduce_blobs_distributed(blob_names, devices, model, net, rendezvous, max_concurrent_distributed_ops)
    else:
        all_reduce_blobs_single_host(blob_names, devices, model, net, use_nccl)


def all_reduce_blobs_distributed(
    blob_names: Iterable[str],
    devices: Sequence[int],
    model: Any,
    net: Any,
    rendezvous: Any,
    max_concurrent_distributed_ops: int,
) -> None:
    """Add what sums groups over the ranks; of blobs on a GPU by way of one more blob, unless the engine is GLOO."""
    control = CollectivesConcurrencyControl(
        "allreduce", max_concurrent_distributed_ops, model.param_init_net, rendezvous
    )
    last: Any = None
    for name in blob_names:
        group = model._device_grouped_blobs[name]
        blobs = [group[device] for device in devices]
        master = blobs[0]
        if isinstance(master, core.GradientSlice):
            raise ArgumentError(f"the gradient {name!r} has rows only, which are not brought to other ranks")
        with _scope(model._device_type, devices[0]):
            if rendezvous["engine"] == "GLOO" or not is_gpu_blob(model, name):
                direct = rendezvous.get("transport") == "ibverbs"
                _meet(net, control, name, blobs, "Allreduce", gpu_direct=direct)
                continue
            copy = net.ConstantFill(master, f"{master}_red", value=0.0)
            all_reduce(devices, model, net, name, use_nccl=True, control_input=last)
            last = master
            net.Copy(master, copy)
            _meet(net, control, name, [copy], "Allreduce")
            net.Copy(copy, master)
        broadcast(devices, model, net, name)


def _meet(
    net: Any, control: CollectivesConcurrencyControl, name: str, blobs: list[Any], op_type: str, **arguments: Any
) -> None:
    """Add a collective operator over the next world."""
    world, wait_for = control.get_control_and_context(blobs[0] if op_type == "Allreduce" else blobs)
    add = getattr(net, op_type)
    engine = control.rendezvous["engine"]
    add([world, *blobs], blobs, name=name, engine=engine, control_input=wait_for, **arguments)


def sync_all_params(
    devices: Sequence[int],
    model: Any,
    init_net: Any,
    net: Any,
    rendezvous: Any,
    unique_param_names: Iterable[str],
    max_concurrent_distributed_ops: int = 4,
) -> None:
    """Add what gives all devices of all ranks the blobs of the first device of rank 0."""
    if several_ranks(rendezvous):
        sync_all_params_distributed(
            devices, model, init_net, net, rendezvous, unique_param_names, max_concurrent_distributed_ops
        )
    else:
        sync_all_params_single_host(devices, model, net, unique_param_names)


def sync_all_params_single_host(
    devices: Sequence[int], model: Any, net: Any, unique_param_names: Iterable[str]
) -> None:
    """Add what gives all devices the blobs of the first, in the order of their names or, for a set, sorted."""
    names = sorted(unique_param_names) if isinstance(unique_param_names, (set, frozenset)) else unique_param_names
    for name in names:
        broadcast(devices, model, net, name)


def sync_all_params_distributed(
    devices: Sequence[int],
    model: Any,
    init_net: Any,
    net: Any,
    rendezvous: Any,
    unique_param_names: Iterable[str],
    max_concurrent_distributed_ops: int,
) -> None:
    """Add what brings blobs from rank 0 to all; of those on a GPU by way of the CPU, unless the engine is GLOO."""
    with _scope(model._device_type, devices[0]) if core.IsGPUDeviceType(model._device_type) else _scope(CPU):
        if model._broadcast_context is None:
            model._broadcast_context = CollectivesConcurrencyControl(
                "broadcast", max_concurrent_distributed_ops, init_net, rendezvous
            )
        for name in sorted(unique_param_names):
            _sync_one(devices, model, net, rendezvous, name)


def _sync_one(devices: Sequence[int], model: Any, net: Any, rendezvous: Any, name: str) -> None:
    group = model._device_grouped_blobs[name]
    on_gpu = is_gpu_blob(model, name)
    here = _scope(model._device_type, devices[0])
    if rendezvous["engine"] == "GLOO" or not on_gpu:
        with here if on_gpu else _host(model, name):
            _meet(net, model._broadcast_context, name, [group[device] for device in devices], "Broadcast")
        return
    master = group[devices[0]]
    with here:
        copy = net.CopyGPUToCPU(master, f"{master}cpu")
        with _scope(CPU):
            _meet(net, model._broadcast_context, name, [copy], "Broadcast")
        net.CopyCPUToGPU(copy, master)
    broadcast(devices, model, net, name)


def broadcast_computed_params(devices: Sequence[int], model: Any, rendezvous: Any, use_nccl: bool = False) -> None:
    """Add what gives all devices the parameters that are not learned from gradients, within each rank."""
    del rendezvous  # Caffe2 left those of other ranks as they are, too
    if len(devices) > 1:
        for name in model._computed_param_names:
            broadcast(devices, model, model.net, name, use_nccl)


def AddBlobSync(model: Any, blobs: Sequence[Any], net: Any = None) -> None:
    """Add what gives all devices of all ranks some blobs of the first device; to the net of the model by default."""
    if not blobs:
        return
    names = list(dict.fromkeys(without_device(model, blob) for blob in blobs))
    for name in names:
        model._device_grouped_blobs[name] = on_all(model, name)
    sync_all_params(
        model._devices,
        model,
        model.param_init_net,
        model.net if net is None else net,
        model._rendezvous,
        names,
    )


def AddDistributedBlobSync(model: Any, blobs: Sequence[Any]) -> None:
    """Add what sums blobs, of no device, over the ranks."""
    if model._rendezvous is None:
        return
    name = "blob_sync_cw_" + "_".join(map(str, blobs))
    world = create_or_clone_common_world(model.param_init_net, name, model._rendezvous)
    model.net.Allreduce([world, *blobs], blobs, engine=model._rendezvous["engine"])
