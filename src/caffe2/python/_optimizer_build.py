"""Optimizers for all parameters of a model, each update on the device of its parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace
from caffe2.python._optimizer_adagrad import AdagradOptimizer
from caffe2.python._optimizer_adaptive import (
    AdadeltaOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GFtrlOptimizer,
    RmsPropOptimizer,
    StormOptimizer,
    WngradOptimizer,
    YellowFinOptimizer,
)
from caffe2.python._optimizer_sgd import (
    FP16SgdOptimizer,
    MultiPrecisionSgdOptimizer,
    SgdOptimizer,
    WeightDecayBuilder,
)

_LEARNING_RATE_INJECTION = "lr_injection"


def _get_param_to_device(model: Any) -> dict[str, Any]:
    """Return where the blobs of a model lie that its nets make or read as parameters."""
    found: dict[str, Any] = core.InferBlobDevices(model.net)
    found.update(core.InferBlobDevices(model.param_init_net))
    return found


def get_param_device(
    param_name: str, grad: Any, param_to_device: Mapping[str, Any] | None = None, default_device: Any = None
) -> Any:
    """Return where a parameter lies, or its gradient, or the default."""
    known = param_to_device or {}
    gradient = grad.values if isinstance(grad, core.GradientSlice) else grad
    device = known.get(param_name, known.get(str(gradient), default_device))
    assert device is not None, f"Cannot infer device for {param_name}: no op creates it"
    return device


def get_lr_injection() -> Any:
    """Return what learning rates are scaled by from outside."""
    return workspace.FetchBlob(_LEARNING_RATE_INJECTION)


def set_lr_injection(lr_injection_value: Any) -> None:
    """Scale learning rates from now on."""
    workspace.FeedBlob(_LEARNING_RATE_INJECTION, np.array([float(lr_injection_value)], dtype=np.float32))


def _cpu() -> Any:
    return core.DeviceOption(caffe2_pb2.CPU)


def _calc_norm_ratio(
    model: Any, params: Sequence[Any], name_scope: str, param_to_device: Mapping[str, Any], max_gradient_norm: float
) -> Any:
    """Return a blob by which steps are scaled so that the norm of all gradients together stays below a bound."""
    net = model.net
    with core.NameScope(name_scope):
        sums: list[Any] = []
        for count, param in enumerate(params):
            with core.DeviceScope(get_param_device(str(param.blob), param.grad, param_to_device, _cpu())):
                grad = param.grad.values if isinstance(param.grad, core.GradientSlice) else param.grad
                squares = net.SumSqrElements(grad, f"grad_{count}_squared_sum")
                sums.append(net.EnsureCPUOutput(squares))
        with core.DeviceScope(_cpu()):
            whole = net.Sum(sums, "grad_squared_full_sum")
            norm = net.Pow(whole, "global_norm", exponent=0.5)
            bound = model.param_init_net.ConstantFill([], "clip_norm", shape=[], value=float(max_gradient_norm))
            return net.Div([bound, net.Max([norm, bound], "max_norm")], "norm_ratio")


def _injected(model: Any, lr_multiplier: Any) -> Any:
    """Return a multiplier of learning rates that can be fed from outside too."""
    net, name = model.net, _LEARNING_RATE_INJECTION
    if net.BlobIsDefined(name):
        injected = net.GetBlobRef(name)
    else:
        injected = model.param_init_net.ConstantFill([], name, shape=[1], value=1.0)
    if lr_multiplier is None:
        return injected
    return net.Mul([lr_multiplier, injected], "lr_multiplier", broadcast=1)


def _build(
    model: Any,
    optimizer: Any,
    weights_only: bool = False,
    use_param_info_optim: bool = True,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
) -> Any:
    """Add the updates of all parameters that have gradients; parameters with optimizers of their own use these."""
    devices = _get_param_to_device(model)
    model.Validate()
    params = [info for info in model.GetOptimizationParamInfo() if not weights_only or info.blob in model.weights]
    multiplier: Any = None
    if max_gradient_norm is not None:
        multiplier = _calc_norm_ratio(model, params, "norm_clipped_grad_update", devices, max_gradient_norm)
    if allow_lr_injection:
        multiplier = _injected(model, multiplier)
    optimizer.add_lr_multiplier(multiplier)
    for info in params:
        with core.DeviceScope(get_param_device(info.name, info.grad, devices, _cpu())):
            own = info.optimizer if use_param_info_optim else None
            (own if own else optimizer)(model.net, model.param_init_net, info)
    return optimizer


def add_weight_decay(model: Any, weight_decay: float) -> None:
    """Add a share of each weight to its gradient; biases keep theirs."""
    _build(model, WeightDecayBuilder(weight_decay=weight_decay), weights_only=True, use_param_info_optim=False)


def build_sgd(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `SgdOptimizer`."""
    made = SgdOptimizer(base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_multi_precision_sgd(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `MultiPrecisionSgdOptimizer`."""
    made = MultiPrecisionSgdOptimizer(base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_fp16_sgd(model: Any, base_learning_rate: float, **kwargs: Any) -> Any:
    """Train by `FP16SgdOptimizer`."""
    return _build(model, FP16SgdOptimizer(base_learning_rate, **kwargs))


def build_ftrl(model: Any, engine: str = "SIMD", **kwargs: Any) -> Any:
    """Train by `FtrlOptimizer`; the engine that is the default was never in a public build."""
    if engine == "SIMD":
        for op_type in ("Ftrl", "SparseFtrl"):
            assert core.IsOperator(f"{op_type}_ENGINE_SIMD"), f"{op_type} has no engine SIMD; give engine=''"
    return _build(model, FtrlOptimizer(engine=engine, **kwargs))


def build_gftrl(model: Any, engine: str = "", **kwargs: Any) -> Any:
    """Train by `GFtrlOptimizer`."""
    if engine == "SIMD":
        assert core.IsOperator("GFtrl_ENGINE_SIMD"), "GFtrl has no engine SIMD; give engine=''"
    return _build(model, GFtrlOptimizer(engine=engine, **kwargs))


def build_adagrad(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `AdagradOptimizer`; `parameters` changes nothing."""
    del parameters
    made = AdagradOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_wngrad(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `WngradOptimizer`; `parameters` changes nothing."""
    del parameters
    made = WngradOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_storm(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `StormOptimizer`; `parameters` changes nothing."""
    del parameters
    made = StormOptimizer(lr=base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_adadelta(
    model: Any,
    base_learning_rate: float,
    parameters: Any = None,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `AdadeltaOptimizer`; `parameters` changes nothing."""
    del parameters
    made = AdadeltaOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_adam(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `AdamOptimizer`."""
    made = AdamOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)


def build_yellowfin(model: Any, base_learning_rate: float = 0.1, **kwargs: Any) -> Any:
    """Train by `YellowFinOptimizer`."""
    return _build(model, YellowFinOptimizer(alpha=base_learning_rate, **kwargs))


def build_rms_prop(
    model: Any,
    base_learning_rate: float,
    max_gradient_norm: float | None = None,
    allow_lr_injection: bool = False,
    **kwargs: Any,
) -> Any:
    """Train by `RmsPropOptimizer`."""
    made = RmsPropOptimizer(alpha=base_learning_rate, **kwargs)
    return _build(model, made, max_gradient_norm=max_gradient_norm, allow_lr_injection=allow_lr_injection)
