"""Which operators become bytes, how near their numbers stay, and that Caffe2 computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError
from tazza.interop import export_nets, load
from tazza.interop.int8 import BYTES, METHODS, compare, quantize_nets, watch_nets
from tazza.models import Model
from tazza.models.training import seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import SCHEMAS, operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.interop.int8.mixed import data, mixed

RECORDED = Path(__file__).parents[2] / "data" / "quantized" / "mixed.npz"
TYPES = [
    *("NCHW2NHWC", "Int8Quantize", "Int8ConvRelu", "Int8ConvRelu", "Int8Conv", "Int8AddRelu", "Int8Concat"),
    *("Int8MaxPool", "Int8ResizeNearest", "Int8ChannelShuffle", "Int8LeakyRelu", "Int8AveragePool", "Int8Flatten"),
    *("Int8FC", "Int8Softmax", "Int8Dequantize", "Int8Dequantize"),
]


def ran(nets: tuple[NetDef, NetDef], x: Any, type: str = "plan") -> dict[str, Any]:
    made = NetDef()
    made.CopyFrom(nets[1])
    made.type = type
    with load(nets[0], made, inputs=["data"]) as predictor:
        return predictor.run(data=x)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["channel", "tensor"])
@pytest.mark.parametrize("method", list(METHODS))
def test_a_net_of_everything(method: str, weights: str) -> None:
    nets, x = mixed(), data(20, seed=5)
    small = watch_nets(*nets, [{"data": data()}]).quantized(method=method, weights=weights)
    assert small.kept == {}
    if weights == "channel":
        assert [op.type for op in small.predict_net.op] == TYPES
    wanted = ran(nets, x)
    for type in ("plan", "simple"):
        found = ran((small.init_net, small.predict_net), x, type)
        assert np.abs(found["softmax"] - wanted["softmax"]).max() < 0.05
        error = np.abs(found["scores"] - wanted["scores"]).max()
        assert error < 0.05 * np.abs(wanted["scores"]).max()


@pytest.mark.parametrize("type", ["simple", "plan", "async_scheduling"])
def test_caffe2_computes_the_same_with_these_nets(type: str) -> None:
    """Recorded: nets with one scale for all filters of a layer run there as they are."""
    with np.load(RECORDED, allow_pickle=False) as stored:
        init, predict = (NetDef.FromString(stored[name].tobytes()) for name in ("init", "net"))
        x, wanted = stored["data"], {name[4:]: stored[name] for name in stored.files if name.startswith("out_")}
    steps = {
        op.output[0]: next(
            arg.f
            for source in predict.op
            for arg in source.arg
            if arg.name == "Y_scale" and op.input[0] in source.output
        )
        for op in predict.op
        if op.type == "Int8Dequantize"
    }
    found = ran((init, predict), x, type)
    assert set(found) == set(wanted)
    for name in wanted:
        assert np.abs(found[name] - wanted[name]).max() <= 1.01 * steps[name], name


def test_every_rule_is_for_an_operator() -> None:
    assert set(BYTES) <= set(SCHEMAS.keys())


Single = tuple[tuple[NetDef, NetDef], NDArray[np.float32]]


def single(type: str, inputs: list[str], shape: tuple[int, ...], parameters: dict[str, Any], **args: Any) -> Single:
    """Return nets of a convolution and an operator behind it, and images."""
    model = Model("single")
    model.conv("data", "x", shape[1], 4, 3, pad=1)
    for name, value in parameters.items():
        fill: dict[str, Any] = {"shape": list(value.shape), "values": value.reshape(-1).tolist()}
        model.init_net.add("GivenTensorFill", [], [name], **fill)
    model.net.add(type, inputs, "y", **args)
    model.net.add_external_output("y")
    workspace = Workspace()
    seed_operators(model.init_net.proto, 3)
    workspace.run_net_once(model.init_net.proto)
    nets = export_nets(model, workspace, parameters=[*parameters, "x_w", "x_b"])
    return nets, np.random.default_rng(2).standard_normal(shape).astype(np.float32)


RANDOM = np.random.default_rng(6)
TURNED = {"w": RANDOM.standard_normal((4, 5, 3, 2)).astype(np.float32), "b": RANDOM.standard_normal(5).astype("f")}


def test_a_transposed_convolution_and_a_sigmoid() -> None:
    for type, inputs, parameters, args in (
        ("ConvTranspose", ["x", "w", "b"], TURNED, {"kernels": [3, 2], "strides": [2, 2]}),
        ("Sigmoid", ["x"], {}, {}),
    ):
        nets, x = single(type, inputs, (2, 3, 5, 7), parameters, **args)
        small = quantize_nets(*nets, [{"data": x}])
        assert f"Int8{type}" in [op.type for op in small[1].op]
        wanted, found = ran(nets, x)["y"], ran(small, x)["y"]
        assert np.abs(found - wanted).max() < 0.05 * np.abs(wanted).max()


@pytest.mark.parametrize(
    ("type", "args", "reason"),
    [
        ("LeakyRelu", {"alpha": 1.5}, "alpha = 1.5"),
        ("Softmax", {"axis": 2}, "axis = 2"),
        ("Tanh", {}, "Tanh has no rule"),
        ("Flatten", {}, "another order"),
        ("AveragePool", {"kernel": 3, "pad": 1}, "count padding"),
        ("Dropout", {"is_test": 1}, None),
        ("Clip", {"min": 0.0, "max": 0.5}, None),
        ("Clip", {"min": -0.25, "max": 0.5}, "cuts at 0 alone"),
    ],
)
def test_what_stays_float32_says_why(type: str, args: dict[str, Any], reason: str | None) -> None:
    nets, x = single(type, ["x"], (2, 3, 5, 7), {}, **args)
    small = watch_nets(*nets, [{"data": x}]).quantized()
    assert set(small.kept) == (set() if reason is None else {"y"})
    assert reason is None or reason in small.kept["y"]
    found = ran((small.init_net, small.predict_net), x)["y"]
    wanted = ran(nets, x)["y"]
    assert np.abs(found - wanted).max() <= 0.05 * np.abs(wanted).max()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "squeezenet"])
def test_nets_of_phones_are_bytes_to_their_scores(name: str) -> None:
    """Clip from 0 to 6 becomes part of convolutions, and a reshape of one place rows; shares of 1000 stay float32."""
    model, workspace = CLASSIFIERS[name].inference(), Workspace()
    seed_operators(model.init_net.proto, 3)
    workspace.run_net_once(model.init_net.export())
    nets = export_nets(model, workspace)
    images = np.random.default_rng(1).standard_normal((1, 3, 224, 224)).astype(np.float32)
    small = watch_nets(*nets, [{"data": images}]).quantized()
    assert list(small.kept) == ["softmax"]
    assert "its largest share is" in small.kept["softmax"]
    types = {op.type for op in small.predict_net.op}
    assert types.isdisjoint({"Conv", "Clip", "Reshape", "Concat", "Sum", "AveragePool", "Int8Relu"})
    compared = compare(small, [{"data": images}])
    assert min(row.signal_db for row in compared.rows) > 15


def test_refused() -> None:
    seen = watch_nets(*mixed(), [{"data": data()}])
    with pytest.raises(ArgumentError, match="no operator makes 'nothing'"):
        seen.quantized(keep=["nothing"])
    with pytest.raises(ArgumentError, match="not scaled by 'row'"):
        seen.quantized(weights="row")


def test_a_net_that_would_write_files_is_not_run() -> None:
    from tazza.errors import TrustError

    init, predict = mixed()
    predict.op.append(operator_def("Save", ["scores"], [], db="/nowhere", db_type="minidb"))
    with pytest.raises(TrustError):
        watch_nets(init, predict, [{"data": data()}])
