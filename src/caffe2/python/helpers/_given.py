"""What several helpers do alike: they turn what is meant for cuDNN into an engine, and make parameters."""

from __future__ import annotations

from typing import Any

from caffe2.python import core
from caffe2.python.modeling.parameter_info import ParameterTags

WEIGHT, BIAS, COMPUTED = ParameterTags.WEIGHT, ParameterTags.BIAS, ParameterTags.COMPUTED_PARAM

Fill = tuple[str, dict[str, Any]]
"""A fill operator and its arguments."""


def with_engine(use_cudnn: bool, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of an operator that names cuDNN where it is wanted."""
    return {**arguments, "engine": "CUDNN"} if use_cudnn else arguments


def searching(use_cudnn: bool, exhaustive: bool, limit: int | None, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return arguments of a convolution, with those for cuDNN where it is wanted."""
    if not use_cudnn:
        return arguments
    made = {**arguments, "engine": "CUDNN", "exhaustive_search": exhaustive}
    return {**made, "ws_nbytes_limit": limit} if limit else made


def blob_of(model: Any, name: str, shape: Any, fill: Fill) -> Any:
    """Return a blob that a fill makes, or that comes from outside where the model makes no parameters."""
    if model.init_params:
        return getattr(model.param_init_net, fill[0])([], name, shape=shape, **fill[1])
    return core.ScopedBlobReference(name, model.param_init_net)


def filled(model: Any, name: str, shape: Any, fill: Fill, tag: str | None = None) -> Any:
    """Return a parameter that a fill makes, or that comes from outside."""
    param = blob_of(model, name, shape, fill)
    model.AddParameter(param, tag)
    return param
