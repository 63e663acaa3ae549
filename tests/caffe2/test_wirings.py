"""Nets that are edited as graphs come out as from genuine Caffe2; `tools/record_wirings.py` recorded what it gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, workspace
from caffe2.python import nomnigraph as ng
from caffe2.python.nomnigraph_transformations import transpose_network
from tazza.errors import NetError
from tools.record_wirings import edited

RECORDED: list[Any] = json.loads((Path(__file__).parents[1] / "data" / "wirings.json").read_text(encoding="utf-8"))


@pytest.mark.slow
def test_edited_nets_are_those_of_caffe2() -> None:
    assert sum(one is not None for one in RECORDED) > 0.9 * len(RECORDED)
    differing = [
        seed
        for seed, one in enumerate(RECORDED)
        if one is not None and json.loads(json.dumps(edited(seed, core, ng))) != one
    ]
    assert differing == []


def test_an_operator_that_was_seen_loose_moves_before_its_reader() -> None:
    """Genuine Caffe2 leaves it at the end, behind the operator that reads from it."""
    net = core.Net("net")
    net.Relu("x", "y")
    net.Sigmoid("y", "z")
    module = ng.NNModule(net)
    new, between = module.createNode(ng.NeuralNetOperator("Tanh")), module.createUniqueDataNode("y")
    assert [node.name for node in module.controlFlow] == ["Relu", "Sigmoid", "Tanh"]
    y = module.controlFlow[0].outputs[0]
    module.replaceAllUsesWith(y, between)
    module.createEdge(y, new)
    module.createEdge(new, between)
    assert [node.name for node in module.controlFlow] == ["Relu", "Tanh", "Sigmoid"]


def test_a_circle_is_refused() -> None:
    net = core.Net("net")
    net.Relu("x", "y")
    module = ng.NNModule(net)
    relu = module.controlFlow[0]
    module.createEdge(relu.outputs[0], relu)
    with pytest.raises(NetError, match="wait for one another"):
        module.convertToCaffe2Proto()


def test_a_net_with_channels_innermost_gives_the_same() -> None:
    random = np.random.default_rng(3)
    net = core.Net("net")
    net.Conv(["x", "w", "b"], ["c"], kernel=3)
    net.Relu(["c"], ["c"])
    net.Conv(["c", "v", "a"], ["d"], kernel=2)
    shapes = {"x": (2, 3, 7, 8), "w": (5, 3, 3, 3), "b": (5,), "v": (4, 5, 2, 2), "a": (4,)}
    for name, shape in shapes.items():
        workspace.FeedBlob(name, random.standard_normal(shape).astype(np.float32))
    workspace.RunNetOnce(net)
    wanted = workspace.FetchBlob("d")
    module = ng.NNModule(net)
    transpose_network(module)
    made = module.convertToCaffe2Proto()
    assert [op.type for op in made.op].count("NCHW2NHWC") == 4
    workspace.RunNetOnce(made)
    np.testing.assert_allclose(workspace.FetchBlob("d"), wanted, rtol=1e-4, atol=1e-5)
