"""Blobs of a model that runs on several devices: what belongs to which device, and which blobs belong together.

A blob `fc_w` of device 1 is called `cpu_1/fc_w`: the prefix of the kind of device, its number, and the name. Blobs of
one name make a group, `{0: cpu_0/fc_w, 1: cpu_1/fc_w}`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from caffe2.python import core, model_helper, scope
from tazza.errors import ArgumentError
from tazza.operator.nested import nested_nets, rename_blobs
from tazza.proto import DeviceOption, NetDef, OperatorDef

SEPARATOR = scope._NAMESCOPE_SEPARATOR  # pyright: ignore[reportPrivateUsage]
CPU, CUDA, IDEEP = 0, 1, 5
PREFIXES = {CPU: "cpu", CUDA: "gpu", IDEEP: "ideep"}


def stripBlobName(param: Any) -> str:
    """Return a name without its device: `cpu_0/fc_w` is `fc_w`, a gradient of rows is `<indices>:<values>`.

    Raises:
        ArgumentError: it has no device.
    """
    if isinstance(param, core.GradientSlice):
        return f"{stripBlobName(param.indices)}:{stripBlobName(param.values)}"
    _, found, rest = str(param).partition(SEPARATOR)
    if not found:
        raise ArgumentError(f"blob {str(param)!r} has no scope of a device, such as 'cpu_0/'")
    return rest


def noted(model: Any, name: str) -> Any:
    """Return an attribute of a model; None where it has none, which it would take for the type of an operator."""
    return cast("dict[str, Any]", vars(model)).get(name)


def without_device(model: Any, blob: Any) -> str:
    """Return a name without the scope of one of the devices, where it has one."""
    name = str(blob)
    scoped = any(name.startswith(scope_of(model, device)) for device in model._devices)
    return stripBlobName(name) if scoped else name


def scope_of(model: Any, device: int) -> str:
    """Return what the names of a device's blobs begin with."""
    return f"{model._device_prefix}_{device}{SEPARATOR}"


def outside(model: Any, blobs: Iterable[Any]) -> list[Any]:
    """Return those of some blobs that are in the scope of no device."""
    return [blob for blob in blobs if without_device(model, blob) == str(blob)]


def on_device(model: Any, device: int, name: str) -> Any:
    """Return the blob of a name on a device."""
    return core.BlobReference(scope_of(model, device) + name)


def on_all(model: Any, name: str) -> dict[int, Any]:
    """Return the group of a name."""
    return {device: on_device(model, device, name) for device in model._devices}


def for_each_device(
    devices: Iterable[int],
    f: Callable[..., Any],
    device_type: int,
    device_prefix: str,
    scoped: bool = False,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Call a function with each device, in its scope of devices; with `scoped` in that of names too."""
    for device in devices:
        with core.DeviceScope(core.DeviceOption(device_type, device)):
            if scoped:
                with core.NameScope(f"{device_prefix}_{device}"):
                    f(device, *args, **kwargs)
            else:
                f(device, *args, **kwargs)


# -- where a blob is ---------------------------------------------------------------------------------------------------


def infer_blob_device(model: Any) -> None:
    """Note where each blob of the nets is: where the first operator runs that mentions it."""
    found: dict[str, DeviceOption] = {}
    for net in (model.param_init_net, model.net):
        for op in net.Proto().op:
            option = core.DeviceOption(CPU) if op.type == "Iter" else op.device_option
            for name in (*op.input, *op.output):
                found.setdefault(name, option)
    model._blob_to_device = found


def kind_of_blob(model: Any, blob_name: Any) -> int:
    """Return the kind of device where a blob is, named with its device or without."""
    name = str(blob_name)
    for one in (name, scope_of(model, model._devices[0]) + name):
        if one in model._blob_to_device:
            return int(model._blob_to_device[one].device_type)
    return int(model._device_type)


def is_ideep_blob(model: Any, blob_name: Any) -> bool:
    """Whether a blob is where IDEEP ran."""
    return kind_of_blob(model, blob_name) == IDEEP


def is_gpu_blob(model: Any, blob_name: Any) -> bool:
    """Whether a blob is on a GPU."""
    return core.IsGPUDeviceType(kind_of_blob(model, blob_name))


def analyze_operators(model: Any) -> None:
    """Check that operators on a GPU mention blobs of no other, but for those that move them.

    Raises:
        ArgumentError: one does.
    """
    for op in model.Proto().op:
        if _moves(op) or not core.IsGPUDeviceType(op.device_option.device_type):
            continue
        own = scope_of(model, op.device_option.device_id)
        for name in (*op.input, *op.output):
            if name.startswith(f"{model._device_prefix}_") and not name.startswith(own):
                raise ArgumentError(
                    f"{op.type} runs on GPU {op.device_option.device_id}, and {name!r} is not in {own!r}"
                )


def _moves(op: OperatorDef) -> bool:
    """Whether an operator brings blobs from one device to another."""
    collects = "Allreduce" in op.type and "GLOO" in op.engine
    sums = op.type == "Sum" and op.name == "dpm"
    return collects or sums or any(word in op.type for word in ("NCCL", "Copy", "Concat"))


# -- groups ------------------------------------------------------------------------------------------------------------


def group_by_device(
    model: Any, devices: Sequence[int], params: Iterable[Any], non_data_params: Iterable[Any]
) -> OrderedDict[str, dict[int, Any]]:
    """Return the groups of parameters, or of what belongs to them, but for those that are not per device.

    Raises:
        ArgumentError: a device has no blob of a group, or a blob is on none of the devices.
    """
    apart = {_first_name(one) for one in non_data_params}
    groups: OrderedDict[str, dict[int, Any]] = OrderedDict()
    scopes = {scope_of(model, device): device for device in devices}
    for param in params:
        name = _first_name(param)
        if name in apart:
            continue
        begin = name.partition(SEPARATOR)[0] + SEPARATOR
        if begin not in scopes:
            raise ArgumentError(f"blob {name!r} is in the scope of no device: {', '.join(scopes)}")
        groups.setdefault(stripBlobName(param), {})[scopes[begin]] = param
    for name, group in groups.items():
        if len(group) != len(devices):
            raise ArgumentError(f"{name!r} is there on the devices {sorted(group)}, and not on all of {list(devices)}")
    return OrderedDict((name, {device: group[device] for device in devices}) for name, group in groups.items())


def _first_name(param: Any) -> str:
    return str(param.indices if isinstance(param, core.GradientSlice) else param)


def validate_params(params: Iterable[Any]) -> None:
    """Check that no parameter is there twice.

    Raises:
        ArgumentError: one is.
    """
    names = list(map(str, params))
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ArgumentError(f"parameters that the model has twice: {', '.join(twice)}")


def initialized_blobs(model: Any) -> list[str]:
    """Return the blobs of all devices that the net of initial values makes, sorted.

    Raises:
        ArgumentError: it does not make all parameters.
    """
    begin = f"{model._device_prefix}_"
    made = {name for op in model.param_init_net.Proto().op for name in op.output if name.startswith(begin)}
    absent = set(model._param_names) - set(map(stripBlobName, made))
    if absent:
        raise ArgumentError(f"parameters that the net {model.param_init_net.Name()!r} does not make: {sorted(absent)}")
    return sorted(made)


def compute_blobs_to_sync(model: Any) -> tuple[list[Any], Any]:
    """Return the blobs that all devices begin with alike, and their names without devices."""
    if model._shared_model:
        begin = f"{model._device_prefix}_"
        computed = [param for param in model.GetComputedParams("") if str(param).startswith(begin)]
        return computed, [stripBlobName(param) for param in computed]
    blobs = initialized_blobs(model)
    return [core.BlobReference(name) for name in blobs], set(map(stripBlobName, blobs))


def GetCheckpointParams(model: Any) -> set[Any]:
    """Return the blobs that a checkpoint needs: those of the first device, and the counters of iterations."""
    own = scope_of(model, model._devices[0])
    found = {core.BlobReference(name) for name in initialized_blobs(model) if name.startswith(own)}
    found.update(model.GetComputedParams(own))
    counters = [op.output[0] for op in model.net.Proto().op if op.type in {"Iter", "AtomicIter"}]
    return found.union(name for name in counters if not name.startswith(f"{model._device_prefix}_"))


def GetLearningRateBlobNames(model: Any) -> list[str]:
    """Return the blobs of the learning rates."""
    optimizer = noted(model, "_optimizer")
    if optimizer is None:
        return list(dict.fromkeys(op.output[0] for op in model.net.Proto().op if op.type == "LearningRate"))
    if core.IsGPUDeviceType(model._device_type):
        return [optimizer.get_gpu_blob_name("lr", gpu, "") for gpu in model._devices]
    return [optimizer.get_cpu_blob_name("lr")]


def reverse_ordered_grads(model: Any) -> list[str]:
    """Return the names of the gradients: those of the last layers first, which are there first."""
    return list(reversed(model._grad_names))


# -- parameters that all devices share ---------------------------------------------------------------------------------


def prune_parameters_for_sharing(model: Any) -> None:
    """Forget the parameters of all devices but the first."""
    assert model._shared_model, "parameters are shared where the model says so"
    own = scope_of(model, model._devices[0])
    model.params = model.GetParams(own)
    model.param_to_grad = {param: grad for param, grad in model.param_to_grad.items() if str(param).startswith(own)}
    model.weights = [one for one in model.weights if str(one).startswith(own)]
    model.biases = [one for one in model.biases if str(one).startswith(own)]


def remap_parameter_blobs_for_shared_model(model: Any, all_params: Iterable[Any]) -> None:
    """Let all devices read the parameters of the first, which alone are made."""
    assert model._shared_model, "parameters are shared where the model says so"
    own = scope_of(model, model._devices[0])
    others = {str(param): own + stripBlobName(param) for param in all_params if not str(param).startswith(own)}
    for net in (model.param_init_net, model.net):
        proto = net.Proto()
        kept = [op for op in proto.op if not op.output or not others.keys() >= set(op.output)]
        for op in kept:
            rename_blobs(op, others)
        made = NetDef(op=kept)
        del proto.op[:]
        proto.op.extend(made.op)


# -- nets of one device ------------------------------------------------------------------------------------------------


def ConvertNetForDevice(net: Any, device: Any = None) -> Any:
    """Return a copy of a net for a device, that of the scope by default: its blobs get the prefix of the device.

    Raises:
        ArgumentError: there is no device.
        NotImplementedError: the net has a recurrent operator.
    """
    option = scope.CurrentDeviceScope() if device is None else device
    if option is None:
        raise ArgumentError("for which device is not said", hint="give one, or enter its scope: core.DeviceScope")
    begin = f"{PREFIXES[option.device_type]}_{option.device_id}{SEPARATOR}"
    proto = NetDef()
    proto.CopyFrom(net.Proto())
    for names in (proto.external_input, proto.external_output):
        names[:] = [begin + name for name in names]
    for op in proto.op:
        if "RecurrentNetwork" in op.type:
            raise NotImplementedError(f"{op.type} names blobs in its steps, which are not brought to a device")
        rename_blobs(op, {name: begin + name for name in _mentioned(op)})
        op.device_option.CopyFrom(option)
    made = core.Net(proto)
    made.Proto().name = proto.name  # it is added to another net, and keeps its name
    return made


def _mentioned(op: OperatorDef) -> set[str]:
    """Return all blobs that an operator names, in nets within too."""
    found = {*op.input, *op.output, *op.control_input}
    for net in nested_nets(op):
        found.update(net.external_input, net.external_output)
        for inner in net.op:
            found |= _mentioned(inner)
    return found


def ExtractPredictorNet(model: Any, inputs: Sequence[Any], outputs: Sequence[Any], device: Any) -> Any:
    """Return a net that predicts, of the first device, without its scope at inputs and outputs; and what it needs."""
    own = scope_of(model, model._devices[0])
    renames = {f"{own}{one}": str(one) for one in (*inputs, *outputs)}
    return model_helper.ExtractPredictorNet(
        net_proto=model.net.Proto(),
        input_blobs=[f"{own}{one}" for one in inputs],
        output_blobs=[f"{own}{one}" for one in outputs],
        device=device,
        renames=renames,
    )
