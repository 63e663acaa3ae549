"""The messages of Caffe 1: numbers of fields that its files hold, and the old name of the module."""

from __future__ import annotations

import pytest

from caffe2.proto import caffe_pb2 as old
from tazza.interop.caffe import caffe_pb2
from tazza.interop.caffe.messages import array_of
from tazza.proto.message import parse

# A net with a convolution, byte by byte: name, type, bottom, top, a blob of two numbers in shape (2), then settings.
LAYER = (
    b"\x0a\x01c\x12\x0bConvolution\x1a\x01x\x22\x01y"
    + b"\x3a\x0f\x2a\x08\x00\x00\x80\x3f\x00\x00\x00\x40\x3a\x03\x0a\x01\x02"
)
SETTINGS = b"\xd2\x06\x0a\x08\x02\x18\x01\x20\x03\x30\x02\x28\x01"
BYTES = b"\x0a\x01n\xa2\x06" + bytes([len(LAYER) + len(SETTINGS)]) + LAYER + SETTINGS


def test_bytes_are_those_of_caffe() -> None:
    net = parse(caffe_pb2.NetParameter, BYTES, "a net")
    (layer,) = net.layer
    assert (net.name, layer.name, layer.type, list(layer.bottom), list(layer.top)) == (
        "n",
        "c",
        "Convolution",
        ["x"],
        ["y"],
    )
    assert array_of(layer.blobs[0], "it").tolist() == [1, 2]
    given = layer.convolution_param
    assert (given.num_output, list(given.pad), list(given.kernel_size), list(given.stride), given.group) == (
        2,
        [1],
        [3],
        [2],
        1,
    )


def test_the_old_name_gives_the_same_classes() -> None:
    public = [name for name in vars(caffe_pb2) if not name.startswith("_")]
    assert {"NetParameter", "LayerParameter", "BlobProto", "TRAIN"} <= set(public)
    assert [name for name in public if getattr(old, name) is not getattr(caffe_pb2, name)] == []


@pytest.mark.parametrize(
    ("message", "field", "number"),
    [
        ("NetParameter", "layers", 2),
        ("NetParameter", "layer", 100),
        ("BlobProto", "num", 1),
        ("BlobProto", "data", 5),
        ("BlobProto", "shape", 7),
        ("LayerParameter", "blobs", 7),
        ("LayerParameter", "inner_product_param", 117),
        ("LayerParameter", "pooling_param", 121),
        ("LayerParameter", "batch_norm_param", 139),
        ("LayerParameter", "scale_param", 142),
        ("V1LayerParameter", "blobs", 6),
        ("PoolingParameter", "kernel_size", 2),
        ("PoolingParameter", "pad", 4),
        ("LRNParameter", "local_size", 1),
        ("ConvolutionParameter", "dilation", 18),
    ],
)
def test_fields_have_the_numbers_of_caffe(message: str, field: str, number: int) -> None:
    assert getattr(caffe_pb2, message).DESCRIPTOR.fields_by_name[field].number == number
