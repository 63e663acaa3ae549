"""Images and videos from databases."""

from __future__ import annotations

from typing import Any


def image_input(
    model: Any, blob_in: Any, blob_out: Any, order: str = "NCHW", use_gpu_transform: bool = False, **kwargs: Any
) -> Any:
    """Read images and labels; `is_test` has to be said."""
    assert "is_test" in kwargs, "Argument 'is_test' is required"
    if order != "NCHW":
        return model.net.ImageInput(blob_in, blob_out, **kwargs)
    if use_gpu_transform:
        return model.net.ImageInput(blob_in, blob_out, **kwargs, use_gpu_transform=1)
    outputs = list(blob_out)
    images = outputs[0]
    outputs[0] = images + "_nhwc"
    read = list(model.net.ImageInput(blob_in, outputs, **kwargs))
    return tuple([model.net.NHWC2NCHW(read[0], images), *read[1:]])


def video_input(model: Any, blob_in: Any, blob_out: Any, **kwargs: Any) -> Any:
    """Read videos and labels."""
    return model.net.VideoInput(blob_in, blob_out, **kwargs)
