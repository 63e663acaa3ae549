"""`caffe_translator` by its old names; `tests/interop/caffe` compares what it makes with Caffe2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.proto import caffe2_pb2, caffe_pb2
from caffe2.python import caffe_translator, utils, workspace
from caffe2.python.caffe_translator import TranslatorRegistry
from tazza.errors import NotFoundError
from tazza.proto.message import parse_text, read_message, write_message
from tests.interop.caffe.test_translation import FOLDER, RECORDED, small
from tools.record_caffe import BLOBS, LAYERS, data, operator_line, parameters, translated


@pytest.mark.parametrize("text", [text for text in LAYERS if not isinstance(RECORDED[text][0], str)])
def test_layers_are_those_of_caffe2(text: str) -> None:
    layer = parse_text(caffe_pb2.LayerParameter, text, "a layer")
    assert [translated(caffe_translator, layer, is_test=test) for test in (False, True)] == RECORDED[text]


def test_a_function_gives_an_operator_or_a_list() -> None:
    def made(function: Any, text: str) -> Any:
        layer = parse_text(caffe_pb2.LayerParameter, f'{text} bottom: "x" top: "y"', "a layer")
        return function(layer, parameters(layer.type), False)[0]

    assert made(caffe_translator.TranslateConv, 'type: "Convolution"').type == "Conv"
    assert [op.type for op in made(caffe_translator.TranslateScale, 'type: "Scale"')] == ["Mul", "Add"]
    assert made(caffe_translator.TranslateInput, 'type: "Input"') == []


@pytest.mark.slow
def test_a_model_runs_as_in_caffe2() -> None:
    net, weights = small()
    made, params = caffe_translator.TranslateModel(net, weights, is_test=True)
    assert [operator_line(op) for op in made.op] == RECORDED["net"][0]
    workspace.ResetWorkspace()
    for proto in params.protos:
        workspace.FeedBlob(proto.name, utils.Caffe2TensorToNumpyArray(proto))
    workspace.FeedBlob("data", data())
    workspace.RunNetOnce(made.SerializeToString())
    with np.load(FOLDER / "blobs.npz") as recorded:
        for name in BLOBS:
            np.testing.assert_allclose(workspace.FetchBlob(name), recorded[name], rtol=1e-5, atol=2e-6, err_msg=name)
    workspace.ResetWorkspace()


def test_ones_own_function_is_told_what_was_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TranslatorRegistry, "registry_", dict(TranslatorRegistry.registry_))
    told: list[Any] = []

    @TranslatorRegistry.Register("Mine")
    def mine(layer: Any, pretrained_blobs: Any, is_test: bool, **kwargs: Any) -> Any:
        told.append((len(pretrained_blobs), is_test, len(kwargs["net"].op), list(kwargs["input_dims"])))
        told.append([proto.name for proto in kwargs["net_params"].protos])
        op = caffe_translator.BaseTranslate(layer, "Mine")
        caffe_translator.AddArgument(op, "k", 3)
        return op, [utils.NumpyArrayToCaffe2Tensor(np.array([1, 2], "f"), "mine_w")]

    text = """
    input: "data" input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8
    layer { name: "p" type: "PReLU" bottom: "data" top: "p" }
    layer { name: "m" type: "Mine" bottom: "p" bottom: "data" top: "m" }
    """
    net = parse_text(caffe_pb2.NetParameter, text, "a net")
    weights = caffe_pb2.NetParameter()
    weights.layer.add(name="p").blobs.add(data=[1, 2, 3]).shape.dim.append(3)
    made, params = caffe_translator.TranslateModel(net, weights, True)
    assert told == [(0, True, 1, [1, 3, 8, 8]), ["p_Slope"]]
    assert operator_line(made.op[1]) == ["Mine", ["p", "data"], ["m"], [["k", 3]]]
    assert [proto.name for proto in params.protos] == ["p_Slope", "mine_w"]
    assert mine is TranslatorRegistry.registry_["Mine"]


def test_an_unknown_layer_is_told() -> None:
    with pytest.raises(NotFoundError, match="layer 'n' is of type Nobody, which nobody translates"):
        TranslatorRegistry.TranslateLayer(caffe_pb2.LayerParameter(name="n", type="Nobody"), [], False)


def test_an_initializing_net_makes_parameters_and_the_input() -> None:
    params = caffe2_pb2.TensorProtos()
    params.protos.append(utils.NumpyArrayToCaffe2Tensor(np.array([[1, 2], [3, 4.5]], "f"), "a"))
    net = caffe_translator.ConvertTensorProtosToInitNet(params, "data")
    assert [operator_line(op) for op in net.op] == [
        ["GivenTensorFill", [], ["a"], [["shape", [2, 2]], ["values", [1, 2, 3, 4.5]]]],
        ["ConstantFill", [], ["data"], [["shape", [1]]]],
    ]


@pytest.mark.slow
def test_the_program_writes_both_nets(tmp_path: Path) -> None:
    net, weights = small()
    write_message(tmp_path / "trained.caffemodel", weights)
    command = [sys.executable, "-m", "caffe2.python.caffe_translator", str(FOLDER / "deploy.prototxt")]
    subprocess.run([*command, "trained.caffemodel"], check=True, cwd=tmp_path, capture_output=True)
    assert {path.name for path in tmp_path.glob("*net*")} == {"init_net.pb", "predict_net.pb", "predict_net.pbtxt"}
    predict = read_message(tmp_path / "predict_net.pb", caffe2_pb2.NetDef)
    assert predict == read_message(tmp_path / "predict_net.pbtxt", caffe2_pb2.NetDef)
    assert [operator_line(op) for op in predict.op] == RECORDED["net"][0]
    init = read_message(tmp_path / "init_net.pb", caffe2_pb2.NetDef)
    assert init.op[-1].output == ["data"]
    assert net.name == predict.name
