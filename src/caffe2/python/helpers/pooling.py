"""Pooling."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import with_engine


def max_pool(
    model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """Take the largest of each window."""
    return model.net.MaxPool(blob_in, blob_out, order=order, **with_engine(use_cudnn, kwargs))


def average_pool(
    model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, order: str = "NCHW", **kwargs: Any
) -> Any:
    """Take the mean of each window."""
    return model.net.AveragePool(blob_in, blob_out, order=order, **with_engine(use_cudnn, kwargs))


def max_pool_with_index(model: Any, blob_in: Any, blob_out: Any, order: str = "NCHW", **kwargs: Any) -> Any:
    """Take the largest of each window, and where it was."""
    return model.net.MaxPoolWithIndex(blob_in, [blob_out, blob_out + "_index"], order=order, **kwargs)[0]
