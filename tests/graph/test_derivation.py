"""Nets derived from training nets: whatever the net, testing changes nothing, and predicting asks for no label."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.errors import NetError
from tazza.graph.derivation import net_that_predicts, net_that_tests
from tazza.interop import load, save_nets, save_predictor
from tazza.models import BlobReference, Model, layers, name_scope, sgd
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import SCHEMAS, OpSchema, find_schema, operator_def
from tazza.operator.choice import find_kernel
from tazza.operator.gradient import GradientRule
from tazza.proto import NetDef
from tazza.proto.message import parse_text
from tazza.tensor import Tensor
from tazza.workspace import Workspace
from tests.models.zoo.test_zoo_sizes import TINY

OUTPUTS = ["softmax", "loss", "accuracy"]
BATCH = 5

# -- what schemas declare ----------------------------------------------------------------------------------------------


def draws(schema: OpSchema) -> bool:
    """Whether the definition of an operator draws random numbers."""
    function = find_kernel(schema.type, "cpu", "reference").function
    return function is not None and "random" in inspect.signature(function).parameters


def keeps_numbers(schema: OpSchema) -> bool:
    """Whether it must overwrite a tensor; workspaces and other holders go in and out of operators that do not train."""
    return any(schema.outputs_by_letter[letter].only_tensors for letter in schema.must_in_place)


def test_what_only_training_does_is_declared() -> None:
    """An operator of a forward pass that draws, or must overwrite what it reads, says how it is kept from that."""
    forward = [s for s in map(find_schema, sorted(SCHEMAS.keys())) if isinstance(s.gradient_rule, GradientRule)]
    acting = [s.type for s in forward if keeps_numbers(s) or (draws(s) and s.inputs) or "is_test" in s.args]
    acting.remove("CopyRowsToTensor")  # it writes the rows that a net names: nets that predict have none of it
    assert {"SpatialBN", "Dropout"} <= set(acting)
    assert [type for type in acting if find_schema(type).training_mode is None] == []


def test_what_is_declared_is_there() -> None:
    for schema in map(find_schema, SCHEMAS.keys()):
        if schema.training_mode is not None:
            assert schema.training_mode.argument in schema.args
            assert set(schema.training_mode.outputs) < set(schema.outputs_by_letter)
        if schema.prediction is not None:
            assert set(schema.prediction.outputs) < set(schema.outputs_by_letter)


def test_what_a_loss_gives_beside_it_can_be_made_alone() -> None:
    """What reads a label and gives more than one number says how the rest is made without it."""
    reading = [s for s in map(find_schema, SCHEMAS.keys()) if isinstance(s.gradient_rule, GradientRule)]
    both = [s.type for s in reading if "label" in s.inputs_by_letter and "loss" in s.outputs_by_letter]
    both.remove("SpatialSoftmaxWithLoss")  # no operator makes its probabilities without being told how many there are
    assert both == ["SoftmaxWithLoss"]
    assert find_schema("SoftmaxWithLoss").prediction is not None


# -- nets --------------------------------------------------------------------------------------------------------------


def with_everything() -> Model:
    """Return a training net of all layers that behave otherwise in a test, with nested names and shared statistics."""
    model = Model("everything_train")
    with name_scope("outer"), name_scope("inner"):
        x = layers.conv(model, BlobReference("data"), "conv", 2, 4, 3, pad=1)
        x = layers.spatial_bn(model, x, "bn", 4, is_test=False, momentum=0.5)
        statistics = [x, "bn_s", "bn_b", "bn_rm", "bn_riv"]
        x = model.net.add("SpatialBN", statistics, ["again", "bn_rm", "bn_riv", "sm", "siv"], is_test=0)[0]
        x = model.net.add("GroupNorm", [x, "bn_s", "bn_b"], ["grouped", "gm", "gs"], group=2, is_test=0)[0]
        x = model.net.add("InstanceNorm", [x, "bn_s", "bn_b"], ["instance", "im", "is"])[0]
        x = layers.dropout(model, layers.relu(model, x, x), "drop", ratio=0.5, is_test=False)
        scores = layers.fc(model, x, "scores", 4 * 6 * 6, 7)
    softmax, loss = layers.softmax_with_loss(model, scores, "label", ["softmax", "loss"])
    layers.accuracy(model, softmax, "label", "accuracy")
    model.add_gradients([loss])
    return model


def training_net(name: str) -> Model:
    """Return a training net with updates."""
    model = with_everything() if name == "everything" else CLASSIFIERS[name].training(**TINY[name])
    sgd(model, 0.01, momentum=0.9)
    return model


def batch(name: str, seed: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return images and labels."""
    random = np.random.default_rng(seed)
    options = TINY.get(name, {"channels": 2, "size": 6, "classes": 7})
    sizes = {key: options[key] for key in ("channels", "size") if key in options}
    shape = (BATCH, 2, 6, 6) if name == "everything" else CLASSIFIERS[name].input_shape(BATCH, **sizes)
    return random.standard_normal(shape, dtype=np.float32), random.integers(0, 7, BATCH, dtype=np.int32)


def trained(model: Model, name: str) -> Workspace:
    """Return a workspace in which the model has learned from a few batches."""
    workspace = Workspace()
    model.init_net.proto.device_option.random_seed = 5
    workspace.run_net_once(model.init_net.proto)
    for seed in range(2):
        for blob, value in zip(("data", "label"), batch(name, seed), strict=True):
            workspace.feed(blob, value)
        if seed == 0:
            net = workspace.create_net(model.net.proto)
        net.run()  # pyright: ignore[reportPossiblyUnboundVariable] -- made in the first round
    return workspace


def tensors(workspace: Workspace) -> dict[str, bytes]:
    """Return the bytes of all tensors."""
    blobs = ((name, workspace.blob(name).value) for name in workspace.local_blobs())
    return {name: value.plain().tobytes() for name, value in blobs if isinstance(value, Tensor) and value.allocated}


FAST = ("everything", "mlp")
"""Nets that are judged at every check."""
NETS = [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in ("everything", *TINY)]


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_testing_changes_nothing_and_samples_go_their_own_ways(name: str) -> None:
    model = training_net(name)
    workspace = trained(model, name)
    parameters = model.parameter_blobs()
    test = net_that_tests(model.net.proto, OUTPUTS, parameters=parameters)
    assert list(test.external_output) == OUTPUTS
    assert not any(op.is_gradient_op for op in test.op)
    before = tensors(workspace)
    made = {output for op in test.op for output in op.output}
    test.name = "test"
    net = workspace.create_net(test, strict=True)
    found: list[np.ndarray[Any, Any]] = []
    for seed in (7, 8):
        images, labels = batch(name, seed)
        images[1] = batch(name, 6)[0][1]
        workspace.feed("data", images)
        workspace.feed("label", labels)
        net.run()
        found.append(workspace.fetch("softmax"))
        assert np.isfinite(workspace.fetch("loss"))
    np.testing.assert_array_equal(found[0][1], found[1][1])
    assert not np.array_equal(found[0], found[1])
    after = tensors(workspace)
    stays = before.keys() - made - {"data", "label"}
    assert {*map(str, parameters)} <= stays
    assert [blob for blob in stays if before[blob] != after[blob]] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NETS)
def test_what_is_exported_asks_for_no_label_and_gives_equal_numbers(name: str, tmp_path: Path) -> None:
    model = training_net(name)
    workspace = trained(model, name)
    images, labels = batch(name, 9)
    save_nets(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", model, workspace, outputs=["softmax"])
    save_predictor(tmp_path / "model.minidb", model, workspace, outputs=["softmax"])
    test = net_that_tests(model.net.proto, ["softmax"], parameters=model.parameter_blobs())
    workspace.feed("data", images)
    workspace.feed("label", labels)
    test.name = "test"
    workspace.run_net_once(test)
    expected = workspace.fetch("softmax")
    for files in ((tmp_path / "init_net.pb", tmp_path / "predict_net.pb"), (tmp_path / "model.minidb",)):
        with load(*files) as predictor:
            assert predictor.inputs == ("data",)
            np.testing.assert_allclose(predictor.run(data=images)["softmax"], expected, rtol=2e-5, atol=1e-7)
            one = predictor.run(data=images[2:3])["softmax"]
            np.testing.assert_allclose(one, expected[2:3], rtol=2e-5, atol=1e-7)


@pytest.mark.slow
def test_a_net_that_tests_already_stays_as_it_is() -> None:
    for name in CLASSIFIERS:
        model = CLASSIFIERS[name].inference(**TINY[name])
        for derive in (net_that_tests, net_that_predicts):
            found = derive(model.net.proto, ["softmax"], parameters=model.parameter_blobs())
            assert [op.type for op in found.op] == [op.type for op in model.net.proto.op]


AVERAGED = """
name: "averaged"
op { type: "WeightedSum" input: "w" input: "half" input: "v" input: "half" output: "w" }
op { type: "FC" input: "x" input: "w" input: "b" output: "y" }
op { type: "Dropout" input: "y" output: "y" output: "mask" arg { name: "is_test" i: 0 } arg { name: "ratio" f: 0.5 } }
op { type: "Relu" input: "y" output: "y" }
op { type: "Scale" input: "mask" output: "m" }
"""


def test_parameters_that_a_net_updates_before_it_reads_them_stay() -> None:
    net = parse_text(NetDef, AVERAGED, "a test")
    test = net_that_tests(net, ["y"], parameters=["w", "b", "v", "half"])
    assert [op.type for op in test.op] == ["FC", "Dropout", "Relu"]
    assert list(test.external_input) == ["x", "w", "b"]
    assert list(test.op[1].output) == ["y"]
    assert [(a.name, a.i) for a in test.op[1].arg if a.name == "is_test"] == [("is_test", 1)]
    assert net == parse_text(NetDef, AVERAGED, "a test"), "the training net stays as it was"
    kept = net_that_tests(net, ["y", "m"], parameters=[])
    assert [list(op.output) for op in kept.op if op.type == "Dropout"] == [["y", "mask"]], "somebody reads it"


def test_without_the_argument_training_is_meant() -> None:
    net = parse_text(NetDef, AVERAGED, "a test")
    del net.op[2].arg[0]
    test = net_that_tests(net, ["y"], parameters=["w"])
    assert [(a.name, a.i) for a in test.op[1].arg if a.name == "is_test"] == [("is_test", 1)]


BAD = """
name: "bad"
op {
  type: "SpatialBN" input: "x" input: "s" input: "b" input: "m" input: "v"
  output: "y" output: "m" output: "v" output: "sm" output: "si" arg { name: "is_test" i: 0 }
}
op { type: "Sum" input: "y" input: "sm" output: "z" }

"""


def test_what_cannot_be_tested_says_why() -> None:
    net = parse_text(NetDef, BAD, "a test")
    with pytest.raises(NetError, match=r"(?s)makes no 'sm' with is_test = 1.*in operator 0 \(SpatialBN\) of net 'bad'"):
        net_that_tests(net, ["z"], parameters=["m", "v"])
    with pytest.raises(NetError, match="no operator of net 'bad' makes the output 'm'"):
        net_that_tests(net, ["m"], parameters=["m", "v"])


def test_nets_within_operators_are_switched_too() -> None:
    """A Dropout in a branch draws nothing in a test, and has no mask; the branch may be deeper within."""
    dropout = operator_def("Dropout", ["x"], ["y", "mask"], ratio=0.5, is_test=0)
    deep = operator_def("If", ["c"], [], then_net=NetDef(name="deep", op=[dropout]))
    branch = operator_def("If", ["c"], ["y"], then_net=NetDef(name="then", op=[deep]))
    net = NetDef(name="train", op=[branch, operator_def("Relu", ["y"], ["z"])])
    tested = net_that_tests(net, ["z"], parameters=[])
    assert list(tested.external_input) == ["c", "x"]
    (inner,) = tested.op[0].arg[0].n.op[0].arg[0].n.op
    assert list(inner.output) == ["y"]
    assert [argument.i for argument in inner.arg if argument.name == "is_test"] == [1]
    assert list(net.op[0].arg[0].n.op[0].arg[0].n.op[0].output) == ["y", "mask"], "the net itself stays as it is"
