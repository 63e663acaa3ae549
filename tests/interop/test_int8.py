"""Nets of bytes out of float32 nets: what they lose, how a plan runs them, and how they are stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError
from tazza.interop import export_nets, load
from tazza.interop.int8 import METHODS, Histogram, Range, calibrate, quantize_nets
from tazza.interop.int8.unfold import folded, with_own_names
from tazza.models import Model, layers
from tazza.models.training import seed_operators
from tazza.operator import operator_def, why_unavailable
from tazza.proto import NetDef
from tazza.proto.message import read_message
from tazza.tensor import Tensor
from tazza.workspace import Workspace

RANDOM = np.random.default_rng(7)
X = RANDOM.standard_normal((5, 3, 9, 11)).astype(np.float32)
SIGNAL_DB = 25.0


def positive(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return RANDOM.uniform(0.2, 0.8, shape).astype(np.float32)


def residual() -> tuple[NetDef, NetDef]:
    """Return a net with normalizations, a residual sum, both poolings, and a fully connected layer on an image."""
    model = Model("residual")

    def conv(x: str, name: str, dims: tuple[int, int], kernel: int) -> Any:
        y = layers.conv(model, x, name, *dims, kernel, pad=kernel // 2)
        return layers.spatial_bn(model, y, f"{name}_bn", dims[1], is_test=True)

    x = conv("data", "stem", (3, 8), 3)
    x = layers.max_pool(model, layers.relu(model, x, x), "pool", 2, stride=2)
    y = conv(x, "a", (8, 12), 3)
    y = conv(layers.relu(model, y, y), "b", (12, 8), 3)
    y = layers.sum(model, [y, x], "sum")
    y = layers.average_pool(model, layers.relu(model, y, y), "mean", 2, stride=2)
    layers.fc(model, y, "scores", 8 * 2 * 2, 10)
    model.net.add_external_output("scores")
    workspace = Workspace()
    seed_operators(model.init_net.proto, 3)
    workspace.run_net_once(model.init_net.proto)
    for name in workspace.blob_names():
        if name.endswith(("_rm", "_b", "_bn_s")):
            workspace.feed(name, positive(workspace.fetch(name).shape))
    return export_nets(model, workspace)


@pytest.fixture(scope="module")
def nets() -> tuple[NetDef, NetDef]:
    return residual()


def scores(nets: tuple[NetDef, NetDef], x: Any, type: str = "plan") -> Any:
    init, predict = nets
    made = NetDef()
    made.CopyFrom(predict)
    made.type = type
    with load(init, made, inputs=["data"]) as predictor:
        return predictor.run(data=x)["scores"]


def signal_db(wanted: Any, found: Any) -> Any:
    """Return the ratio of signal to error of each row; the signal is what differs from the mean."""
    signal = ((wanted - wanted.mean(1, keepdims=True)) ** 2).sum(1)
    return 10 * np.log10(signal / ((wanted - found) ** 2).sum(1))


@pytest.mark.slow
@pytest.mark.parametrize("method", list(METHODS))
def test_scores_stay(nets: tuple[NetDef, NetDef], method: str) -> None:
    small = quantize_nets(*nets, [{"data": X[:2]}, {"data": X[2:]}], method=method)
    wanted = scores(nets, X)
    for type in ("plan", "simple"):
        assert signal_db(wanted, scores(small, X, type)).min() >= SIGNAL_DB


def test_every_layer_gets_bytes(nets: tuple[NetDef, NetDef]) -> None:
    """Between the input and the scores there are no numbers; normalizations are folded."""
    _, predict = quantize_nets(*nets, [{"data": X}])
    assert [op.type for op in predict.op] == [
        *("NCHW2NHWC", "Int8Quantize", "Int8ConvRelu", "Int8MaxPool", "Int8ConvRelu", "Int8Conv", "Int8AddRelu"),
        *("Int8AveragePool", "Int8FC", "Int8Dequantize"),
    ]


def test_a_plan_joins_the_sum_and_reorders_nothing(nets: tuple[NetDef, NetDef]) -> None:
    """Bytes stay in the layout of compiled kernels, and inference, cost and arena know them like any other blobs."""
    if why_unavailable("Int8Conv", "cpu", "onednn") is not None:
        pytest.skip("oneDNN is not there")
    init, predict = quantize_nets(*nets, [{"data": X}])
    predict.type = "plan"
    with load(init, predict, inputs=["data"]) as predictor:
        predictor.run(data=X)
        told = str(predictor.net.explain())
    rows = [line.split()[0] for line in told.splitlines()[1:-1]]
    assert rows == [
        *("NCHW2NHWC", "Int8Quantize", "Int8ConvRelu", "Int8MaxPool", "Int8ConvRelu", "Int8FusedConv"),
        *("Int8AveragePool", "Int8FC", "Int8Dequantize"),
    ]
    assert all(" onednn " in line or " native " in line for line in told.splitlines()[1:-1])
    assert "arena" in told


@pytest.mark.slow
def test_filters_are_brought_into_their_layout_once(
    nets: tuple[NetDef, NetDef], monkeypatch: pytest.MonkeyPatch
) -> None:
    if why_unavailable("Int8Conv", "cpu", "onednn") is not None:
        pytest.skip("oneDNN is not there")
    from tazza.engines.onednn.quantized import scaled

    shifted: list[tuple[int, ...]] = []
    plain = scaled.shift

    def counted(tensor: Tensor, target: Any) -> None:
        shifted.append(tuple(tensor.shape))
        plain(tensor, target)

    monkeypatch.setattr(scaled, "shift", counted)
    init, predict = quantize_nets(*nets, [{"data": X}])
    predict.type = "plan"
    with load(init, predict, inputs=["data"]) as predictor:
        for x in (X, X[:2], X, X[:2], X):
            predictor.run(data=x)
    assert sorted(shifted) == [(8, 3, 3, 3), (8, 3, 3, 12), (10, 32), (12, 3, 3, 8)]


def test_an_old_file_of_one_scale_runs() -> None:
    """As Caffe2's converter wrote them: filters with one scale and any zero point, in nets of either type."""
    rng = np.random.default_rng(3)
    filters, x = rng.integers(0, 256, (4, 3, 3, 3)).astype(np.uint8), rng.standard_normal((2, 5, 7, 3)).astype("f")
    init = NetDef(name="init")
    fill: dict[str, Any] = {"shape": [4, 3, 3, 3], "values": filters.tobytes(), "Y_scale": 0.02, "Y_zero_point": 101}
    init.op.append(operator_def("Int8GivenTensorFill", [], ["w"], **fill))
    init.op.append(operator_def("Int8GivenIntTensorFill", [], ["b"], shape=[4], values=[1, -2, 3, 4], Y_scale=0.001))
    predict = NetDef(name="old", external_input=["data", "w", "b"], external_output=["y"])
    predict.op.append(operator_def("Int8Quantize", ["data"], ["q"], Y_scale=0.05, Y_zero_point=110))
    arguments: dict[str, Any] = {"kernel": 3, "order": "NHWC", "Y_scale": 0.2, "Y_zero_point": 90}
    predict.op.append(operator_def("Int8Conv", ["q", "w", "b"], ["r"], **arguments))
    predict.op.append(operator_def("Int8Dequantize", ["r"], ["y"]))
    found: list[Any] = []
    for type in ("simple", "plan", "async_scheduling"):
        predict.type = type
        with load(init, predict, inputs=["data"]) as predictor:
            found.append(predictor.run(data=x)["y"])
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], atol=0.2001)
    assert np.unique(found[0]).size > 20


@pytest.mark.slow
def test_kept_layers_stay_float32(nets: tuple[NetDef, NetDef]) -> None:
    small = quantize_nets(*nets, [{"data": X}], keep=["scores"])
    assert [op.type for op in small[1].op][-3:] == ["Int8Dequantize", "NHWC2NCHW", "FC"]
    assert signal_db(scores(nets, X), scores(small, X)).min() >= SIGNAL_DB


def test_stored_and_loaded_again(nets: tuple[NetDef, NetDef], tmp_path: Path) -> None:
    """Through files, and through a database of blobs: scales of channels come back."""
    init, predict = quantize_nets(*nets, [{"data": X}])
    for name, net in (("init_net.pb", init), ("predict_net.pb", predict)):
        (tmp_path / name).write_bytes(net.SerializeToString())
    with load(tmp_path / "init_net.pb", tmp_path / "predict_net.pb", inputs=["data"]) as predictor:
        np.testing.assert_array_equal(predictor.run(data=X)["scores"], scores((init, predict), X))
    workspace = Workspace()
    workspace.run_net_once(init)
    names = [op.output[0] for op in init.op]
    path: dict[str, Any] = {"db": str(tmp_path / "blobs"), "db_type": "minidb", "absolute_path": 1}
    workspace.run_operator(operator_def("Save", names, [], **path))
    other = Workspace()
    other.run_operator(operator_def("Load", [], names, **path))
    for name in names:
        first, second = (space.blob(name).value for space in (workspace, other))
        assert isinstance(first, Tensor)
        assert isinstance(second, Tensor)
        assert first.spec == second.spec
        np.testing.assert_array_equal(first.array, second.array)


def test_folding_changes_no_numbers(nets: tuple[NetDef, NetDef]) -> None:
    init, predict = nets
    workspace = Workspace()
    workspace.run_net_once(init)
    parameters = {name: workspace.fetch(name) for name in workspace.blob_names() if name != "data"}
    net, values = folded(with_own_names(predict), parameters)
    assert not any(op.type == "SpatialBN" for op in net.op)
    for name, value in {**values, "data": X}.items():
        workspace.feed(name, value)
    workspace.run_net_once(net)
    np.testing.assert_allclose(workspace.fetch("scores"), scores(nets, X), rtol=1e-4, atol=1e-5)


def test_ranges_hold_zero_and_what_was_seen() -> None:
    assert Range(0.5, 2.55).quantization.zero_point == 0
    assert Range(-1.0, -0.5).quantization.zero_point == 255
    assert Range(0.0, 0.0).quantization.scale == 1.0
    seen = Histogram.of(np.r_[np.linspace(-1, 1, 100_001), 1e6].astype(np.float32))
    low, high = (METHODS[name](seen).high for name in ("min-max", "percentile"))
    assert {low > 1e5, high > 1e5} == {True, False}


def test_what_cannot_be_calibrated_is_refused(nets: tuple[NetDef, NetDef]) -> None:
    with pytest.raises(ArgumentError, match="no batches"):
        quantize_nets(*nets, [])
    with pytest.raises(ArgumentError, match="no method 'best'"):
        calibrate(nets[1], {}, [], method="best")


@pytest.mark.slow
def test_a_published_net(shared: Path) -> None:
    """The residual net of 32 x 32 in the wild: at least 25 dB for every image, on images that it was not watched on."""
    folder = shared / "interop" / "resnet_32x32"
    init, predict = (read_message(folder / name, NetDef) for name in ("init_net.pb", "predict_net.pb"))
    softmax = predict.op.pop()
    predict.external_output[:] = [softmax.input[0]]
    given = np.load(folder / "expected.npz")["data"]
    others = RANDOM.uniform(0, 1, (32, *given.shape[1:])).astype(np.float32)
    small = quantize_nets(init, predict, [{"data": others}])
    found: list[Any] = []
    for nets in ((init, predict), small):
        with load(*nets, inputs=["data"]) as predictor:
            found.append(predictor.run(data=given)[softmax.input[0]])
    assert signal_db(*found).min() >= SIGNAL_DB


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.2, 1.5])
def test_a_slope_and_shares(alpha: float) -> None:
    """Both are on bytes; a slope that bytes have not stays float32."""
    model = Model("slope")
    model.fc("data", "y", 7, 5)
    model.net.add("LeakyRelu", "y", "z", alpha=alpha)
    model.fc("z", "logits", 5, 3)
    model.net.add("Softmax", "logits", "scores")
    model.net.add_external_output("scores")
    workspace = Workspace()
    seed_operators(model.init_net.proto, 3)
    workspace.run_net_once(model.init_net.proto)
    nets, x = export_nets(model, workspace), np.random.default_rng(4).standard_normal((11, 7)).astype(np.float32)
    small = quantize_nets(*nets, [{"data": x}])
    types = [op.type for op in small[1].op]
    assert ("Int8LeakyRelu" in types) is (alpha < 1)
    assert types[-2:] == ["Int8Softmax", "Int8Dequantize"]
    assert np.abs(scores(small, x) - scores(nets, x)).max() < 0.03
