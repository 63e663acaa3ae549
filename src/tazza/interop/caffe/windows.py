"""Layers of Caffe 1 that go over an image with a window: convolutions and pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast

from tazza.interop.caffe.caffe_pb2 import PoolingParameter
from tazza.interop.caffe.layers import LAYERS, layer, one, weighted
from tazza.interop.caffe.messages import Layer, Translated
from tazza.proto.caffe2_legacy_pb2 import CAFFE_LEGACY_POOLING

__all__ = ["LAYERS", "window"]


class _Window(Protocol):
    """What convolutions and pooling say of a window."""

    kernel_size: Any
    kernel_h: int
    kernel_w: int
    stride: Any
    stride_h: int
    stride_w: int
    pad: Any
    pad_h: int
    pad_w: int

    def HasField(self, field: str) -> bool: ...


def _values(given: Any) -> list[int]:
    """Return what is one number for one layer type, and a list for another."""
    return [int(given)] if isinstance(given, int) else [int(each) for each in given]


def _sides(layer: Layer, given: _Window, part: str, default: int) -> tuple[int, int] | int:
    """Return height and width, or one number for both."""
    name = "kernel_size" if part == "kernel" else part
    if given.HasField(f"{part}_h") or given.HasField(f"{part}_w"):
        return int(getattr(given, f"{part}_h")), int(getattr(given, f"{part}_w"))
    values = _values(getattr(given, name))
    if len(values) > 2:
        raise layer.unsupported(f"{name} for {len(values)} axes")
    if len(values) == 2:
        return values[0], values[1]
    return values[0] if values else default


def window(layer: Layer, settings: Any) -> dict[str, Any]:
    """Return the arguments of stride, padding and kernel of a window over two axes.

    `settings` are those of a convolution or of pooling: one number for both axes, or one for each.
    """
    given = cast("_Window", settings)
    arguments: dict[str, Any] = {}
    _add(arguments, "stride", _sides(layer, given, "stride", 1))
    pad = _sides(layer, given, "pad", 0)
    if isinstance(pad, int) or pad[0] == pad[1]:
        arguments["pad"] = pad if isinstance(pad, int) else pad[0]
    else:
        arguments |= {"pad_t": pad[0], "pad_b": pad[0], "pad_l": pad[1], "pad_r": pad[1]}
    _add(arguments, "kernel", _sides(layer, given, "kernel", 0))
    return arguments


def _add(arguments: dict[str, Any], name: str, sides: tuple[int, int] | int) -> None:
    if isinstance(sides, int):
        arguments[name] = sides
    else:
        arguments |= {f"{name}_h": sides[0], f"{name}_w": sides[1]}


def _dilation(layer: Layer, values: Sequence[int]) -> dict[str, int]:
    if len(values) > 2:
        raise layer.unsupported(f"dilation for {len(values)} axes")
    if len(values) == 2:
        return {"dilation_h": int(values[0]), "dilation_w": int(values[1])}
    return {"dilation": int(values[0])} if values else {}


@layer("Convolution", help="a convolution")
def convolution(layer: Layer) -> Translated:
    """Conv; its bias is there if the trained net has one."""
    given = layer.message.convolution_param
    arguments = window(layer, given) | _dilation(layer, given.dilation)
    if given.group != 1:
        arguments["group"] = int(given.group)
    bias = layer.blobs[1] if len(layer.blobs) > 1 else None
    return weighted(layer, "Conv", layer.blob(0), bias, **arguments)


@layer("Deconvolution", help="a transposed convolution")
def deconvolution(layer: Layer) -> Translated:
    """ConvTranspose."""
    given = layer.message.convolution_param
    if given.group > 1:
        raise layer.unsupported("a transposed convolution in groups")
    if any(each != 1 for each in given.dilation):
        raise layer.unsupported("a transposed convolution with dilation")
    bias = layer.blob(1) if given.bias_term else None
    return weighted(layer, "ConvTranspose", layer.blob(0), bias, **window(layer, given), order="NCHW")


def _pool_type(layer: Layer, method: int) -> str:
    names = {PoolingParameter.MAX: "MaxPool", PoolingParameter.AVE: "AveragePool"}
    if method not in names:
        raise layer.unsupported("stochastic pooling")
    return names[cast("PoolingParameter.PoolMethod", method)]


@layer("Pooling", help="the largest or the mean of windows")
def pooling(layer: Layer) -> Translated:
    """MaxPool or AveragePool; sizes are rounded up, as Caffe 1 did, unless the layer says otherwise."""
    given = layer.message.pooling_param
    arguments = window(layer, given) | {"order": "NCHW"}
    if given.round_mode == PoolingParameter.CEIL:
        arguments["legacy_pad"] = int(CAFFE_LEGACY_POOLING)
    if given.global_pooling:
        arguments["global_pooling"] = 1
    return Translated([one(layer, _pool_type(layer, given.pool), **arguments)])


@layer("ROIPooling", help="the largest of each part of regions")
def roi_pooling(layer: Layer) -> Translated:
    """RoIPool."""
    given = layer.message.roi_pooling_param
    arguments: dict[str, Any] = {"order": "NCHW"}
    if layer.is_test:
        arguments["is_test"] = 1
    for name, convert in (("pooled_h", int), ("pooled_w", int), ("spatial_scale", float)):
        if given.HasField(name):
            arguments[name] = convert(getattr(given, name))
    return Translated([one(layer, "RoIPool", (), [] if layer.is_test else [f"{layer.top}_argmaxes"], **arguments)])


def _clip_window(given: Any) -> dict[str, Any]:
    """Return the arguments of a window over time, rows and columns."""
    pads = [int(given.temporal_pad), int(given.pad), int(given.pad)]
    return {
        "kernels": [int(given.kernel_depth), int(given.kernel_size), int(given.kernel_size)],
        "strides": [int(given.temporal_stride), int(given.stride), int(given.stride)],
        "pads": pads * 2,
    }


@layer("Convolution3D", help="a convolution over clips, of a fork")
def convolution_3d(layer: Layer) -> Translated:
    """Conv over three axes."""
    bias = layer.blobs[1] if len(layer.blobs) > 1 else None
    return weighted(layer, "Conv", layer.blob(0), bias, **_clip_window(layer.message.convolution3d_param))


@layer("Pooling3D", help="the largest or the mean of windows over clips, of a fork")
def pooling_3d(layer: Layer) -> Translated:
    """MaxPool or AveragePool over three axes."""
    given = layer.message.pooling3d_param
    return Translated([one(layer, _pool_type(layer, given.pool), order="NCHW", **_clip_window(given))])
