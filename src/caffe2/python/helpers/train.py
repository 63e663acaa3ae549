"""What belongs to training: counters, accuracy, weight decay."""

from __future__ import annotations

from typing import Any

from caffe2.proto import caffe2_pb2
from caffe2.python import core, scope


def _get_weights(model: Any, namescope: str | None = None) -> list[Any]:
    wanted = scope.CurrentNameScope() if namescope is None else namescope
    return [weight for weight in model.weights if wanted == "" or weight.GetNameScope() == wanted]


def iter(model: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Count the runs of the net, on the CPU."""
    kwargs.pop("device_option", None)
    model.param_init_net.ConstantFill(
        [],
        blob_out,
        shape=[1],
        value=0,
        dtype=core.DataType.INT64,
        device_option=core.DeviceOption(caffe2_pb2.CPU, 0),
        **kwargs,
    )
    return model.net.Iter(blob_out, blob_out, **kwargs)


def accuracy(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> None:
    """Count the right answers; under CUDA what is more than the first answer is counted on the CPU. Returns nothing."""
    device = scope.CurrentDeviceScope()
    on_gpu = device is not None and core.IsGPUDeviceType(device.device_type)
    if not on_gpu or "top_k" not in kwargs or kwargs["top_k"] <= 1:
        model.net.Accuracy(blob_in, blob_out)
        return
    host = [model.net.CopyGPUToCPU(blob, blob + "_host") for blob in blob_in]
    with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, 0)):
        model.net.Accuracy(host, blob_out, **kwargs)


def add_weight_decay(model: Any, weight_decay: float) -> None:
    """Add a share of each weight in the current scope to its gradient; nothing where it is not positive."""
    if weight_decay <= 0.0:
        return
    decay = model.param_init_net.ConstantFill([], "wd", shape=[1], value=weight_decay)
    one = model.param_init_net.ConstantFill([], "ONE", shape=[1], value=1.0)
    for param in _get_weights(model):
        grad = model.param_to_grad[param]
        model.net.WeightedSum([grad, one, param, decay], grad)
