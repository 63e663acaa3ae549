"""Pooling that rounds up is pooling with more padding: same shapes, same numbers, and Caffe2's own paddings.

Caffe2's way of finding the padding was recorded by giving its blobs the method that it lacks there (`feed_blob`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza import Workspace
from tazza.errors import FormatError, UnsupportedError
from tazza.interop.caffe import Options, translate
from tazza.interop.caffe.caffe_pb2 import NetParameter
from tazza.interop.caffe.legacy_pad import without_legacy_pad
from tazza.operator import find_argument
from tazza.operator.definition import operator_def
from tazza.proto import NetDef, TensorProtos
from tazza.proto.message import parse_text

PADS = ("pad_l", "pad_t", "pad_r", "pad_b")
SETTINGS = {
    "kernel_size: 3 stride: 2": {8: (0, 0, 0, 1), 9: (0, 0, 1, 0), 10: (0, 0, 0, 1)},
    "kernel_size: 2 stride: 2": {8: (0, 0, 1, 0), 9: (0, 0, 0, 1), 10: (0, 0, 1, 0)},
    "kernel_size: 3 stride: 1": {8: None, 9: None},
    "kernel_size: 3 stride: 2 pad: 1": {8: (1, 1, 1, 2), 9: (1, 1, 2, 1), 10: (1, 1, 1, 2)},
    "kernel_size: 3 stride: 2 pad: 2": {8: None, 9: None},
    "kernel_h: 3 kernel_w: 2 stride_h: 2 stride_w: 2": {8: (0, 0, 1, 1), 9: None, 10: (0, 0, 1, 1)},
    "kernel_size: 3 stride: 2 pad_h: 1 pad_w: 0": {8: (0, 1, 0, 2), 9: (0, 1, 1, 1), 10: (0, 1, 0, 2)},
    "kernel_size: 3 stride_h: 2 stride_w: 3": {8: (0, 0, 0, 1), 10: (0, 0, 1, 1)},
    "pool: AVE kernel_size: 3 stride: 2": {8: (0, 0, 0, 1), 9: (0, 0, 1, 0)},
    "pool: AVE global_pooling: true": {8: None},
}
"""Of images of n rows and n + 1 columns: what is recorded, or None where nothing is added."""


def net_of(settings: str, size: int) -> NetParameter:
    layer = f'layer {{ name: "p" type: "Pooling" bottom: "data" top: "p" pooling_param {{ {settings} }} }}'
    net = parse_text(NetParameter, f'input: "data" {layer}', "a net")
    net.input_dim.extend([2, 3, size, size + 1])
    return net


def run(net: NetDef, size: int) -> Any:
    workspace = Workspace()
    workspace.feed("data", np.random.RandomState(size).uniform(-1, 1, (2, 3, size, size + 1)).astype(np.float32))
    workspace.run_net_once(net)
    return workspace.fetch("p")


@pytest.mark.parametrize("settings", SETTINGS)
def test_paddings_are_those_of_caffe2(settings: str) -> None:
    for size, wanted in SETTINGS[settings].items():
        made = translate(net_of(settings, size), NetParameter(), Options(remove_legacy_pad=True)).net.op[0]
        assert find_argument(made, "legacy_pad") is None
        found = [find_argument(made, name) for name in PADS]
        assert (find_argument(made, "pad") is None) == (wanted is not None or "pad_h" in settings)
        if wanted is not None:
            assert tuple(int(one.i) for one in found if one is not None) == wanted, size


@pytest.mark.parametrize("settings", [one for one in SETTINGS if "pad" not in one])
@pytest.mark.parametrize("size", [8, 9, 10, 11])
def test_numbers_are_the_same(settings: str, size: int) -> None:
    """Caffe2 padded by the number of windows that it lacked, whatever the stride: too little for 3, say."""
    net = net_of(settings, size)
    plain = translate(net, NetParameter(), Options(remove_legacy_pad=True)).net
    np.testing.assert_array_equal(run(plain, size), run(translate(net, NetParameter()).net, size))


def test_the_size_of_images_has_to_be_known() -> None:
    net = net_of("kernel_size: 3 stride: 2", 8)
    del net.input_dim[2:]
    with pytest.raises(FormatError, match=r"the input has shape \[2, 3\]"):
        translate(net, NetParameter(), Options(remove_legacy_pad=True))
    made = translate(net, NetParameter(), Options(remove_legacy_pad=True, input_shape=[1, 3, 8, 8]))
    assert find_argument(made.net.op[0], "pad_b") is not None
    unknown = NetDef(op=[operator_def("MaxPool", ["other"], ["p"], kernel=3, stride=2, legacy_pad=3)])
    unknown.op.insert(0, operator_def("Relu", ["data"], ["r"]))
    with pytest.raises(UnsupportedError, match="MaxPool 'p' pools an image of unknown size"):
        without_legacy_pad(unknown, TensorProtos(), [1, 3, 8, 8])
