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


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_the_cost_of_an_operator_follows_from_extents_alone(dtype: type[np.generic]) -> None:
    costs: dict[str, tuple[int, int]] = {}
    for type, count in (("Relu", 1), ("Add", 2), ("FC", 3)):
        names = [f"cost{i}" for i in range(count)]
        for i, name in enumerate(names):
            workspace.FeedBlob(name, np.zeros((4, 4) if i < 2 else 4, dtype))
        op = core.CreateOperator(type, names, ["y"])
        costs[type] = workspace.GetOperatorCost(op.SerializeToString(), names)
    assert {type: written for type, (_, written) in costs.items()} == {"Relu": 64, "Add": 64, "FC": 64}
    assert costs["Add"][0] == 16
    for name, shape in (("X", (1, 8, 8, 8)), ("W", (1, 1, 3, 3))):
        workspace.FeedBlob(name, np.zeros(shape, dtype))
    conv = core.CreateOperator("Conv", ["X", "W"], ["Y"], kernel=3, pad=1)
    with pytest.raises(Exception, match="channels"):
        workspace.GetOperatorCost(conv.SerializeToString(), ["X", "W"])


def test_what_a_net_reads_is_filled_by_operator() -> None:
    """As genuine Caffe2 counts: each operator that reads what none before it made wants a shape for each such input."""
    net = core.Net("fills")
    net.Add(["A", "B"], ["C"])
    net.Relu("C", "D")
    net.Add(["D", "A"], "E")
    shapes, types = [[(3, 2), (3, 2)], [(3, 2)]], [["float", "int"], ["float"]]
    workspace.ResetWorkspace()
    workspace.FillRandomNetworkInputs(net, shapes, types)
    assert sorted(workspace.Blobs()) == ["A", "B"]
    assert [workspace.FetchBlob(name).dtype for name in "AB"] == ["float32", "int32"]
    for wrong in (shapes[:1], [*shapes, []], [[(3, 2)], [(3, 2)]]):
        with pytest.raises(RuntimeError, match="shapes for"):
            workspace.FillRandomNetworkInputs(net, wrong, types)
    with pytest.raises(RuntimeError, match="types for"):
        workspace.FillRandomNetworkInputs(net, shapes, types[:1])
    with pytest.raises(ValueError, match="does not support type float16"):
        workspace.FillRandomNetworkInputs(net, shapes, [["float", "float16"], ["float"]])


@pytest.mark.parametrize("kind", ["simple", "dag", "async_scheduling", "parallel", "simple_refcount"])
def test_a_run_that_is_allowed_to_fail_says_so(kind: str) -> None:
    """Where an operator says that it failed, without more; what an operator raises is raised all the same."""
    for op_type, told in (("Fail", [False]), ("ThrowException", [])):
        net = core.Net("failing")
        getattr(net, op_type)([], [])
        net.Proto().type, net.Proto().num_workers = kind, 2
        workspace.CreateNet(net)
        with pytest.raises(RuntimeError, match="it failed"):
            workspace.RunNet(net)
        if told:
            assert workspace.RunNet(net, allow_fail=True) is False
        else:
            with pytest.raises(RuntimeError, match="it failed"):
                workspace.RunNet(net, allow_fail=True)
