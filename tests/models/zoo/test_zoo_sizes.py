"""The classifiers of the zoo: published sizes, shapes, a forward pass, a training step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.graph.inference import OperatorSpecs, infer_net
from tazza.models import Model, ParameterKind, sgd
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import Spec
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace

SLOW = ("googlenet", "mobilenet_v2", "resnet50", "squeezenet")
"""Nets that take half a second with their preparation, however small; their sizes are compared at every check."""
LEARNED = (ParameterKind.WEIGHT, ParameterKind.BIAS)

PUBLISHED = {
    # parameters; multiplications of a forward pass of one image, in 10^9
    "lenet": (431_080, 0.0023),
    "mlp": (269_322, 0.00027),
    "squeezenet": (1_235_496, 0.35),
    "googlenet": (6_998_552, 1.58),
    "vgg16": (138_357_544, 15.47),
    "resnet50": (25_557_032, 4.09),
    "mobilenet_v2": (3_504_872, 0.300),
}

TINY: dict[str, dict[str, Any]] = {
    "lenet": {"channels": 2, "classes": 7},
    "mlp": {"channels": 2, "size": 3, "classes": 7, "hidden": (11, 5)},
    "squeezenet": {"channels": 2, "size": 35, "classes": 7, "width": 0.1},
    "googlenet": {"channels": 2, "size": 37, "classes": 7, "width": 0.1},
    "vgg16": {"channels": 2, "size": 33, "classes": 7, "width": 0.05},
    "resnet50": {"channels": 2, "size": 35, "classes": 7, "width": 0.1, "blocks": (1, 2)},
    "mobilenet_v2": {"channels": 2, "size": 33, "classes": 7, "width": 0.1},
}


def specs(name: str, model: Model, batch: int, **sizes: int) -> list[OperatorSpecs]:
    """Return what is known of each operator for a batch of images."""
    known: dict[str, Spec] = {p.blob: TensorSpec(p.shape, DataType.FLOAT) for p in model.parameters.values()}
    known["data"] = TensorSpec(CLASSIFIERS[name].input_shape(batch, **sizes), DataType.FLOAT)
    known["label"] = TensorSpec((batch,), DataType.INT32)
    return infer_net(model.net.proto, known)


def sizes_of(options: dict[str, Any]) -> dict[str, int]:
    """Return those options that say how large an image is."""
    return {name: options[name] for name in ("channels", "size") if name in options}


def ready(model: Model, name: str, batch: int, options: dict[str, Any]) -> Workspace:
    """Return a workspace with parameters and a batch of images."""
    random, ws = np.random.default_rng(3), Workspace()
    model.init_net.proto.device_option.random_seed = 5
    ws.run_net_once(model.init_net.proto, strict=True)
    shape = CLASSIFIERS[name].input_shape(batch, **sizes_of(options))
    ws.feed("data", random.standard_normal(shape, dtype=np.float32))
    ws.feed("label", random.integers(0, options["classes"], batch, dtype=np.int32))
    return ws


def test_every_classifier_is_tested() -> None:
    assert set(PUBLISHED) == set(TINY) == set(CLASSIFIERS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_sizes_are_the_published_ones(name: str) -> None:
    parameters, multiplications = PUBLISHED[name]
    model = CLASSIFIERS[name].inference()
    assert sum(int(np.prod(p.shape)) for p in model.parameters.values() if p.kind in LEARNED) == parameters
    known = specs(name, model, 1)
    last = known[-1].outputs[0]
    assert isinstance(last, TensorSpec)
    assert last.dims == (1, CLASSIFIERS[name].classes)
    products = [op.cost for op in known if op.definition.type in ("Conv", "FC")]
    flops = sum(cost.flops for cost in products if cost is not None)
    assert flops / 2e9 == pytest.approx(multiplications, rel=0.03)


SMALL = [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in TINY]


@pytest.mark.parametrize("name", SMALL)
def test_a_tiny_one_predicts(name: str) -> None:
    options = TINY[name]
    model = CLASSIFIERS[name].inference(**options)
    ws = ready(model, name, 3, options)
    ws.create_net(model.net.proto, strict=True).run()
    found = ws.fetch("softmax")
    assert found.shape == (3, options["classes"])
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    inferred = specs(name, model, 3, **sizes_of(options))
    shapes = {
        o: s.dims
        for op in inferred
        for o, s in zip(op.definition.output, op.outputs, strict=True)
        if isinstance(s, TensorSpec)
    }
    assert {o: tuple(ws.fetch(o).shape) for o in shapes if o in ws.local_blobs()} == shapes


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_tiny_one_trains(name: str) -> None:
    options = TINY[name]
    model = CLASSIFIERS[name].training(**options)
    assert set(model.parameter_gradients) == set(model.parameter_blobs(*LEARNED))
    sgd(model, 0.01, momentum=0.9)
    ws = ready(model, name, 3, options)
    before = {p: ws.fetch(p) for p in model.parameter_blobs(*LEARNED)}
    net = ws.create_net(model.net.proto, strict=True)
    net.run()
    assert np.isfinite(ws.fetch("loss"))
    assert 0 <= float(ws.fetch("accuracy")) <= 1
    moved = [p for p, value in before.items() if not np.array_equal(value, ws.fetch(p))]
    assert len(moved) > len(before) / 2


@pytest.mark.parametrize(
    ("name", "size"), [("lenet", 32), ("vgg16", 31), ("squeezenet", 30), ("googlenet", 31), ("resnet50", 1)]
)
def test_a_size_that_does_not_fit_is_refused(name: str, size: int) -> None:
    with pytest.raises(ShapeError, match=rf"{name} takes images of .*, not {size} x {size}"):
        CLASSIFIERS[name].inference(size=size)
