"""What scripts reach of `workspace.C` behaves as the genuine Caffe2 was seen to; runs of the two were compared."""

from __future__ import annotations

import numpy as np
import pytest

from caffe2.proto import caffe2_pb2
from caffe2.python import core, workspace


@pytest.mark.parametrize("give", ["RunNetOnce", "RunOperatorOnce", "CreateNet"])
def test_a_text_is_no_message(give: str) -> None:
    with pytest.raises(TypeError, match="is a text"):
        getattr(workspace, give)("...")
    with pytest.raises(RuntimeError):
        getattr(workspace, give)(b"...")
    with pytest.raises(TypeError, match="is a text"):
        workspace.C.Workspace().create_net("...")


def test_a_tensor_of_texts_is_not_made_by_init() -> None:
    tensor = workspace.C.Workspace().create_blob("texts").tensor()
    with pytest.raises(RuntimeError, match="feed it"):
        tensor.init([3], core.DataType.STRING)
    tensor.init([3], core.DataType.INT16)
    assert tensor.data.dtype == np.int16


def test_transforms_to_an_engine_write_its_name() -> None:
    net = core.Net("engines")
    net.Conv(["x", "w"], "y", kernel=3, engine="CUDNN")
    net.Conv(["y", "w"], "z", kernel=3, device_option=core.DeviceOption(caffe2_pb2.CUDA))
    net.Relu("z", "z")
    made = workspace.ApplyTransform("ConvToNNPack", net.Proto())
    assert [op.engine for op in made.op] == ["NNPACK", "", ""]
    assert net.Proto().op[0].engine == "CUDNN"
    assert workspace.ApplyTransform("AddNNPACK", net.Proto()).op[0].engine == "CUDNN"
