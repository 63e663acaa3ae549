"""Batch normalization over the batches of all devices: what each layer sums is summed over the devices.

Operators of a net with one part for each device are put in turns, the first of each device, then the second; so the
parts of one layer stand side by side, and what they have in common comes in front of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from caffe2.python import core
from caffe2.python._parallel_blobs import CPU, SEPARATOR, scope_of
from tazza.errors import ArgumentError
from tazza.proto import NetDef, OperatorDef

FORWARD, BACKWARD = "SpatialBN", "SpatialBNGradient"


def interleave_ops(model: Any) -> None:
    """Put the operators of the devices in turns.

    Raises:
        ArgumentError: the devices do not do the same.
    """
    parts: dict[int, list[OperatorDef]] = {device: [] for device in model._devices}
    for op in model.net.Proto().op:
        parts[_device_of(model, op)].append(op)
    counts = {device: len(ops) for device, ops in parts.items()}
    if len(set(counts.values())) > 1:
        raise ArgumentError(f"the devices have unequal numbers of operators ({counts}), nothing stands side by side")
    turns = list(zip(*parts.values(), strict=True))
    for turn in turns:
        if len({op.type for op in turn}) > 1:
            raise ArgumentError(
                f"side by side stand {' and '.join(op.type for op in turn)}: devices do not do the same"
            )
    _set_ops(model, [op for turn in turns for op in turn])


def _device_of(model: Any, op: OperatorDef) -> int:
    """Return the device of an operator, by its blobs, or else by what it says."""
    for name in (*op.output, *op.input):
        for device in model._devices:
            if name.startswith(scope_of(model, device)):
                return device
    if op.device_option.device_id not in model._devices:
        raise ArgumentError(f"{op.type} belongs to none of the devices {list(model._devices)}")
    return op.device_option.device_id


def _set_ops(model: Any, ops: Iterable[OperatorDef]) -> None:
    made = NetDef(op=ops)
    proto = model.net.Proto()
    del proto.op[:]
    proto.op.extend(made.op)


def combine_batch_norm(model: Any) -> None:
    """Let each normalization of the net, and its gradient, count the rows of all devices."""
    made: list[OperatorDef] = []
    for ops in _layers(model.net.Proto().op, len(model._devices)):
        if ops[0].type == FORWARD:
            made += _forward(model, ops)
        elif ops[0].type == BACKWARD:
            made += _backward(model, ops)
        else:
            made += ops
    _set_ops(model, made)


def _layers(ops: Iterable[OperatorDef], count: int) -> Iterator[list[OperatorDef]]:
    """Yield normalizations and their gradients layer by layer, one of each device; others by themselves."""
    held: list[OperatorDef] = []
    for op in ops:
        if op.type not in {FORWARD, BACKWARD}:
            yield [op]
            continue
        held.append(op)
        if len(held) == count:
            yield held
            held = []


def _order(op: OperatorDef) -> dict[str, str]:
    """Return the argument that says that channels come last, where they do."""
    last = any(one.name == "order" and one.s == b"NHWC" for one in op.arg)
    return {"order": "NHWC"} if last else {}


def _forward(model: Any, ops: Sequence[OperatorDef]) -> list[OperatorDef]:
    """Return the layer with sums and sums of squares of all devices for further inputs."""
    made: list[OperatorDef] = []
    for op in ops:
        sums = [f"{op.input[0]}_sums", f"{op.input[0]}_sumsq"]
        place = _place(model, op)
        made.append(core.CreateOperator("ChannelStats", [op.input[0]], sums, device_option=place, **_order(op)))
    for affix in ("_sums", "_sumsq"):
        blobs = [op.input[0] + affix for op in ops]
        made += _total(model, ops, blobs, [f"{blob}_combined" for blob in blobs], copies=False)
    for op in ops:
        source = (op if _on_gpu(model) else ops[0]).input[0]
        op.input.extend([f"{source}_sums_combined", f"{source}_sumsq_combined"])
    return made + _counted(ops)


def _backward(model: Any, ops: Sequence[OperatorDef]) -> list[OperatorDef]:
    """Return the gradient of the layer with the gradients of scale and bias of all devices for further inputs."""
    made: list[OperatorDef] = []
    for op in ops:
        source, _, slope, mean, inv_std = op.input[:5]  # X, scale, dY
        place = _place(model, op)
        if _order(op):  # the operator takes channels to come first, whatever it is told
            for blob in (source, slope):
                made.append(core.CreateOperator("NHWC2NCHW", [blob], [f"{blob}_channels_first"], device_option=place))
            source, slope = f"{source}_channels_first", f"{slope}_channels_first"
        inputs, outputs = [source, mean, inv_std, slope], [op.output[1], op.output[2]]
        made.append(core.CreateOperator("ChannelBackpropStats", inputs, outputs, device_option=place))
    for position in (1, 2):
        blobs = [op.output[position] for op in ops]
        made += _total(model, ops, blobs, blobs, copies=True)
    for op in ops:
        op.input.extend([op.output[1], op.output[2]])
    return made + _counted(ops)


def _counted(ops: Sequence[OperatorDef]) -> list[OperatorDef]:
    for op in ops:
        op.arg.append(core.utils.MakeArgument("num_batches", len(ops)))
    return list(ops)


def _on_gpu(model: Any) -> bool:
    return core.IsGPUDeviceType(model._device_type)


def _place(model: Any, op: OperatorDef) -> Any:
    return op.device_option if _on_gpu(model) else None


def _total(
    model: Any, ops: Sequence[OperatorDef], blobs: Sequence[str], targets: Sequence[str], copies: bool
) -> list[OperatorDef]:
    """Return what sums a blob of each device; each gets it, on the CPU without `copies` the first alone."""
    if not _on_gpu(model):
        total = f"{blobs[0]}_combined"
        made = [core.CreateOperator("Sum", list(blobs), [total])]
        return made + [core.CreateOperator("Copy", [total], [target]) for target in targets if copies]
    name = blobs[0].partition(SEPARATOR)[2]
    begin = f"cpu_{model._devices[0]}{SEPARATOR}{name}"
    brought = [f"{begin}_gpu_{device}_copy" for device in model._devices]
    made = [
        core.CreateOperator("CopyGPUToCPU", [blob], [copy], device_option=op.device_option)
        for op, blob, copy in zip(ops, blobs, brought, strict=True)
    ]
    total = f"{begin}_combined"
    made.append(core.CreateOperator("Sum", brought, [total], device_option=core.DeviceOption(CPU)))
    return made + [
        core.CreateOperator("CopyCPUToGPU", [total], [target], device_option=op.device_option)
        for op, target in zip(ops, targets, strict=True)
    ]
