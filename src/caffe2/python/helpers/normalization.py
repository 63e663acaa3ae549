"""Normalizations."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import BIAS, COMPUTED, WEIGHT, with_engine
from caffe2.python.modeling import initializers


def lrn(model: Any, blob_in: Any, blob_out: Any, order: str = "NCHW", use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Divide by what lies near in other channels."""
    del use_cudnn
    return model.net.LRN(blob_in, [blob_out, "_" + blob_out + "_scale"], order=order, **kwargs)[0]


def softmax(model: Any, blob_in: Any, blob_out: Any = None, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Turn scores into probabilities; the output is named by the net if it is not named."""
    outputs = [blob_in] if blob_out is None else [blob_in, blob_out]
    return model.net.Softmax(*outputs, **with_engine(use_cudnn, kwargs))


def _constant(model: Any, name: str, value: float, shape: Any, maker: Any, tag: str) -> Any:
    """Return a parameter of one value, or one that comes from outside."""
    made = initializers.update_initializer(maker, None, ("ConstantFill", {"value": value}))
    return model.create_param(name, shape, made if model.init_params else initializers.ExternalInitializer(), tag)


def instance_norm(model: Any, blob_in: Any, blob_out: Any, dim_in: int, order: str = "NCHW", **kwargs: Any) -> Any:
    """Normalize each channel of each image; its parameters are made in any case."""
    blob_out = blob_out or model.net.NextName()

    def parameter(end: str, value: float) -> Any:
        return model.param_init_net.ConstantFill([], blob_out + end, shape=[dim_in], value=value)

    scale, bias = parameter("_s", 1.0), parameter("_b", 0.0)
    model.AddParameter(scale, WEIGHT)
    model.AddParameter(bias, BIAS)
    outputs = [blob_out, blob_out + "_sm", blob_out + "_siv"]
    return model.net.InstanceNorm([blob_in, scale, bias], outputs, order=order, **kwargs)[0]


def spatial_bn(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    ScaleInitializer: Any = None,
    BiasInitializer: Any = None,
    RunningMeanInitializer: Any = None,
    RunningVarianceInitializer: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Normalize each channel over the batch; in test mode by statistics that training kept."""
    blob_out = blob_out or model.net.NextName()
    scale = _constant(model, blob_out + "_s", init_scale, [dim_in], ScaleInitializer, WEIGHT)
    bias = _constant(model, blob_out + "_b", init_bias, [dim_in], BiasInitializer, BIAS)
    mean = _constant(model, blob_out + "_rm", 0.0, [dim_in], RunningMeanInitializer, COMPUTED)
    variance = _constant(model, blob_out + "_riv", 1.0, [dim_in], RunningVarianceInitializer, COMPUTED)
    outputs = [blob_out, mean, variance, blob_out + "_sm", blob_out + "_siv"]
    if kwargs.get("is_test"):
        outputs = [blob_out]
    found = model.net.SpatialBN([blob_in, scale, bias, mean, variance], outputs, order=order, **kwargs)
    return found if len(outputs) == 1 else found[0]


def spatial_gn(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    init_scale: float = 1.0,
    init_bias: float = 0.0,
    ScaleInitializer: Any = None,
    BiasInitializer: Any = None,
    RunningMeanInitializer: Any = None,
    RunningVarianceInitializer: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Normalize groups of channels of each image; `order` does not reach the operator."""
    del RunningMeanInitializer, RunningVarianceInitializer, order
    blob_out = blob_out or model.net.NextName()
    scale = _constant(model, blob_out + "_s", init_scale, [dim_in], ScaleInitializer, WEIGHT)
    bias = _constant(model, blob_out + "_b", init_bias, [dim_in], BiasInitializer, BIAS)
    outputs = [blob_out, blob_out + "_mean", blob_out + "_std"]
    return model.net.GroupNorm([blob_in, scale, bias], outputs, **kwargs)[0]


def layer_norm(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: Any,
    axis: int = 1,
    epsilon: float = 1e-4,
    initial_scale: float = 1.0,
    initial_bias: float = 0.0,
) -> Any:
    """Normalize from `axis` on, then scale and shift each of `dim_in`; returns the mean and the deviation too."""
    shape = dim_in if isinstance(dim_in, list) else [dim_in]  # pyright: ignore[reportUnknownVariableType] -- of anything

    def parameter(end: str, value: float, tag: str) -> Any:
        made = initializers.Initializer("ConstantFill", value=value)
        return model.create_param(f"{blob_out}{end}", shape, made, tag)

    inputs = [blob_in, parameter("_scale", initial_scale, WEIGHT), parameter("_bias", initial_bias, BIAS)]
    outputs = [blob_out, blob_out + "_mean", blob_out + "_std"]
    return model.net.LayerNorm(inputs, outputs, axis=axis, epsilon=epsilon, elementwise_affine=True)


def moments_with_running_stats(
    model: Any,
    blob_in: Any,
    blob_out: Any,
    dim_in: int,
    RunningMeanInitializer: Any = None,
    RunningVarianceInitializer: Any = None,
    order: str = "NCHW",
    **kwargs: Any,
) -> Any:
    """Return mean and variance of each channel; parameters for running ones are made beside them."""
    blob_out = blob_out or model.net.NextName()
    _constant(model, blob_out + "_rm", 0.0, [dim_in], RunningMeanInitializer, COMPUTED)
    _constant(model, blob_out + "_riv", 1.0, [dim_in], RunningVarianceInitializer, COMPUTED)
    outputs = [blob_out + "_sm", blob_out + "_sv"]
    axes = [0, 2, 3] if order == "NCHW" else [0, 1, 2]
    return model.net.Moments([blob_in], outputs, axes=axes, order=order, keepdims=False, **kwargs)
