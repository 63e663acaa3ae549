"""Models: parameters and their fills, layers, sharing, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_by
from hypothesis import settings
from hypothesis.extra.numpy import array_shapes, arrays

from tazza.errors import DTypeError, DuplicateError, NotFoundError, ShapeError
from tazza.models import (
    LAYERS,
    BlobReference,
    Model,
    ParameterKind,
    constant,
    gaussian,
    given,
    layer,
    layers,
    msra,
    name_scope,
    uniform,
)
from tazza.operator import find_argument
from tazza.proto import NetDef
from tazza.tensor import DataType
from tazza.workspace import Workspace


def fills(net: NetDef) -> list[tuple[str, str, list[int]]]:
    """Return type, blob and shape of each fill."""
    found: list[tuple[str, str, list[int]]] = []
    for op in net.op:
        shape = find_argument(op, "shape")
        assert shape is not None
        found.append((op.type, op.output[0], list(shape.ints)))
    return found


def test_parameters_have_the_names_and_fills_of_brew() -> None:
    model = Model("brewed")
    layers.conv(model, "x", "c", 1, 5, 3, stride=2, pad=1)
    layers.conv(model, "c", "c2", 6, 4, [3, 2], order="NHWC", group=2, use_bias=False)
    layers.fc(model, "c2", "f", 7, 3, weight=gaussian(std=0.1), bias=constant(1.0))
    assert fills(model.init_net.proto) == [
        ("XavierFill", "c_w", [5, 1, 3, 3]),
        ("ConstantFill", "c_b", [5]),
        ("XavierFill", "c2_w", [4, 3, 2, 3]),
        ("GaussianFill", "f_w", [3, 7]),
        ("ConstantFill", "f_b", [3]),
    ]
    conv, conv2, _ = model.net.proto.op
    assert [(a.name, a.i) for a in conv.arg] == [("kernel", 3), ("stride", 2), ("pad", 1)]
    assert [a.name for a in conv2.arg] == ["kernels", "group", "order"]


def test_kinds_of_parameters() -> None:
    model = Model("kinds")
    layers.spatial_bn(model, "x", "bn", 3, is_test=False, momentum=0.8)
    assert model.parameter_blobs(ParameterKind.WEIGHT) == ["bn_s"]
    assert model.parameter_blobs(ParameterKind.BIAS) == ["bn_b"]
    assert model.parameter_blobs(ParameterKind.COMPUTED) == ["bn_rm", "bn_riv"]
    assert list(model.net.proto.op[0].output) == ["bn", "bn_rm", "bn_riv", "bn_sm", "bn_siv"]


def test_scopes_reach_parameters() -> None:
    model = Model("scoped_model")
    with name_scope("s"):
        assert layers.fc(model, "x", "y", 2, 3) == "s/y"
    assert list(model.parameters) == ["s/y_w", "s/y_b"]
    assert [op.output[0] for op in model.init_net.proto.op] == ["s/y_w", "s/y_b"]


def test_a_test_net_shares_the_parameters() -> None:
    train = Model("train")
    layers.fc(train, "x", "y", 2, 3)
    test = Model("test", parameters_of=train)
    layers.fc(test, "x", "y", 2, 3)
    layers.fc(test, "y", "extra", 3, 1)
    assert [op.output[0] for op in test.init_net.proto.op] == ["extra_w", "extra_b"]
    assert list(test.parameters) == ["y_w", "y_b", "extra_w", "extra_b"]
    with pytest.raises(ShapeError, match=r"'y_w' has the shape \(3, 2\), it is asked for with \(4, 2\)"):
        layers.fc(Model("test", parameters_of=train), "x", "y", 2, 4)


def test_layers_of_one_model_share_what_they_are_given() -> None:
    model = Model("tied")
    layers.fc(model, "x", "y", 3, 3)
    weight = BlobReference("y_w")
    layers.fc(model, "y", "z", 3, 3, weight=weight)
    assert list(model.net.proto.op[1].input) == ["y", "y_w", "z_b"]
    with pytest.raises(DuplicateError, match="has a parameter 'y_w' already"):
        layers.fc(model, "x", "y", 3, 3)
    with pytest.raises(NotFoundError, match="has no parameter 'nobody'"):
        layers.fc(model, "x", "q", 3, 3, weight=BlobReference("nobody"))


def test_layers_are_methods_too() -> None:
    model = Model("methods")
    assert model.relu("x", "y") == "y"
    assert "conv" in dir(model)
    misspelt = "rleu"
    with pytest.raises(AttributeError, match="no layer 'rleu'; did you mean relu"):
        getattr(model, misspelt)


def test_third_parties_add_layers() -> None:
    try:

        @layer
        def twice(model: Model, x: str, name: str) -> BlobReference:
            """Add 2 * x."""
            return model.net.add("Scale", x, name, scale=2.0)

        model: Any = Model("third")  # layers of others are methods when it runs, and functions to type checkers
        assert model.twice("x", "y") == "y" == twice(model, "x", "y")
        assert LAYERS.help("twice") == "Add 2 * x."
    finally:
        LAYERS.unregister("twice")


def test_every_layer_has_a_line_of_help() -> None:
    assert all(LAYERS.help(name) for name in LAYERS)


@pytest.mark.parametrize(
    "values",
    [
        np.array([[1, 2, 3]], np.float32),
        np.array([1.0, 2.0]),
        np.array([1], np.int32),
        np.array([1, 2], np.int64),
        np.array([True, False, True]),
        np.array([b"a", b"bc"], object),
        np.array([[1, 200]], np.uint8),
    ],
    ids=lambda array: str(array.dtype),
)
def test_given_values_come_back(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    model = Model("given_values")
    model.add_parameter("w", values.shape, given(values))
    ws = Workspace()
    ws.run_net_once(model.init_net.proto, strict=True)
    np.testing.assert_array_equal(ws.fetch("w"), values)
    assert DataType.of(ws.fetch("w")) is DataType.of(values)


@given_by(arrays(np.float32, array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
@settings(max_examples=30, deadline=None)
def test_given_floats_are_exact(values: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    model = Model("exact")
    model.add_parameter("w", values.shape, given(values))
    ws = Workspace()
    ws.run_net_once(model.init_net.proto, strict=True)
    assert ws.fetch("w").shape == values.shape
    np.testing.assert_array_equal(ws.fetch("w"), values)


def test_given_values_are_checked() -> None:
    with pytest.raises(ShapeError, match=r"'w' has the shape \(3,\), the values given for it have \(2,\)"):
        Model("other").add_parameter("w", [3], given(np.array([1, 2], np.float32)))
    with pytest.raises(DTypeError, match="no fill operator carries float16 values"):
        given(np.zeros(2, np.float16))


def test_random_initializers() -> None:
    model = Model("random")
    for name, start in (("m", msra()), ("g", gaussian(1, 0.5)), ("u", uniform(-1, 2))):
        model.add_parameter(name, [200, 50], start)
    ws = Workspace()
    ws.run_net_once(model.init_net.proto, strict=True)
    assert abs(ws.fetch("m").std() - (2 / 200) ** 0.5) < 0.005
    assert abs(ws.fetch("g").mean() - 1) < 0.05
    assert -1 <= ws.fetch("u").min() < ws.fetch("u").max() < 2


def test_gradients_of_parameters() -> None:
    model = Model("gradients")
    y = layers.fc(model, "x", "y", 2, 3)
    layers.fc(model, "x", "unused", 2, 3)
    model.add_gradients([layers.averaged_loss(model, y, "loss")])
    assert model.parameter_gradients == {"y_w": "y_w_grad", "y_b": "y_b_grad"}


def test_iteration_counter() -> None:
    model = Model("counting")
    layers.iter(model, "it")
    ws = Workspace()
    ws.run_net_once(model.init_net.proto, strict=True)
    ws.create_net(model.net.proto, strict=True).run()
    assert ws.fetch("it").tolist() == [1]


def test_the_other_layers_run() -> None:
    model = Model("all")
    x = layers.cast(model, "bytes", "x", DataType.FLOAT)
    x = layers.stop_gradient(model, layers.scale(model, x, "scaled", 0.5))
    pooled = layers.average_pool(model, layers.max_pool(model, x, "most", 2, stride=2), "mean", global_pooling=1)
    both = layers.sum(model, [pooled, layers.copy(model, pooled, "again")], "both")
    softmax, loss = layers.softmax_with_loss(model, layers.fc(model, both, "f", 3, 4), "label", ["p", "loss"])
    layers.accuracy(model, softmax, "label", "right", top_k=2)
    model.add_gradients([loss])
    ws = Workspace()
    ws.feed("bytes", np.arange(2 * 3 * 4 * 6, dtype=np.uint8).reshape(2, 3, 4, 6))
    ws.feed("label", np.array([1, 3], np.int32))
    ws.run_net_once(model.init_net.proto, strict=True)
    ws.run_net_once(model.net.proto, strict=True)
    assert ws.fetch("f_w_grad").shape == (4, 3)
    assert ws.fetch("right").shape == ()
