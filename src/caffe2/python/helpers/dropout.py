"""Dropout."""

from __future__ import annotations

from typing import Any


def dropout(model: Any, blob_in: Any, blob_out: Any, use_cudnn: bool = False, **kwargs: Any) -> Any:
    """Drop some of the elements; `is_test` has to be said. The engine is "DEFAULT" without cuDNN."""
    assert "is_test" in kwargs, "Argument 'is_test' is required"
    outputs = [blob_out, "_" + blob_out + "_mask"]
    return model.net.Dropout(blob_in, outputs, **kwargs | {"engine": "CUDNN" if use_cudnn else "DEFAULT"})[0]
