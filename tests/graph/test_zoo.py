"""All transforms on the nets of the zoo, made small: the same numbers before and after."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest

from tazza.graph.inference import infer_net
from tazza.graph.transform import PassContext, Rewritten, apply_all
from tazza.models.model import Model
from tazza.models.optimizer import sgd
from tazza.models.training import seed_operators
from tazza.models.zoo import CLASSIFIERS
from tazza.operator import Array, Spec
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace

BATCH = 3
SMALL: dict[str, dict[str, Any]] = {
    "resnet50": {"width": 0.125, "size": 32, "blocks": (1, 2), "classes": 5},
    "mobilenet_v2": {"width": 0.25, "size": 64, "classes": 5},
    "lenet": {"classes": 5},
    "mlp": {"classes": 5},
}
SLOW = {"inference": ("mobilenet_v2",), "training": ("mobilenet_v2", "resnet50")}
"""Deep nets, on which the passes do what they do on the others, more often."""


def specs_of(model: Model, shape: tuple[int, ...]) -> dict[str, Spec]:
    """Return the specs of parameters and inputs."""
    found: dict[str, Spec] = {
        "data": TensorSpec(shape, DataType.FLOAT),
        "label": TensorSpec((BATCH,), DataType.INT32),
    }
    for operator in infer_net(model.init_net.proto, {}):
        pairs = zip(operator.definition.output, operator.outputs, strict=True)
        found.update((name, spec) for name, spec in pairs if spec is not None)
    return found


def spread(before: Workspace, after: Workspace, name: str, random: np.random.Generator) -> None:
    """Move each number of a float32 blob a little, and give both workspaces the same."""
    value = before.fetch(name)
    if not isinstance(value, np.ndarray):
        return
    array = cast("Array", value)
    if array.dtype == np.float32:
        array = array + np.abs(random.standard_normal(array.shape).astype(np.float32)) / 50
        before.feed(name, array)
        after.feed(name, array)


def run_both(model: Model, made: Rewritten, shape: tuple[int, ...]) -> tuple[Workspace, Workspace]:
    """Run the net before and after twice, from the same parameters, which are spread a little."""
    random = np.random.default_rng(0)
    before, after = Workspace(), Workspace()
    for workspace in (before, after):
        workspace.run_net_once(model.init_net.proto)
    for name in before.blob_names():
        spread(before, after, name, random)
    data = random.standard_normal(shape).astype(np.float32)
    label = random.integers(0, 5, BATCH).astype(np.int32)
    for workspace in (before, after):
        workspace.feed("data", data)
        workspace.feed("label", label)
    after.run_net_once(made.prelude)
    for _ in range(2):
        before.run_net_once(model.net.proto)
        after.run_net_once(made.net)
    return before, after


def shape_of(name: str) -> tuple[int, ...]:
    """Return the shape of the input of a net of the zoo."""
    return CLASSIFIERS[name].input_shape(BATCH, size=SMALL[name].get("size"))


def names(kind: str) -> list[Any]:
    """Return the nets, of which some are left to the slow tests."""
    return [pytest.param(name, marks=pytest.mark.slow if name in SLOW[kind] else ()) for name in SMALL]


@pytest.mark.parametrize("name", names("inference"))
def test_inference(name: str) -> None:
    model, shape = CLASSIFIERS[name].inference(**SMALL[name]), shape_of(name)
    specs = specs_of(model, shape)
    made = apply_all(model.net.proto, PassContext(specs.keys() - {"data", "label"}, specs=specs))
    types = {op.type for op in made.net.op}
    assert not types & {"SpatialBN", "Sum", "Dropout", "Relu"}, "everything is fused"
    assert ("FusedConvDepthwise" in types) == (name == "mobilenet_v2")
    before, after = run_both(model, made, shape)
    np.testing.assert_allclose(after.fetch("softmax"), before.fetch("softmax"), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", names("training"))
def test_training(name: str) -> None:
    model, shape = CLASSIFIERS[name].training(**SMALL[name]), shape_of(name)
    sgd(model, 1e-4, momentum=0.9)
    seed_operators(model.net.proto, 1)
    specs = specs_of(model, shape)
    made = apply_all(model.net.proto, PassContext(keep={"loss"}, specs=specs))
    assert len(made.net.op) < len(model.net.proto.op)
    before, after = run_both(model, made, shape)
    written = {out for op in model.net.proto.op for out in op.output}
    for blob in (written - made.gone.keys()) & {"loss", *specs}:
        scale = float(np.abs(before.fetch(blob)).max())
        np.testing.assert_allclose(after.fetch(blob), before.fetch(blob), rtol=1e-2, atol=1e-3 * scale, err_msg=blob)
