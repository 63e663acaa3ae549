"""Dropout."""

from __future__ import annotations

from typing import Any

from caffe2.python.helpers._given import with_engine


def dropout(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Drop some of the elements; `is_test` has to be said."""
    assert "is_test" in kwargs, "Argument 'is_test' is required"
    outputs = [blob_out, "_" + blob_out + "_mask"]
    return model.net.Dropout(blob_in, outputs, **with_engine(use_cudnn, kwargs))[0]
