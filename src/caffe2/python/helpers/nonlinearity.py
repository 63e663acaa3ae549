"""Functions of each element."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import Fill, filled, with_engine


def prelu(
    model: Any, blob_in: Any, blob_out: Any, num_channels: int = 1, slope_init: Fill | None = None, **kwargs: Any
) -> Any:
    """Keep what is positive, and a learned share of the rest; further arguments are dropped."""
    del kwargs
    slope = filled(model, blob_out + "_slope", [num_channels], slope_init or ("ConstantFill", {"value": 0.25}))
    return model.net.PRelu([blob_in, slope], [blob_out])


def relu(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any) -> Any:
    """Keep what is positive."""
    return model.net.Relu(blob_in, blob_out, order=order, **with_engine(use_cudnn, kwargs))


def tanh(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any) -> Any:
    """Apply the hyperbolic tangent."""
    return model.net.Tanh(blob_in, blob_out, order=order, **with_engine(use_cudnn, kwargs))
