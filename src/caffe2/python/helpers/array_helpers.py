"""Joining blobs."""

from __future__ import annotations

from typing import Any


def concat(model: Any, blobs_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Join blobs along `axis`, or along the channels of `order`."""
    if kwargs.get("order") and kwargs.get("axis"):
        kwargs.pop("order")
    return model.net.Concat(blobs_in, [blob_out, "_" + blob_out + "_concat_dims"], **kwargs)[0]


def depth_concat(model: Any, blobs_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Refuse: it was taken out, and called `concat` without a model."""
    print("DepthConcat is deprecated. use Concat instead.")
    return concat(blobs_in, blob_out, **kwargs)  # pyright: ignore[reportCallIssue] -- as it was
