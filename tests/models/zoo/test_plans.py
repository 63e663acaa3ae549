"""Every net of the zoo, planned with all engines, against the same net on the engine `reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.models import Model
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import make_argument, prefer_engines
from tazza.proto import NetDef
from tazza.workspace import Workspace

OPTIONS: dict[str, dict[str, Any]] = {
    "lenet": {},
    "mlp": {},
    "squeezenet": {"size": 48, "width": 0.25, "classes": 7, "dropout": 0.0},
    "googlenet": {"size": 96, "width": 0.125, "classes": 7, "dropout": 0.0},
    "vgg16": {"size": 32, "width": 0.125, "classes": 7, "dropout": 0.0},
    "resnet50": {"size": 40, "width": 0.125, "classes": 7},
    "mobilenet_v2": {"size": 64, "width": 0.25, "classes": 7, "dropout": 0.0},
}
# GoogLeNet ends in images of 3 x 3: over 2 x 2, windows of 3 x 3 see the whole image from everywhere, so that positions
# are equal but for rounding, and which of them a gradient goes to is chance.
SLOW = ("googlenet", "mobilenet_v2", "resnet50")
"""Nets that take half a second, and have no other kinds of steps than the others."""


@pytest.fixture(autouse=True)
def _own_engines() -> Any:  # pyright: ignore[reportUnusedFunction] -- a fixture
    yield
    prefer_engines([])


def prepared(name: str, model: Model) -> Workspace:
    ws, options = Workspace(), OPTIONS[name]
    init = NetDef()
    init.CopyFrom(model.init_net.proto)
    for position, op in enumerate(init.op):
        op.device_option.random_seed = position + 1
    ws.run_net_once(init)
    shape = CLASSIFIERS[name].input_shape(3, size=options.get("size"))
    ws.feed("data", np.random.default_rng(9).standard_normal(shape).astype(np.float32))
    ws.feed("label", np.array([1, 4, 2], np.int32))
    return ws


def run(ws: Workspace, model: Model, kind: str, wanted: list[str]) -> dict[str, NDArray[Any]]:
    prefer_engines(["reference"] if kind == "simple" else [])
    net = NetDef()
    net.CopyFrom(model.net.proto)
    net.type = kind
    del net.external_output[:]
    net.external_output.extend(wanted)
    net.arg.append(make_argument("inputs", ["data", "label"]))
    made = ws.create_net(net, overwrite=True)
    made.run()
    engines = {row.engine for row in made.explain().rows}
    assert (engines <= {"reference"}) == (kind == "simple")
    return {name: ws.fetch(name) for name in wanted}


def compare(found: dict[str, NDArray[Any]], expected: dict[str, NDArray[Any]], tolerance: float) -> None:
    for name, value in expected.items():
        span = float(np.abs(value).max())
        np.testing.assert_allclose(found[name], value, rtol=0, atol=tolerance * max(span, 1e-6), err_msg=name)


def test_every_net_has_options() -> None:
    assert sorted(OPTIONS) == sorted(CLASSIFIERS)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in OPTIONS]
)
def test_predictions_are_those_of_the_reference(name: str) -> None:
    model = CLASSIFIERS[name].inference(**{key: v for key, v in OPTIONS[name].items() if key != "dropout"})
    ws = prepared(name, model)
    expected = run(ws, model, "simple", ["softmax"])
    compare(run(ws, model, "plan", ["softmax"]), expected, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONS)
def test_every_parameter_gradient_is_that_of_the_reference(name: str) -> None:
    """Gradients of deep nets with kinks answer to the last bit of their input: that answer is part of the tolerance."""
    model = CLASSIFIERS[name].training(accuracy=False, **OPTIONS[name])
    ws = prepared(name, model)
    gradients = [str(gradient) for gradient in model.parameter_gradients.values()]
    assert len(gradients) >= 6
    wanted = ["loss", *gradients]
    expected = run(ws, model, "simple", wanted)
    found = run(ws, model, "plan", wanted)
    data: NDArray[Any] = ws.fetch("data")
    noise = np.random.default_rng(6).standard_normal(tuple(int(n) for n in data.shape))
    ws.feed("data", (data * (1 + 1e-5 * noise)).astype(np.float32))
    nearby = run(ws, model, "simple", wanted)
    largest = max(float(np.abs(value).max()) for value in expected.values())
    for gradient, value in expected.items():
        sensitivity = float(np.abs(nearby[gradient] - value).max())
        tolerance = max(1e-3 * float(np.abs(value).max()), 3 * sensitivity, 1e-5 * largest)
        np.testing.assert_allclose(found[gradient], value, rtol=0, atol=tolerance, err_msg=gradient)
