"""Models that run on several devices at once, each with its part of a batch, and learn as one.

    def inputs(model): ...
    def layers(model, loss_scale): ...; return [model.Scale(loss, scale=loss_scale)]
    Parallelize_CPU(model, inputs, layers, optimizer_builder_fun=add_optimizer, devices=[0, 1])
    RunInitNet(model)
    RunNet(model, 100)

The functions are called once for each device, in its scopes; a blob `fc_w` of device 1 is called `cpu_1/fc_w`. Behind
the backward pass gradients are summed over the devices, and, with a `rendezvous`, over the ranks that meet there.
Devices of the CPU are parts of one net, which a net of type `dag` runs side by side.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from multiprocessing import cpu_count
from operator import index
from typing import Any

from caffe2.python import _parallel_blobs as blobs_of
from caffe2.python import _parallel_bmuf as bmuf
from caffe2.python import _parallel_collectives as collectives
from caffe2.python import _parallel_run as running
from caffe2.python import core, scope, workspace
from caffe2.python._parallel_batch_norm import combine_batch_norm, interleave_ops
from caffe2.python._parallel_blobs import (
    CPU,
    CUDA,
    IDEEP,
    PREFIXES,
    ConvertNetForDevice,
    ExtractPredictorNet,
    GetCheckpointParams,
    GetLearningRateBlobNames,
    for_each_device,
    stripBlobName,
)
from caffe2.python._parallel_collectives import AddBlobSync, AddDistributedBlobSync, CollectivesConcurrencyControl
from caffe2.python._parallel_run import (
    CreateNet,
    FinalizeAfterCheckpoint,
    RunInitNet,
    RunNet,
    RunWarmup,
    Synchronize,
)
from tazza.errors import ArgumentError, UnavailableError

log = logging.getLogger("data_parallel_model")
log.setLevel(logging.INFO)

_DEFAULT_TIMEOUT_SEC: float = 30
_DEFAULT_BARRIER_NET_TIMEOUT_SEC = running.BARRIER_TIMEOUT_S
"""Seconds that ranks wait for each other: in a collective operator, and at the barrier in front of each step."""

_AddBarrierToModelNets = running.add_barrier_to_model_nets
_AllReduce = collectives.all_reduce
_AllReduceBlobs = collectives.all_reduce_blobs
_AllReduceBlobsDistributed = collectives.all_reduce_blobs_distributed
_AllReduceBlobsSingleHost = collectives.all_reduce_blobs_single_host
_AnalyzeOperators = blobs_of.analyze_operators
_Broadcast = collectives.broadcast
_BroadcastComputedParams = collectives.broadcast_computed_params
_ComputeBlobsToSync = blobs_of.compute_blobs_to_sync
_CreateBarrierNet = running.create_barrier_net
_CreateOrCloneCommonWorld = collectives.create_or_clone_common_world
_ForEachDevice = for_each_device
_GetReverseOrderedGrads = blobs_of.reverse_ordered_grads
_GroupByDevice = blobs_of.group_by_device
_InferBlobDevice = blobs_of.infer_blob_device
_InterleaveOps = interleave_ops
_CPUInterDeviceBatchNormalization = combine_batch_norm
_GPUInterDeviceBatchNormalization = combine_batch_norm
_IsGPUBlob = blobs_of.is_gpu_blob
_IsIDEEPBlob = blobs_of.is_ideep_blob
_PruneParametersForSharing = blobs_of.prune_parameters_for_sharing
_RemapParameterBlobsForSharedModel = blobs_of.remap_parameter_blobs_for_shared_model
_RunComparison = running.run_comparison
_SyncAllParams = collectives.sync_all_params
_SyncAllParamsDistributed = collectives.sync_all_params_distributed
_SyncAllParamsSingleHost = collectives.sync_all_params_single_host
_ValidateParams = blobs_of.validate_params

__all__ = [
    "AddBlobSync",
    "AddDistributedBlobSync",
    "CollectivesConcurrencyControl",
    "ConvertNetForDevice",
    "CreateNet",
    "ExtractPredictorNet",
    "FinalizeAfterCheckpoint",
    "GetCheckpointParams",
    "GetLearningRateBlobNames",
    "OptimizeGradientMemory",
    "Parallelize",
    "Parallelize_BMUF",
    "Parallelize_CPU",
    "Parallelize_CPU_BMUF",
    "Parallelize_GPU",
    "Parallelize_GPU_BMUF",
    "Parallelize_iDeep",
    "RunInitNet",
    "RunNet",
    "RunWarmup",
    "Synchronize",
    "log",
    "stripBlobName",
]


def Parallelize_GPU(*args: Any, **kwargs: Any) -> None:
    """Let a model run on several GPUs; see `Parallelize`."""
    kwargs["cpu_device"] = False
    Parallelize(*args, **kwargs)


def Parallelize_CPU(*args: Any, **kwargs: Any) -> None:
    """Let a model run on several devices of the CPU; see `Parallelize`."""
    kwargs["cpu_device"] = True
    Parallelize(*args, **kwargs)


def Parallelize_iDeep(*args: Any, **kwargs: Any) -> None:
    """Let a model run on several devices where IDEEP ran, which is the CPU; see `Parallelize`."""
    kwargs["ideep"] = True
    Parallelize(*args, **kwargs)


def Parallelize(
    model_helper_obj: Any,
    input_builder_fun: Callable[[Any], Any],
    forward_pass_builder_fun: Callable[[Any, float], Any],
    param_update_builder_fun: Callable[[Any], Any] | None = None,
    optimizer_builder_fun: Callable[[Any], Any] | None = None,
    post_sync_builder_fun: Callable[[Any], Any] | None = None,
    pre_grad_net_transformer_fun: Callable[[Any], Any] | None = None,
    net_transformer_fun: Callable[..., Any] | None = None,
    devices: Iterable[int] | None = None,
    rendezvous: Mapping[str, Any] | None = None,
    net_type: str = "dag",
    broadcast_computed_params: bool = True,
    optimize_gradient_memory: bool = False,
    dynamic_memory_management: bool = False,
    blobs_to_keep: Sequence[Any] | None = None,
    use_nccl: bool = False,
    max_concurrent_distributed_ops: int = 16,
    cpu_device: bool = False,
    ideep: bool = False,
    num_threads_per_device: int = 4,
    shared_model: bool = False,
    combine_spatial_bn: bool = False,
    barrier_net_timeout_sec: float = _DEFAULT_BARRIER_NET_TIMEOUT_SEC,
) -> None:
    """Let a model run on several devices.

    Args:
        model_helper_obj: an empty model; parameters that it has already belong to no device.
        input_builder_fun: adds what reads a batch; called with the model, like those below, for each device.
        forward_pass_builder_fun: adds the layers; gets a factor too that losses are to be scaled by, and returns a list
            of losses.
        param_update_builder_fun: adds updates of the parameters of one device.
        optimizer_builder_fun: adds updates of all parameters, once. Without either the model only predicts.
        post_sync_builder_fun: adds what comes at the end, for each device.
        pre_grad_net_transformer_fun: changes the net before the backward pass is added.
        net_transformer_fun: changes it behind that; gets the number of devices too, their prefix and their kind.
        devices: their numbers; all of the machine by default.
        rendezvous: what ranks need to meet: `kv_handler`, `num_shards`, `shard_id`, `engine`.
        net_type: of the net.
        broadcast_computed_params: give all devices the statistics of the first, in each step.
        optimize_gradient_memory: let gradients share memory.
        dynamic_memory_management: free blobs behind their last reader, but for `blobs_to_keep`.
        blobs_to_keep: see above, without devices.
        use_nccl: let NCCL sum on GPUs.
        max_concurrent_distributed_ops: sums over ranks that run at once.
        cpu_device: devices of the CPU.
        ideep: devices where IDEEP ran.
        num_threads_per_device: threads of the net, for each device.
        shared_model: let all devices of the CPU have the parameters of the first.
        combine_spatial_bn: normalize over the batches of all devices.
        barrier_net_timeout_sec: seconds that ranks wait for all before each step.

    Raises:
        AssertionError: in the scope of a GPU; updates by two functions, losses that are no list, memory in two ways.
        ArgumentError, UnavailableError: no devices, or what the functions add differs from device to device.
    """
    model = model_helper_obj
    _begin(model, devices, rendezvous, IDEEP if ideep else CPU if cpu_device else CUDA)
    _set_type(model, model.net, net_type, num_threads_per_device)
    assert param_update_builder_fun is None or optimizer_builder_fun is None, "parameters are updated in one way"
    assert not (optimize_gradient_memory and dynamic_memory_management), "memory of gradients is shared, or freed"
    updates = param_update_builder_fun is not None or optimizer_builder_fun is not None
    _share(model, shared_model)
    apart = model.GetAllParams("")
    losses = _add_layers(model, input_builder_fun, forward_pass_builder_fun, updates)
    _group_params(model, apart if updates else [*apart, *blobs_of.outside(model, model.GetAllParams(""))])
    if pre_grad_net_transformer_fun is not None:
        pre_grad_net_transformer_fun(model)
    if updates:
        _add_gradients(model, losses, apart, combine_spatial_bn)
    if net_transformer_fun is not None:
        net_transformer_fun(model, len(model._devices), model._device_prefix, model._device_type)
    if updates:
        _sum_gradients(model, broadcast_computed_params, use_nccl, max_concurrent_distributed_ops)
        _add_updates(model, param_update_builder_fun, optimizer_builder_fun)
        _add_first_values(model)
        if post_sync_builder_fun is not None:
            _for_each_scoped(model, lambda device: post_sync_builder_fun(model))
        _save_memory(model, optimize_gradient_memory, dynamic_memory_management, blobs_to_keep)
    _note_nets(model, barrier_net_timeout_sec if updates else None)


# -- parts of it -------------------------------------------------------------------------------------------------------


def _begin(model: Any, devices: Iterable[int] | None, rendezvous: Any, device_type: int) -> None:
    """Note the devices and ranks of a model."""
    around = scope.CurrentDeviceScope()
    assert around is None or around.device_type == CPU, "it enters the scopes of devices itself, leave that of the GPU"
    collectives.check_rendezvous(rendezvous)
    model._devices = _devices(devices, device_type)
    model._device_type, model._device_prefix = device_type, PREFIXES[device_type]
    model._rendezvous = rendezvous
    model._shared_model = False
    model._sync_barrier_net = model._broadcast_context = model._optimizer = None
    model._grad_names = list[str]()
    model._blob_to_device = {}
    log.info("Parallelizing model for devices: %s", model._devices)


def _devices(devices: Iterable[int] | None, device_type: int) -> list[int]:
    """Return the devices as a list, all of the machine for None."""
    on_gpu = core.IsGPUDeviceType(device_type)
    count = workspace.NumGpuDevices()
    if devices is None and on_gpu and not count:
        raise UnavailableError("there is no GPU", hint="Parallelize_CPU, or cpu_device=True, takes devices of the CPU")
    found = [index(one) for one in (range(count if on_gpu else cpu_count()) if devices is None else devices)]
    if not found or len(set(found)) < len(found):
        raise ArgumentError(f"devices = {found}: different numbers, one at least")
    if on_gpu and max(found) >= count:
        log.warning("Only %d GPUs available, GPUs %s requested", count, found)
    return found


def _set_type(model: Any, net: Any, net_type: str, num_threads_per_device: int) -> None:
    """Say how a net runs; collective operators, which wait, have threads beside those of the devices."""
    proto = net.Proto()
    proto.num_workers = len(model._devices) * num_threads_per_device + (0 if model._rendezvous is None else 8)
    proto.type = net_type


def _share(model: Any, shared_model: bool) -> None:
    """Note whether all devices have the parameters of the first."""
    assert not shared_model or not core.IsGPUDeviceType(model._device_type), "devices of the CPU can share parameters"
    model._shared_model = shared_model


def _loss_scale(model: Any) -> float:
    ranks = 1 if model._rendezvous is None else model._rendezvous["num_shards"]
    return 1.0 / (len(model._devices) * ranks)


def _for_each_scoped(model: Any, act: Callable[[int], Any]) -> None:
    for_each_device(model._devices, act, model._device_type, model._device_prefix, True)


def _add_layers(
    model: Any, inputs: Callable[[Any], Any], layers: Callable[[Any, float], Any], updates: bool
) -> dict[int, list[Any]]:
    """Add the part of each device up to its losses, and return these."""
    log.info("Create input and model training operators")
    losses: dict[int, list[Any]] = {}

    def add(device: int) -> None:
        log.info("Model for %s : %d", model._device_prefix.upper(), device)
        inputs(model)
        found = layers(model, _loss_scale(model))
        assert not updates or isinstance(found, list), "the function that adds the layers returns a list of losses"
        losses[device] = found

    _for_each_scoped(model, add)
    return losses


def _group_params(model: Any, apart: Sequence[Any]) -> None:
    """Note which parameters of the devices belong together."""
    blobs_of.validate_params(model.params)
    params = blobs_of.group_by_device(model, model._devices, model.params, apart)
    computed = blobs_of.group_by_device(model, model._devices, model.GetComputedParams(""), apart)
    model._device_grouped_blobs = OrderedDict([*params.items(), *computed.items()])
    model._param_names, model._computed_param_names = [*params, *computed], list(computed)


def _add_gradients(model: Any, losses: dict[int, list[Any]], apart: Sequence[Any], combine_spatial_bn: bool) -> None:
    """Add the backward passes, and note which gradients belong together."""
    log.info("Adding gradient operators")
    model._losses_by_gpu = losses
    _AddGradientOperators(model._devices, model, losses)
    blobs_of.validate_params(model.params)
    kept = [grad for param, grad in model.param_to_grad.items() if param not in apart]
    grads = blobs_of.group_by_device(model, model._devices, kept, [])
    model._device_grouped_blobs.update(grads)
    model._grad_names = list(grads)
    if combine_spatial_bn:
        interleave_ops(model)
        combine_batch_norm(model)


def _AddGradientOperators(devices: Sequence[int], model: Any, losses_by_gpu: Mapping[int, Sequence[Any]]) -> None:
    begun: dict[str, str] = {}
    for device in devices:
        with core.DeviceScope(core.DeviceOption(model._device_type, device)):
            for loss in losses_by_gpu[device]:
                made = model.ConstantFill(loss, core.BlobReference(f"{loss}_grad"), value=1.0)
                begun[str(loss)] = str(made)
    model.AddGradientOperators(begun)


def _sum_gradients(model: Any, broadcast_computed_params: bool, use_nccl: bool, most_at_once: int) -> None:
    """Add what makes gradients, and statistics, those of all devices and ranks."""
    blobs_of.infer_blob_device(model)
    if broadcast_computed_params:
        collectives.broadcast_computed_params(model._devices, model, model._rendezvous, use_nccl)
    if model._grad_names:
        log.info("Add gradient all-reduces for SyncSGD")
        names = blobs_of.reverse_ordered_grads(model)
        args = model._devices, model, model.net, model._rendezvous, use_nccl, most_at_once
        collectives.all_reduce_blobs(names, *args)


def _add_updates(model: Any, of_device: Callable[[Any], Any] | None, of_all: Callable[[Any], Any] | None) -> None:
    """Add the updates; where parameters are shared, those of the first device alone."""
    log.info("Post-iteration operators for updating params")
    params = list(model.params)
    if model._shared_model:
        blobs_of.prune_parameters_for_sharing(model)
    if of_all is not None:
        model._optimizer = of_all(model)
    elif of_device is not None:
        _for_each_scoped(model, lambda device: of_device(model))
    if model._shared_model:
        blobs_of.remap_parameter_blobs_for_shared_model(model, params)


def _add_first_values(model: Any) -> None:
    """Let all devices of all ranks begin alike."""
    log.info("Add initial parameter sync")
    blobs, names = blobs_of.compute_blobs_to_sync(model)
    model._device_grouped_blobs.update(blobs_of.group_by_device(model, model._devices, blobs, []))
    blobs_of.infer_blob_device(model)
    blobs_of.analyze_operators(model)
    init_net = model.param_init_net
    collectives.sync_all_params(model._devices, model, init_net, init_net, model._rendezvous, names, 1)
    model.net.AddArgument("first_iter_only_one_worker", 1)


def _note_nets(model: Any, barrier_net_timeout_sec: float | None) -> None:
    """Note what `RunInitNet` and `RunNet` run."""
    model._data_parallel_model_init_nets = [model.param_init_net]
    model._data_parallel_model_nets = [model.net]
    if barrier_net_timeout_sec is not None:
        running.add_barrier_to_model_nets(model, barrier_net_timeout_sec)


# -- memory ------------------------------------------------------------------------------------------------------------


def _save_memory(model: Any, shares: bool, frees: bool, blobs_to_keep: Sequence[Any] | None) -> None:
    """Let gradients share memory, or blobs be freed."""
    if shares:
        _OptimizeGradientMemorySimple(model, model._losses_by_gpu, model._devices)
    if frees:
        _AddDynamicMemoryOptimization(model, blobs_to_keep, model._devices)


def _OptimizeGradientMemorySimple(model: Any, losses_by_gpu: Mapping[int, Sequence[Any]], devices: Any) -> None:
    memonger: Any = import_module("caffe2.python.memonger")
    for device in devices:
        model.net._net = memonger.share_grad_blobs(
            model.net,
            losses_by_gpu[device],
            set(model.param_to_grad.values()),
            blobs_of.scope_of(model, device),
            share_activations=False,
        )


def _AddDynamicMemoryOptimization(model: Any, blobs_to_keep: Sequence[Any] | None, devices: Sequence[int]) -> None:
    memonger: Any = import_module("caffe2.python.memonger")
    given: Sequence[Any] = () if blobs_to_keep is None else blobs_to_keep
    kept = {blobs_of.scope_of(model, device) + str(blob) for device in devices for blob in given}
    model.net._net = memonger.release_blobs_when_used(model.net.Proto(), kept)


def OptimizeGradientMemory(
    model: Any, input_shapes: Mapping[str, Sequence[int]], excluded_blobs: Iterable[Any], recycle_activations: bool
) -> None:
    """Let gradients share memory.

    Args:
        model: made by `Parallelize`.
        input_shapes: the shapes of what is fed, by names without devices.
        excluded_blobs: those that share nothing, without devices.
        recycle_activations: let what layers give share it too, where gradients no longer need it.
    """
    memonger: Any = import_module("caffe2.python.memonger")
    shapes_of_inputs = {
        blobs_of.scope_of(model, device) + name: list(shape)
        for device in model._devices
        for name, shape in input_shapes.items()
    }
    shapes, _ = workspace.InferShapesAndTypes([model.param_init_net, model.net], shapes_of_inputs)
    for device in model._devices:
        begin = blobs_of.scope_of(model, device)
        model.net._net = memonger.share_grad_blobs(
            model.net,
            model._losses_by_gpu[device],
            set(model.param_to_grad.values()),
            begin,
            dont_share_blobs={begin + str(blob) for blob in excluded_blobs},
            share_activations=recycle_activations,
            blob_shapes=shapes,
        )


# -- blocks ------------------------------------------------------------------------------------------------------------


def Parallelize_GPU_BMUF(*args: Any, **kwargs: Any) -> None:
    """Let a model learn in blocks on several GPUs; see `Parallelize_BMUF`."""
    kwargs["cpu_device"] = False
    Parallelize_BMUF(*args, **kwargs)


def Parallelize_CPU_BMUF(*args: Any, **kwargs: Any) -> None:
    """Let a model learn in blocks on several devices of the CPU; see `Parallelize_BMUF`."""
    kwargs["cpu_device"] = True
    Parallelize_BMUF(*args, **kwargs)


def Parallelize_BMUF(
    model_helper_obj: Any,
    input_builder_fun: Callable[[Any], Any],
    forward_pass_builder_fun: Callable[[Any, float], Any],
    param_update_builder_fun: Callable[[Any], Any],
    block_learning_rate: float = 1.0,
    block_momentum: float | None = None,
    devices: Iterable[int] | None = None,
    rendezvous: Mapping[str, Any] | None = None,
    net_type: str = "dag",
    master_device: int | None = None,
    use_nccl: bool = False,
    nesterov: bool = False,
    optimize_gradient_memory: bool = False,
    reset_momentum_sgd: bool = False,
    warmup_iterations: int | None = None,
    max_concurrent_distributed_ops: int = 4,
    add_blobs_to_sync: Sequence[Any] | None = None,
    num_threads_per_device: int = 4,
    cpu_device: bool = False,
    barrier_net_timeout_sec: float = _DEFAULT_BARRIER_NET_TIMEOUT_SEC,
) -> None:
    """Let a model learn on several devices by themselves, and filter the mean of what they learned behind each block.

    A block is a call of `RunNet`. See `Parallelize` for what is not told here.

    Args:
        model_helper_obj: an empty model.
        input_builder_fun: adds what reads a batch.
        forward_pass_builder_fun: adds the layers, and returns a list of losses.
        param_update_builder_fun: adds updates of the parameters of one device.
        block_learning_rate: what the change of a block is multiplied by.
        block_momentum: what is kept of the last change; by default 1 - 1 / devices of all ranks.
        devices: their numbers; all of the machine by default.
        rendezvous: what ranks need to meet.
        net_type: of the nets.
        master_device: which device filters, the first by default.
        use_nccl: let NCCL sum on GPUs.
        nesterov: filter in Nesterov's form.
        optimize_gradient_memory: let gradients share memory.
        reset_momentum_sgd: let momenta of the devices begin anew behind each block.
        warmup_iterations: steps of `RunWarmup`.
        max_concurrent_distributed_ops: sums over ranks that run at once.
        add_blobs_to_sync: further blobs that all devices get from the first behind each block, without devices.
        num_threads_per_device: threads of the nets, for each device.
        cpu_device: devices of the CPU.
        barrier_net_timeout_sec: seconds that ranks wait for all before each block.

    Raises:
        AssertionError: in the scope of a GPU; losses that are no list.
        ArgumentError, UnavailableError: no devices, or what the functions add differs from device to device.
    """
    model = model_helper_obj
    _begin(model, devices, rendezvous, CPU if cpu_device else CUDA)
    master = model._devices[0] if master_device is None else master_device
    bmuf.check_master(model._devices, master)
    count = round(1.0 / _loss_scale(model))
    momentum = 1.0 - 1.0 / count if block_momentum is None else block_momentum
    block = bmuf.Block(model, count, block_learning_rate, momentum, nesterov, master, max_concurrent_distributed_ops)
    _set_type(model, model.net, net_type, num_threads_per_device)
    _add_local_training(model, input_builder_fun, forward_pass_builder_fun, param_update_builder_fun)
    first, behind = _block_net(model, "global_model_init"), _block_net(model, "global_model")
    model._global_model_init_net, model._global_model_param_updates_net = first, behind
    bmuf.add_first_values(block, first)
    if warmup_iterations is not None:
        model._warmup_iterations = warmup_iterations
        model._warmup_broadcast = _block_net(model, "warmup-broadcast")
        bmuf.add_warmup(block, model._warmup_broadcast)
    bmuf.add_updates(block, behind, use_nccl, add_blobs_to_sync)
    if reset_momentum_sgd:
        bmuf.reset_momentum(model.net.Proto().op, behind)
    if optimize_gradient_memory:
        _OptimizeGradientMemorySimple(model, model._losses_by_gpu, model._devices)
    _note_nets(model, None)
    model._data_parallel_model_init_nets.append(first)
    model._data_parallel_model_nets.append((behind, 1))
    running.add_barrier_to_model_nets(model, barrier_net_timeout_sec)


def _add_local_training(model: Any, inputs: Any, layers: Any, updates: Any) -> None:
    """Add the part of each device up to its updates."""
    losses = _add_layers(model, inputs, layers, True)
    model._device_grouped_blobs = blobs_of.group_by_device(model, model._devices, model.params, [])
    model._param_names, model._computed_param_names = list(model._device_grouped_blobs), []
    model._losses_by_gpu = losses
    _AddGradientOperators(model._devices, model, losses)
    blobs_of.infer_blob_device(model)
    _for_each_scoped(model, lambda device: updates(model))


def _block_net(model: Any, name: str) -> Any:
    """Return an empty net that runs as that of the model does."""
    made = core.Net(name)
    made.Proto().type, made.Proto().num_workers = model.net.Proto().type, model.net.Proto().num_workers
    return made
