"""Layers over records: `caffe2.python.layers`, `layer_model_helper`, `layer_model_instantiator`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from caffe2.python import core, regularizer, schema, scope, workspace
from caffe2.python.layer_model_helper import LayerModelHelper
from caffe2.python.layer_model_instantiator import (
    generate_eval_net,
    generate_predict_net,
    generate_training_nets,
    generate_training_nets_forward_only,
)
from caffe2.python.layers import layers
from caffe2.python.layers.tags import TagContext, Tags
from caffe2.python.modeling.parameter_sharing import ParameterSharing
from caffe2.python.optimizer import SgdOptimizer

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4) / 7


class Halved(layers.ModelLayer):
    """A layer of a user's own: a parameter that nobody updates, and another formula while it trains."""

    def __init__(self, model: Any, input_record: Any, name: str = "halved", **kwargs: Any) -> None:
        super().__init__(model, name, input_record, **kwargs)
        self.factor = self.create_param("factor", [1], ("ConstantFill", {"value": 0.5}), model.NoOptim)
        self.output_schema = schema.Scalar(input_record.dtype, self.get_next_blob_reference("output"))

    def add_ops(self, net: Any) -> None:
        net.Mul([self.input_record(), self.factor], self.output_schema(), broadcast=1)

    def add_train_ops(self, net: Any) -> None:
        net.Copy(self.input_record(), self.output_schema())


if not layers.layer_exists("Halved"):
    layers.register_layer("Halved", Halved)


@pytest.fixture
def model() -> Any:
    workspace.ResetWorkspace()
    made = LayerModelHelper("model", schema.Struct(("x", schema.Scalar((np.float32, (4,))))), schema.Struct())
    workspace.FeedBlob("x", ROWS)
    return made


def types(net: Any) -> list[str]:
    """Return the operators of a net."""
    return [op.type for op in net.Proto().op]


def test_a_model_trains_and_predicts(model: Any) -> None:
    model.default_optimizer = SgdOptimizer(0.125)
    hidden = model.FC(model.input_feature_schema.x, 5)
    assert hidden == schema.Scalar((np.float32, (5,)))
    scores = model.FC(hidden, 2)
    model.output_schema = schema.Struct(("scores", scores))
    model.add_loss(model.AveragedLoss(scores, 1))
    init, train = generate_training_nets(model)
    assert types(train).count("WeightedSum") == 4
    assert train.input_record().field_names() == ["x"]
    workspace.RunNetOnce(init)
    losses: list[float] = []
    for _ in range(3):
        workspace.RunNetOnce(train)
        losses.append(float(workspace.FetchBlob(model.loss.field_blobs()[0])))
    assert losses[0] > losses[1] > losses[2]
    predict = generate_predict_net(model)
    assert types(predict) == ["FC", "FC", "AveragedLoss"]
    workspace.RunNetOnce(predict)
    w, b, v, c = (workspace.FetchBlob(blob) for blob in model.get_parameter_blobs())
    found = workspace.FetchBlob(predict.output_record().scores())
    np.testing.assert_allclose(found, (ROWS @ w.T + b) @ v.T + c, rtol=1e-5)


def test_a_layer_of_ones_own_is_asked_for_what_a_net_is_for(model: Any) -> None:
    made = model.Halved(model.input_feature_schema.x, tags=[Tags.EXCLUDE_FROM_EVAL], params_to_metrics=True)
    model.output_schema = schema.Struct(("halved", made))
    init, train = generate_training_nets_forward_only(model)
    assert types(train) == ["Copy", "Copy"]
    assert str(made()) == "halved/output"
    workspace.RunNetOnce(init)
    workspace.RunNetOnce(train)
    np.testing.assert_array_equal(workspace.FetchBlob(made()), ROWS)
    assert workspace.FetchBlob(model.metrics_schema["halved/factor"]()).tolist() == [0.5]
    workspace.RunNetOnce(generate_predict_net(model))
    np.testing.assert_array_equal(workspace.FetchBlob(made()), ROWS / 2)
    with pytest.raises(AssertionError, match="not defined"):
        generate_eval_net(model)


def test_shared_parameters_are_filled_once_and_have_one_form(model: Any) -> None:
    x = model.input_feature_schema.x
    with scope.NameScope("outer"), ParameterSharing({"b": "a"}):
        for name in ("a", "b"):
            with scope.NameScope(name):
                model.FC(x, 3)
        assert [str(layer.w) for layer in model.layers] == ["outer/a/fc/w"] * 2
        assert [str(layer.output_schema()) for layer in model.layers] == ["outer/a/fc/output", "outer/b/fc/output"]
        with scope.NameScope("b"), pytest.raises(ValueError, match="inconsistent shapes"):
            model.create_param("fc/w", [7, 4], ("UniformFill", {}))
    init, net = core.Net("init"), core.Net("net")
    for layer in model.layers:
        layer.add_operators(net, init)
    assert types(init) == ["UniformFill", "UniformFill"]


def test_tags_are_those_that_are_current(model: Any) -> None:
    with Tags(Tags.CPU_ONLY), Tags(["p", "q"]):
        model.Halved(model.input_feature_schema.x)
    assert model.layers[0].tags == {Tags.CPU_ONLY, "p", "q"}
    assert TagContext.current().tags == []


def test_operators_are_layers_and_their_outputs_have_types(model: Any) -> None:
    both = schema.Tuple(model.input_feature_schema.x, model.input_feature_schema.x)
    assert model.Sum(both, 1) == schema.Scalar((np.float32, (4,)))
    assert model.TopK(model.input_feature_schema.x, ["values", "indices"], k=2).field_names() == ["values", "indices"]
    with pytest.raises(AttributeError, match="non-registered layer: Nothing"):
        _ = model.Nothing


def test_outputs_are_called_by_one_name_or_are_a_record(model: Any) -> None:
    """A record keeps its blobs and its types, whatever the operator makes, and each call gives a record of its own."""
    x = model.input_feature_schema.x
    named = model.Relu([x], "activated")
    assert (str(named()), named.dtype) == ("Relu/activated", np.dtype((np.float32, (4,))))
    again = model.StopGradient(x, x)
    assert again is not x
    assert (str(again()), again.dtype) == ("x", x.dtype)
    pair = schema.NewRecord(model.net, schema.Struct(("v", schema.Scalar()), ("i", schema.Scalar(np.int32))))
    both = model.TopK(x, pair, k=2, output_dtypes=np.float64)
    assert [str(blob) for blob in both.field_blobs()] == ["v", "i"]
    assert both.field_types() == pair.field_types()
    with pytest.raises(AssertionError, match="not set"):
        model.Relu(x, schema.Scalar())
    model.output_schema = schema.Struct()
    _, net = generate_training_nets_forward_only(model)
    assert [(op.type, *op.output) for op in net.Proto().op] == [
        ("Relu", "Relu/activated"),
        ("StopGradient", "x"),
        ("TopK", "v", "i"),
    ]


def test_what_a_net_is_for_has_tags(model: Any) -> None:
    """A layer for training alone stands in no other net, and so for the others."""
    nets: dict[str, Any] = {
        "TRAIN": generate_training_nets_forward_only,
        "EVAL": generate_eval_net,
        "PREDICTION": generate_predict_net,
    }
    for kind in nets:
        with Tags(getattr(Tags, f"{kind}_ONLY")):
            model.Relu(model.input_feature_schema.x, kind)
    model.output_schema = schema.Struct()
    for kind, make in nets.items():
        made = make(model)
        net: Any = made[1] if kind == "TRAIN" else made
        assert [op.output[0].rpartition("/")[2] for op in net.Proto().op] == [kind]


def test_lists_of_numbers_have_keys_and_limits() -> None:
    limited = schema.Scalar(np.int64, core.BlobReference("keys"), schema.Metadata(6))
    for made in (schema.List(limited), schema.Map(limited, np.float32), schema.ListWithEvicted(limited)):
        assert (str(layers.get_key(made)()), layers.get_categorical_limit(made)) == ("keys", 6)
    weighted = schema.Map(limited, schema.Scalar((np.float32, (1000,))))  # scores of any type
    assert str(layers.get_key(weighted)()) == "keys"
    with pytest.raises(AssertionError, match="Blob keys doesn't have metadata"):
        layers.get_key(schema.List(schema.Scalar(np.int64, core.BlobReference("keys"))))
    assert layers.almost_equal_schemas(layers.IdListWithEvicted, layers.IdList)
    assert not layers.almost_equal_schemas(layers.IdList, layers.IdListWithEvicted)
    assert not layers.is_request_only_scalar(schema.Scalar())
    asked = schema.Struct(("a", np.int32))
    layers.set_request_only(asked)
    assert layers.is_request_only_scalar(asked.a)


@pytest.mark.parametrize(
    ("add", "shapes", "trained", "predicted"),
    [
        ("Split(x, 2, split=[1, 3])", [(1,), (3,)], "Split split=[1, 3] axis=1", None),
        ("Split(x, 2)", [(2,), (2,)], "Split axis=1", None),
        ("Concat(both)", [(8,)], "Concat axis=1 add_axis=0", None),
        ("Concat(both, add_axis=1)", [(2, 4)], "Concat axis=1 add_axis=1", None),
        ("Dropout(x, ratio=0.25)", [(4,)], "Dropout ratio=0.25 is_test=0", "Dropout ratio=0.25 is_test=1"),
        ("Dropout(x, dropout_for_eval=True)", [(4,)], "Dropout ratio=0.5 is_test=0", None),
        ("FCWithoutBias(x, 3)", [(3,)], "MatMul trans_b=1", None),
    ],
)
def test_layers_add_the_operators_that_caffe2_added(
    model: Any, add: str, shapes: list[Any], trained: str, predicted: str | None
) -> None:
    """As its own layers did, asked by hand; what goes out has the shape that it says."""
    x = model.input_feature_schema.x
    made = eval(f"model.{add}", {"model": model, "x": x, "both": schema.Struct(("a", x), ("b", x))})
    assert [dtype.shape for dtype in made.field_types()] == shapes
    model.output_schema = schema.Struct(("made", made))
    init, train = generate_training_nets_forward_only(model)
    predict = generate_predict_net(model)
    assert (told_of(train), told_of(predict)) == (trained, predicted or trained)
    workspace.RunNetOnce(init)
    for net in (train, predict):
        workspace.RunNetOnce(net)
        assert [workspace.FetchBlob(blob).shape for blob in made.field_blobs()] == [(3, *shape) for shape in shapes]


def told_of(net: Any) -> str:
    """Return the operator of a net with its arguments."""
    (op,) = net.Proto().op
    values = [f"{arg.name}={list(arg.ints) or (arg.f if arg.HasField('f') else arg.i)}" for arg in op.arg]
    return " ".join([op.type, *values])


def test_features_keep_their_places_in_joined_columns(model: Any) -> None:
    """As Caffe2 gave for the same columns."""

    def column(width: int, places: dict[int, list[int]] | None) -> Any:
        known = schema.Metadata(feature_specs=schema.FeatureSpec(feature_to_index=places))
        return schema.Scalar((np.float32, (width,)), core.BlobReference(f"c{width}"), None if places is None else known)

    parts = schema.Tuple(column(2, {1: [0, 1]}), column(3, None), column(4, {2: [0, 1, 2], 1: [3]}))
    known = model.Concat(parts).metadata
    assert known.feature_specs.feature_to_index == {1: [0, 1, 8], 2: [5, 6, 7]}


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("layer", ["Concat", "FC", "FCWithoutBias", "Dropout", "Split", "Relu"])
def test_what_is_the_same_for_a_request_stays_so(layer: str, whole: bool) -> None:
    columns = schema.Struct(("a", schema.Scalar((np.float32, (4,)))), ("b", schema.Scalar((np.float32, (4,)))))
    model = LayerModelHelper("asked", columns, schema.Struct())
    features = model.input_feature_schema
    layers.set_request_only(features if whole else features.a)
    if layer == "Concat":
        out = model.Concat(features)
    else:
        column = features.b
        out = getattr(model, layer)(column) if layer == "Dropout" else getattr(model, layer)(column, 2)
    assert all(layers.is_request_only_scalar(one) is whole for one in out.all_scalars())


def test_a_type_with_its_shape_is_that_of_each_output() -> None:
    columns = schema.Struct(("a", schema.Scalar((np.float32, (4,)))))
    model = LayerModelHelper("typed", columns, schema.Struct())
    loss = model.AveragedLoss(model.input_feature_schema, 1, output_dtypes=(np.float32, (1,)))
    assert loss.field_types() == [np.dtype((np.float32, (1,)))]


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 5), (3, 4)])
def test_terms_and_constraints_of_regularizers(shape: tuple[int, int]) -> None:
    """Terms of the loss are the sums that they say; constraints hold behind them."""
    W = np.random.default_rng(sum(shape)).uniform(-1, 1, shape).astype(np.float32)
    columns = np.sqrt((W**2).sum(axis=0))
    sizes = np.sort(abs(W).ravel())
    groups = [1, shape[1] - 1]
    lengths = [np.sqrt((part**2).sum()) for part in np.split(W, [1], axis=1)]
    positive = np.clip(W, 1e-9, None)
    terms: list[tuple[Any, Any]] = [
        (regularizer.L1Norm(0.5), 0.5 * sizes.sum()),
        (regularizer.L2Norm(0.5), 0.5 * (W**2).sum()),
        (regularizer.LpNorm(0.5, 0.7), 0.5 * (columns**0.7).sum() ** (1 / 0.7)),
        (regularizer.L0ApproxNorm(0.5, 0.8, 2), 0.5 * max(0, np.minimum(columns, 0.8).sum() / 0.8 - 2)),
        (regularizer.ElasticNet(0.3, 0.4), 0.3 * sizes.sum() + 0.4 * (W**2).sum()),
        (regularizer.GroupL1Norm(0.5, groups), 0.5 * np.dot(np.sqrt(groups), lengths)),
        (regularizer.LogBarrier(0.5), -0.25 * np.log(positive).sum()),
    ]
    for made, wanted in terms:
        workspace.ResetWorkspace()
        workspace.FeedBlob("W", W)
        net, init = core.Net("term"), core.Net("term_init")
        term = made(net, init, core.BlobReference("W"), by=regularizer.RegularizationBy.ON_LOSS)
        workspace.RunNetOnce(init)
        workspace.RunNetOnce(net)
        np.testing.assert_allclose(workspace.FetchBlob(str(term)).item(), wanted, rtol=1e-4)
    bounded = regularizer.BoundedGradientProjection(-0.5, 0.25)
    net = core.Net("constraint")
    bounded(net, net, core.BlobReference("W"), None, regularizer.RegularizationBy.AFTER_OPTIMIZER)
    workspace.RunNetOnce(net)
    np.testing.assert_array_equal(workspace.FetchBlob("W"), np.clip(W, -0.5, 0.25))
