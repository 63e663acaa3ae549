"""Nets of Caffe 1 become the nets that Caffe2 made of them, and give the same numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza import Workspace
from tazza.errors import FileError, FormatError, NotFoundError, UnsupportedError
from tazza.interop.caffe import LAYERS as TRANSLATORS
from tazza.interop.caffe import Layer, Options, Translated, layer, read_and_translate, translate
from tazza.interop.caffe.caffe_pb2 import LayerParameter, NetParameter, NetState, NetStateRule
from tazza.interop.caffe.state import includes, meets
from tazza.interop.caffe.translation import shape_of_input, translate_layer
from tazza.operator.definition import operator_def
from tazza.proto import NetDef, TensorProtos
from tazza.proto.message import parse_text, read_message, write_message
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array
from tools.record_caffe import BLOBS, LAYERS, data, operator_line, parameters, plain, trained

FOLDER = Path(__file__).parents[2] / "data" / "caffe"
RECORDED: dict[str, Any] = json.loads((FOLDER / "translated.json").read_text(encoding="utf-8"))


def message(text: str) -> LayerParameter:
    return parse_text(LayerParameter, text, "a layer")


def net_of(text: str, shape: tuple[int, ...] = (1, 2, 8, 9)) -> NetParameter:
    made = parse_text(NetParameter, text, "a net")
    made.input.append("data")
    made.input_dim.extend(shape)
    return made


def small() -> tuple[NetParameter, NetParameter]:
    """Return the recorded net, and its parameters."""
    net = read_message(FOLDER / "deploy.prototxt", NetParameter)
    import tazza.interop.caffe.caffe_pb2 as messages

    return net, trained(net, messages)


# -- layers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", LAYERS)
@pytest.mark.parametrize("is_test", [False, True])
def test_a_layer_becomes_the_operators_that_caffe2_made(text: str, is_test: bool) -> None:
    recorded = RECORDED[text][is_test]
    given = Layer(message(text), parameters(message(text).type), is_test)
    if isinstance(recorded, str):
        with pytest.raises((UnsupportedError, NotFoundError)):
            translate_layer(given)
        return
    made = translate_layer(given)
    assert [operator_line(op) for op in made.operators] == recorded[0]
    stored = [array_to_tensor_proto(array, name) for name, array in made.parameters.items()]
    assert [plain(one) for one in stored] == recorded[1]


def test_every_layer_type_is_recorded() -> None:
    recorded = {message(text).type for text in LAYERS}
    assert set(TRANSLATORS) - recorded == {"Crop", "Convolution3D", "Pooling3D"}  # below


def first(text: str, *shapes: tuple[int, ...]) -> list[Any]:
    """Return the first operator of a layer with parameters of these shapes."""
    blobs = [np.ones(shape, np.float32) for shape in shapes]
    return operator_line(translate_layer(Layer(message(f'name: "n" bottom: "x" top: "y" {text}'), blobs)).operators[0])


def test_clips_have_windows_of_three_axes() -> None:
    """The settings are those of a fork: Caffe2 was asked with stand-ins for them."""
    window = "kernel_size: 3 kernel_depth: 2 stride: 5 temporal_stride: 7 pad: 11 temporal_pad: 13"
    arguments = [["kernels", [2, 3, 3]], ["strides", [7, 5, 5]], ["pads", [13, 11, 11, 13, 11, 11]]]
    made = first(f'type: "Convolution3D" convolution3d_param {{ {window} }}', (2, 3, 2, 3, 3), (2,))
    assert made == ["Conv", ["x", "y_w", "y_b"], ["y"], arguments]
    for pool, op_type in (("MAX", "MaxPool"), ("AVE", "AveragePool")):
        made = first(f'type: "Pooling3D" pooling3d_param {{ pool: {pool} {window} }}')
        assert made == [op_type, ["x"], ["y"], [["order", "NCHW"], *arguments]]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('type: "ReLU" relu_param { negative_slope: 0.5 }', ["LeakyRelu", ["x"], ["y"], [["alpha", 0.5]]]),
        ('type: "Concat" concat_param { axis: 2 }', ["Concat", ["x"], ["y", "_y_dims"], [["axis", 2]]]),
        ('type: "Concat" concat_param { concat_dim: 3 }', ["Concat", ["x"], ["y", "_y_dims"], [["axis", 3]]]),
        ('type: "Softmax" softmax_param { axis: 2 }', ["Softmax", ["x"], ["y"], [["axis", 2]]]),
        ('type: "Reduction"', ["SumElements", ["x"], ["y"], [["average", 0]]]),
        ('type: "Reduction" reduction_param { operation: MEAN }', ["SumElements", ["x"], ["y"], [["average", 1]]]),
        (
            'type: "Pooling" pooling_param { kernel_size: 2 stride: 2 round_mode: FLOOR }',
            ["MaxPool", ["x"], ["y"], [["stride", 2], ["pad", 0], ["kernel", 2], ["order", "NCHW"]]],
        ),
    ],
)
def test_what_caffe2_passed_over_is_done(text: str, wanted: list[Any]) -> None:
    """docs/differences.md."""
    assert first(text) == wanted


def test_what_caffe2_did_not_take_is_taken() -> None:
    lists = "kernel_size: 3 kernel_size: 2 stride: 2 stride: 1 pad: 1 pad: 0"
    made = first(f'type: "Convolution" convolution_param {{ {lists} }}', (4, 3, 3, 2))
    sides = [["pad_t", 1], ["pad_b", 1], ["pad_l", 0], ["pad_r", 0]]
    assert made[3] == [["stride_h", 2], ["stride_w", 1], *sides, ["kernel_h", 3], ["kernel_w", 2]]
    given = Layer(message('name: "n" type: "InnerProduct" bottom: "x" top: "y"'), [np.ones((4, 6), np.float32)])
    assert translate_layer(given).parameters["y_b"].tolist() == [0] * 4
    sums = [np.full((1, 3), 4, np.float32), np.full((1, 3), 4, np.float32), np.full(1, 2, np.float32)]
    rows = Layer(message('type: "BatchNorm" bottom: "x" top: "y"'), sums)
    assert [one.tolist() for one in translate_layer(rows).parameters.values()] == [[1] * 3, [0] * 3, [2] * 3, [2] * 3]


@pytest.mark.parametrize(
    "text",
    [
        'type: "Reduction" reduction_param { axis: 1 }',
        'type: "Reduction" reduction_param { coeff: 2 }',
        'type: "Reduction" reduction_param { operation: ASUM }',
        'type: "Reshape" reshape_param { axis: 1 }',
        'type: "Deconvolution" convolution_param { kernel_size: 3 dilation: 2 }',
        'type: "Convolution" convolution_param { kernel_size: 3 dilation: 1 dilation: 1 dilation: 2 }',
        'type: "Convolution" convolution_param { kernel_size: 3 kernel_size: 3 kernel_size: 3 }',
    ],
)
def test_what_no_operator_does_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedError, match=r"layer 'n' of type \w+: .* cannot be translated"):
        first(text, (3, 3, 3, 3), (3,))


@pytest.mark.parametrize(
    ("text", "shapes", "told"),
    [
        ('type: "Convolution"', [], "has 0 parameters in the trained net, and needs 1"),
        ('type: "Deconvolution"', [(3, 4, 3, 3)], "has 1 parameters in the trained net, and needs 2"),
        ('type: "InnerProduct"', [(4, 6, 1, 1)], r"has shape \(1, 1, N, K\), not \(4, 6, 1, 1\)"),
        ('type: "SoftmaxWithLoss"', [], "has 1 inputs, not 2"),
        ('type: "Crop"', [], "has 1 inputs, not 2"),
        ('type: "Crop" bottom: "z"', [], "the shape of 'z' has to be known"),
    ],
)
def test_what_is_not_well_formed_is_refused(text: str, shapes: list[tuple[int, ...]], told: str) -> None:
    with pytest.raises((FormatError, UnsupportedError), match=told):
        first(text, *shapes)


def test_mean_and_variance_of_no_batch_are_refused() -> None:
    blobs = [np.ones(3, np.float32), np.ones(3, np.float32), np.zeros(1, np.float32)]
    with pytest.raises(FormatError, match="divided by nothing"):
        translate_layer(Layer(message('name: "n" type: "BatchNorm" top: "y"'), blobs))


def test_a_layer_of_ones_own() -> None:
    @layer("OnesOwn", help="of this test")
    def own(layer: Layer) -> Translated:
        return Translated([operator_def("Abs", layer.bottom, [layer.top])])

    try:
        net = net_of('layer { name: "n" type: "OnesOwn" bottom: "data" top: "y" }')
        assert [op.type for op in translate(net, NetParameter()).net.op] == ["Abs"]
    finally:
        TRANSLATORS.unregister("OnesOwn")
    assert own(Layer(message('bottom: "a" top: "b"'))).operators[0].input == ["a"]


# -- nets --------------------------------------------------------------------------------------------------------------


def test_a_net_is_the_one_of_caffe2_and_gives_its_numbers() -> None:
    net, weights = small()
    made = translate(net, weights, Options(is_test=True))
    assert [operator_line(op) for op in made.net.op] == RECORDED["net"][0]
    assert [plain(one)[:2] for one in made.parameters.protos] == RECORDED["net"][1]
    workspace = Workspace()
    for one in made.parameters.protos:
        workspace.feed(one.name, tensor_proto_to_array(one))
    workspace.feed("data", data())
    workspace.run_net_once(made.net)
    with np.load(FOLDER / "blobs.npz") as recorded:
        for name in BLOBS:
            np.testing.assert_allclose(workspace.fetch(name), recorded[name], rtol=1e-5, atol=2e-6, err_msg=name)
        rows, columns = recorded["norm1"].shape[2:]
        cropped = workspace.fetch("up")[:, :, 1 : 1 + rows, 1 : 1 + columns]
    np.testing.assert_array_equal(workspace.fetch("crop"), cropped)


def test_files_are_read_and_give_a_pair_of_nets(tmp_path: Path) -> None:
    import tazza

    net, weights = small()
    write_message(tmp_path / "trained.caffemodel", weights)
    options = Options(is_test=True)
    made = read_and_translate(FOLDER / "deploy.prototxt", tmp_path / "trained.caffemodel", options)
    predict = made.predict_net()
    assert predict.external_input[:3] == ["data", "conv1_w", "conv1_b"]
    assert "prob" in predict.external_output
    write_message(tmp_path / "init_net.pb", made.init_net())
    write_message(tmp_path / "predict_net.pb", predict)
    predictor = tazza.load(tmp_path / "init_net.pb", tmp_path / "predict_net.pb")
    with np.load(FOLDER / "blobs.npz") as recorded:
        np.testing.assert_allclose(predictor.run({"data": data()})["prob"], recorded["prob"], rtol=1e-5, atol=2e-6)
    del net


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("double", [False, True])
def test_parameters_in_their_older_forms_are_the_same(old: bool, double: bool) -> None:
    net, weights = small()
    wanted = translate(net, weights)
    for one in weights.layer:
        for blob in one.blobs:
            if old:
                shape = (1,) * (4 - len(blob.shape.dim)) + tuple(blob.shape.dim)
                blob.num, blob.channels, blob.height, blob.width = shape
                blob.ClearField("shape")
            if double:
                blob.double_data.extend(blob.data)
                del blob.data[:]
    made = translate(net, weights)
    assert made.net == wanted.net
    shapes = {one.name: list(one.dims) for one in wanted.parameters.protos}
    for one in made.parameters.protos:
        flat = one.name.endswith("_Slope")  # keeps the shape that it has
        assert flat or list(one.dims) == shapes[one.name], one.name


def test_layers_of_the_old_form_bring_parameters() -> None:
    net, weights = small()
    wanted = translate(net, weights)
    for one in weights.layer:
        weights.layers.add(name=one.name, blobs=one.blobs)
    del weights.layer[:]
    assert translate(net, weights).parameters == wanted.parameters


def test_the_state_says_which_layers_there_are() -> None:
    net, weights = small()
    types = [op.type for op in translate(net, weights, Options(state=NetState(phase="TRAIN"))).net.op]
    assert types[-1] == "AveragedLoss"
    assert "AveragedLoss" not in [op.type for op in translate(net, weights).net.op]


@pytest.mark.parametrize(
    ("state", "rules"),
    [
        ("", {"phase: TEST": 1, "phase: TRAIN": 0, "min_level: 1": 0, "max_level: 1": 1, 'stage: "a"': 0}),
        ("phase: TRAIN", {"": 1, "phase: TRAIN": 1, "phase: TEST": 0}),
        ("level: 2", {"min_level: 2": 1, "min_level: 3": 0, "max_level: 1": 0, "max_level: 2": 1}),
        ('stage: "a"', {'stage: "a"': 1, 'stage: "a" stage: "b"': 0, 'not_stage: "a"': 0, 'not_stage: "c"': 1}),
        ('stage: "a" stage: "b"', {'stage: "a" stage: "b"': 1, 'stage: "c"': 0}),
    ],
)
def test_rules_are_met_as_in_caffe2(state: str, rules: dict[str, int]) -> None:
    given = parse_text(NetState, state, "a state")
    assert {rule: int(meets(given, parse_text(NetStateRule, rule, "a rule"))) for rule in rules} == rules


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("", True),
        ("include { phase: TRAIN }", False),
        ("exclude { phase: TEST }", False),
        ("exclude { phase: TRAIN }", True),
        ("include { phase: TEST } exclude { phase: TEST }", True),
        ("include { phase: TRAIN } include { phase: TEST }", True),
    ],
)
def test_layers_are_there_as_in_caffe2(text: str, there: bool) -> None:
    assert includes(NetState(), message(text)) == there


@pytest.mark.parametrize(
    ("settings", "bounds"),
    [
        ("axis: 2 offset: 1", ([0, 0, 1, 1], [-1, -1, 5, 5])),
        ("axis: 1 offset: 1", ([0, 1, 1, 1], [-1, 3, 5, 5])),
        ("axis: 3 offset: 1", ([0, 0, 0, 1], [-1, -1, -1, 5])),
        ("axis: -1 offset: 2", ([0, 0, 0, 2], [-1, -1, -1, 6])),
        ("offset: 2 offset: 1", ([0, 0, 2, 1], [-1, -1, 6, 5])),
        ("", ([0, 0, 0, 0], [-1, -1, 4, 4])),
    ],
)
def test_a_part_is_cut_as_large_as_another_blob(settings: str, bounds: tuple[list[int], list[int]]) -> None:
    pool = 'layer { name: "p" type: "Pooling" bottom: "data" top: "p" pooling_param { kernel_size: 3 stride: 2 } }'
    crop = f'layer {{ name: "c" type: "Crop" bottom: "data" bottom: "p" top: "q" crop_param {{ {settings} }} }}'
    made = translate(net_of(pool + crop), NetParameter()).net.op[1]
    assert operator_line(made) == ["Slice", ["data"], ["q"], [["starts", bounds[0]], ["ends", bounds[1]]]]


def test_offsets_have_to_fit() -> None:
    offsets = "offset: 1 offset: 2 offset: 3"
    crop = f'layer {{ name: "c" type: "Crop" bottom: "data" bottom: "data" top: "q" crop_param {{ {offsets} }} }}'
    with pytest.raises(FormatError, match="3 offsets for 2 axes"):
        translate(net_of(crop), NetParameter())


def test_a_net_says_the_shape_of_its_input_in_three_ways() -> None:
    wanted = [1, 3, 8, 8]
    ways = (
        "input_dim: 1 input_dim: 3 input_dim: 8 input_dim: 8",
        "input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }",
        'layer { type: "Input" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }',
    )
    assert [shape_of_input(parse_text(NetParameter, way, "a net")) for way in ways] == [wanted] * 3
    assert shape_of_input(NetParameter()) == []


def test_bad_nets_are_refused(tmp_path: Path) -> None:
    net, weights = small()
    weights.layer.add().CopyFrom(weights.layer[0])
    with pytest.raises(FormatError, match="two layers named 'conv1'"):
        translate(net, weights)
    _, weights = small()
    del weights.layer[0].blobs[0].data[3:]
    with pytest.raises(FormatError, match=r"layer 'conv1' of the trained net: a parameter of shape .* has 3 numbers"):
        translate(net, weights)
    net.layers.add()
    with pytest.raises(FormatError, match="in the form of before 2015"):
        translate(net, weights)
    with pytest.raises(FileError):
        read_and_translate(FOLDER / "deploy.prototxt", tmp_path / "nothing.caffemodel")
    (tmp_path / "bad.prototxt").write_text("layer { what: 3 }")
    with pytest.raises(FormatError, match="what"):
        read_and_translate(tmp_path / "bad.prototxt", tmp_path / "nothing.caffemodel")


def test_a_net_of_nothing_is_one() -> None:
    made = translate(NetParameter(name="n"), NetParameter())
    assert made.net == NetDef(name="n")
    assert made.parameters == TensorProtos()
    assert made.init_net() == NetDef()
