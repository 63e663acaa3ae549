"""SquaredRelu on every engine that has it, its gradient, and what a plan makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from tazza import Model, Workspace
from tazza.errors import GradientError
from tazza.nets.plan.net import PlanNet
from tazza.operator import ENGINES, run_op
from tazza.testing import Case, check_op, engines_of
from tazza_example.blocks import PIECE

X = np.array([[-2, -1, 0.5], [1, 3, -4], [0.25, 7, 5]], np.float32)
LARGE = np.linspace(-3, 3, 3 * PIECE + 3, dtype=np.float32).reshape(3, -1)

needs_onednn = pytest.mark.skipif(ENGINES["onednn"].unavailable() is not None, reason="no engine fuses into layers")

CASES = [
    Case("SquaredRelu", [X], np.where(X > 0, X * X, 0), batched=(0,)),
    Case("SquaredRelu", [LARGE], np.where(LARGE > 0, LARGE * LARGE, 0), id="several pieces", gradient=False),
    Case("SquaredReluGradient", [X, X.T], np.where(X > 0, 2 * X * X.T, 0)),
]


@pytest.mark.parametrize("case", CASES)
def test_numbers(case: Case) -> None:
    """Every engine that is available gives these numbers, or says why it refuses; `reference` may not."""
    assert "reference" in check_op(case)


def test_the_engine_of_this_package_is_asked_for_by_name() -> None:
    assert {"blocks", "reference"} <= set(engines_of("SquaredRelu"))
    assert check_op(CASES[0], "blocks") == ["blocks"]
    np.testing.assert_array_equal(run_op("SquaredRelu", X, engine="blocks"), run_op("SquaredRelu", X))


def layers() -> tuple[Model, Workspace]:
    """Return a convolution and an FC with a SquaredRelu behind each, then one among other pointwise operators."""
    model, workspace = Model("layers"), Workspace()
    net = model.net
    squared = net.add("SquaredRelu", model.conv("data", "features", 3, 8, 3), "squared")
    squares = net.add("SquaredRelu", model.fc(squared, "scores", 8 * 6 * 5, 7), "squares")
    chosen = net.add("ReduceMax", squares, "chosen", axes=[0])  # no pointwise operator: what follows is of its own
    bent = net.add("Tanh", net.add("Scale", chosen, "scaled", scale=0.25), "bent")
    net.add_external_output(net.add("SquaredRelu", bent, "result"))
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("data", np.random.default_rng(1).standard_normal((2, 3, 8, 7)).astype(np.float32))
    return model, workspace


@needs_onednn
def test_a_plan_takes_it_into_layers_and_clusters() -> None:
    model, workspace = layers()
    workspace.run_net_once(model.net.proto)
    wanted = workspace.fetch("result")
    proto = model.net.export()
    proto.type, proto.name = "plan", "planned"
    net = workspace.create_net(proto)
    net.run()
    np.testing.assert_allclose(workspace.fetch("result"), wanted, rtol=1e-5, atol=1e-6)
    assert isinstance(net, PlanNet)
    steps = {row.operator: row.fused_from for row in net.explain().rows if len(row.fused_from) > 1}
    assert steps == {
        "FusedConv": ("Conv 'features'", "SquaredRelu 'squared'"),
        "FusedFC": ("FC 'scores'", "SquaredRelu 'squares'"),
        "Pointwise": ("Scale 'scaled'", "Tanh 'bent'", "SquaredRelu 'result'"),
    }


needs_native = pytest.mark.skipif(ENGINES["native"].unavailable() is not None, reason="nothing is compiled")


@needs_native
def test_compiled_layers_take_it_too() -> None:
    """Nobody names it there: convolutions and products of `native` compile whatever formula follows them."""
    model, workspace = Model("compiled"), Workspace()
    squared = model.net.add("SquaredRelu", model.conv("data", "features", 3, 16, 3), "squared")
    model.net.add_external_output(model.net.add("SquaredRelu", model.fc(squared, "scores", 16 * 14 * 13, 24), "result"))
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("data", np.random.default_rng(2).standard_normal((1, 3, 16, 15)).astype(np.float32))
    workspace.run_net_once(model.net.proto)
    wanted = workspace.fetch("result")
    proto = model.net.export()
    proto.type, proto.name = "plan", "planned"
    for op in proto.op:
        op.engine = "native"
    net = workspace.create_net(proto)
    net.run()
    assert isinstance(net, PlanNet)
    rows = [row for row in net.explain().rows if len(row.fused_from) > 1]
    assert [row.operator for row in rows] == ["FusedConv", "FusedFC"]
    assert all(row.engine.startswith("native/") for row in rows)
    np.testing.assert_allclose(workspace.fetch("result"), wanted, rtol=1e-4, atol=1e-5)


def test_what_was_overwritten_has_no_gradient() -> None:
    model = Model("in place")
    blob = model.net.add("Relu", "data", "hidden")
    model.net.add("SquaredRelu", blob, "hidden")
    model.net.add("AveragedLoss", "hidden", "loss")
    with pytest.raises(GradientError, match="SquaredRelu"):
        model.net.add_gradients(["loss"])
