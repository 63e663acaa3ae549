"""A scale and a shift for each column."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import BIAS, WEIGHT, Fill, filled


def elementwise_linear(model: Any, *args: Any, **kwargs: Any) -> Any:
    """Scale and shift each of `dim` columns."""
    return _elementwise_linear(model, model.net.ElementwiseLinear, *args, **kwargs)


def _elementwise_linear(
    model: Any,
    op_call: Any,
    blob_in: Any,
    blob_out: Any,
    dim: int,
    weight_init: Fill | None = None,
    bias_init: Fill | None = None,
    **kwargs: Any,
) -> Any:
    scale = filled(model, blob_out + "_w", [dim], weight_init or ("ConstantFill", {"value": 1.0}), WEIGHT)
    shift = filled(model, blob_out + "_b", [dim], bias_init or ("ConstantFill", {"value": 0.0}), BIAS)
    return op_call([blob_in, scale, shift], blob_out, **kwargs)
