"""Nets whose activations are of 16 bits: what is cast where, what stays in float32, what is refused."""

from __future__ import annotations

import pytest

from tazza.device import device_option
from tazza.errors import DTypeError, NotFoundError
from tazza.graph.inference import infer_net
from tazza.graph.transforms.pointwise_cluster import PointwiseCluster
from tazza.models import Model, layers
from tazza.models.mixed_precision import in_sixteen_bits
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import find_schema
from tazza.tensor import CPUPlace, CUDAPlace, DataType, TensorSpec


def texts(model: Model) -> list[str]:
    """Return the operators of a model's net, as far as types and blobs go."""
    return [f"{op.type} {' '.join(op.input)} -> {' '.join(op.output)}" for op in model.net.proto.op]


def test_a_parameter_is_cast_once_and_learns_in_float32() -> None:
    model = Model("twice")
    layers.fc(model, "X", "first", 3, 3)
    model.net.add("FC", ["first", "first_w", "first_b"], "second")
    assert in_sixteen_bits(model, "second") == "second_float32"
    assert texts(model) == [
        "FloatToHalf X -> X_float16",
        "FloatToHalf first_w -> first_w_float16",
        "FloatToHalf first_b -> first_b_float16",
        "FC X_float16 first_w_float16 first_b_float16 -> first",
        "FC first first_w_float16 first_b_float16 -> second",
        "HalfToFloat second -> second_float32",
    ]
    loss = model.net.add("AveragedLoss", "second_float32", "loss")
    gradients = model.add_gradients([loss])
    made = {name: op.type for op in model.net.proto.op for name in op.output}
    assert {made[str(gradients[name])] for name in ("first_w", "first_b")} == {"HalfToFloat"}


def test_statistics_and_what_takes_float32_alone_stay() -> None:
    model = Model("kinds")
    x = layers.spatial_bn(model, "X", "n", 4, is_test=False)
    x = model.net.add("Exp", layers.relu(model, x, x), "powers")
    assert in_sixteen_bits(model, x, "bfloat16") == "powers"  # is float32 already
    assert texts(model) == [
        "FloatToBFloat16 X -> X_bfloat16",
        "SpatialBN X_bfloat16 n_s n_b n_rm n_riv -> n n_rm n_riv n_sm n_siv",
        "Relu n -> n",
        "BFloat16ToFloat n -> n_float32",
        "Exp n_float32 -> powers",
    ]


def test_sums_of_integers_are_left_alone_and_lists_get_one_type() -> None:
    model = Model("lists")
    model.net.add("Sum", ["i", "j"], "sum")
    model.net.add("Relu", "X", "positive")
    x, _ = model.net.add("Concat", ["positive", "Z"], ["joined", "lengths"], axis=1)
    in_sixteen_bits(model, x)
    assert texts(model) == [
        "Sum i j -> sum",
        "FloatToHalf X -> X_float16",
        "Relu X_float16 -> positive",
        "FloatToHalf Z -> Z_float16",
        "Concat positive Z_float16 -> joined lengths",
        "HalfToFloat joined -> joined_float32",
    ]


def test_what_was_overwritten_is_cast_anew() -> None:
    model = Model("anew")
    model.net.add("Relu", "X", "Y")
    model.net.add("Exp", "Y", "first")
    model.net.add("Relu", "Y", "Y")
    model.net.add("Exp", "Y", "second")
    in_sixteen_bits(model, "second")
    assert [text for text in texts(model) if text.startswith("HalfToFloat")] == [
        "HalfToFloat Y -> Y_float32",
        "HalfToFloat Y -> Y_float32_2",
    ]


def test_refused() -> None:
    model = Model("refused")
    layers.fc(model, "X", "scores", 3, 2)
    with pytest.raises(DTypeError, match="activations in float64"):
        in_sixteen_bits(model, "scores", DataType.DOUBLE)
    with pytest.raises(NotFoundError, match="no operator of net"):
        in_sixteen_bits(model, "softmax")


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_nothing_but_ends_of_a_classifier_is_cast_back(name: str) -> None:
    """Data and parameters once each, scores: all between stays in 16 bits."""
    model = CLASSIFIERS[name].training(activations="float16")
    forward = model.net.proto.op[: next(i for i, op in enumerate(model.net.proto.op) if op.type == "SoftmaxWithLoss")]
    kinds = [op.type for op in forward]
    assert kinds.count("HalfToFloat") == 1
    cast = [name for op in forward if op.type == "FloatToHalf" for name in op.input]
    assert sorted(cast) == sorted({*cast} & {"data", *model.parameters})


def test_types_that_follow_hold_on_devices_alone() -> None:
    there = find_schema("Relu").inputs_by_letter["X"]
    assert there.taken_on(host=True) == {DataType.FLOAT}
    assert there.taken_on(host=False) == {DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16}


@pytest.mark.parametrize("whole", [False, True], ids=["each operator", "the net"])
def test_types_follow_where_a_net_or_its_operators_say_that_they_are_on_a_device(whole: bool) -> None:
    model = Model("inferred")
    scores = layers.relu(model, layers.fc(model, "X", "scores", 3, 2), "positive")
    in_sixteen_bits(model, scores, "bfloat16")
    net = model.net.proto
    for holder in [net] if whole else net.op:
        holder.device_option.CopyFrom(device_option(CUDAPlace(0)))
    given = {"X": TensorSpec((5, 3), DataType.FLOAT), "scores_w": TensorSpec((2, 3), DataType.FLOAT)}
    found = infer_net(net, given | {"scores_b": TensorSpec((2,), DataType.FLOAT)})
    assert str(found[-1].inputs[0]) == "bfloat16[5, 2]"
    assert str(found[-1].outputs[0]) == "float32[5, 2]"


def test_before_shapes_are_known_a_chain_is_taken_for_float32_on_the_host_alone() -> None:
    """What two rectifiers become there refuses other types: on a device it would refuse 16 bits."""
    net = Model("chain").net
    net.add("Sigmoid", net.add("Relu", "X", "Y"), "Z")
    net.add_external_output("Z")
    for place, made in ((CPUPlace(), ["Pointwise"]), (CUDAPlace(0), ["Relu", "Sigmoid"])):
        net.proto.device_option.CopyFrom(device_option(place))
        assert [op.type for op in PointwiseCluster().apply(net.proto).net.op] == made
