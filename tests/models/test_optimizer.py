"""Parameter updates: the operators that Caffe2 emits, and what they do."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, GradientError
from tazza.models import OPTIMIZERS, Model, Net, ParameterKind, constant, layers, name_scope, sgd
from tazza.models.optimizer import OPTIONS
from tazza.operator import RowSlices, find_argument
from tazza.proto import OperatorDef
from tazza.workspace import Workspace


def trained(name: str) -> Model:
    """Return a model with one layer, a loss and gradients."""
    model = Model(name)
    y = layers.fc(model, "x", "y", 2, 3)
    model.add_gradients([layers.averaged_loss(model, y, "loss")])
    return model


def updates(net: Net) -> list[OperatorDef]:
    """Return what stands in a net after its gradients."""
    return [op for op in net.proto.op if op.type in ("WeightedSum", "MomentumSGDUpdate")]


def base_lr(model: Model) -> float:
    """Return the base learning rate as it is stored."""
    (op,) = (op for op in model.net.proto.op if op.type == "LearningRate")
    argument = find_argument(op, "base_lr")
    assert argument is not None
    return round(argument.f, 6)


def test_signs_as_behaviours_row_18_has_them() -> None:
    plain, with_momentum = trained("plain"), trained("with_momentum")
    sgd(plain, 0.1)
    sgd(with_momentum, 0.1, momentum=0.9)
    assert (base_lr(plain), base_lr(with_momentum)) == (-0.1, 0.1)
    assert [(op.type, list(op.input), list(op.output)) for op in updates(plain.net)] == [
        ("WeightedSum", ["y_w", "ONE_0_0", "y_w_grad", "SgdOptimizer_0_lr_cpu"], ["y_w"]),
        ("WeightedSum", ["y_b", "ONE_0_0", "y_b_grad", "SgdOptimizer_0_lr_cpu"], ["y_b"]),
    ]
    step = updates(with_momentum.net)[0]
    assert list(step.input) == ["y_w_grad", "y_w_momentum", "SgdOptimizer_0_lr_cpu", "y_w"]
    assert list(step.output) == ["y_w_grad", "y_w_momentum", "y_w"]
    assert [(a.name, round(a.f, 6), a.i) for a in step.arg] == [("momentum", 0.9, 0), ("nesterov", 0.0, 1)]
    kept = with_momentum.init_net.proto.op[-2]
    assert (kept.type, list(kept.input), list(kept.output)) == ("ConstantFill", ["y_w"], ["y_w_momentum"])


def test_the_iteration_is_counted_once_on_the_cpu() -> None:
    model = trained("counted")
    assert sgd(model, 0.1) == "SgdOptimizer_0_lr_cpu"
    assert sgd(model, 0.2, policy="step", stepsize=5, gamma=0.5) == "SgdOptimizer_1_lr_cpu"
    (counter,) = (op for op in model.net.proto.op if op.type == "AtomicIter")
    assert list(counter.input) == ["iteration_mutex", "optimizer_iteration"]
    assert list(counter.device_option.extra_info) == ["device_type_override:cpu"]
    assert [op.type for op in model.init_net.proto.op].count("CreateMutex") == 1


def test_weight_decay_is_for_weights() -> None:
    model = trained("decayed")
    sgd(model, 0.1, weight_decay=1e-4)
    decay = updates(model.net)[0]
    assert (list(decay.input), list(decay.output)) == (["y_w_grad", "ONE_0_0", "y_w", "wd_0_0"], ["y_w_grad"])
    assert [op.output[0] for op in updates(model.net)] == ["y_w_grad", "y_w", "y_b"]


def test_scopes_reach_what_an_optimizer_keeps() -> None:
    model = trained("kept_in_scope")
    with name_scope("s"):
        sgd(model, 0.1, momentum=0.9)
    assert updates(model.net)[0].input[1] == "s/y_w_momentum"
    assert "s/optimizer_iteration" in model.net.external_inputs


TWO_STEPS: list[tuple[Any, float]] = [
    ({}, -0.2),
    ({"momentum": 0.9, "nesterov": False}, -0.1 - (0.9 * 0.1 + 0.1)),
    ({"weight_decay": 2.0}, -0.1 - 0.1 * (1 + 2.0 * -0.1)),
]


@pytest.mark.parametrize(("options", "expected"), TWO_STEPS, ids=str)
def test_two_steps_do_what_the_formula_says(options: Any, expected: float) -> None:
    model = Model("formula")
    w = model.add_parameter("w", [1], constant(0.0), ParameterKind.WEIGHT)
    model.add_gradients([layers.averaged_loss(model, w, "loss")])  # the gradient is 1
    sgd(model, 0.1, **options)
    ws = Workspace()
    ws.run_net_once(model.init_net.proto, strict=True)
    net = ws.create_net(model.net.proto, strict=True)
    net.run()
    net.run()
    np.testing.assert_allclose(ws.fetch("w"), [expected], rtol=1e-5)
    assert ws.fetch("optimizer_iteration").tolist() == [2]


def test_what_is_refused() -> None:
    bare = Model("bare")
    layers.fc(bare, "x", "y", 2, 3)
    with pytest.raises(GradientError, match="has no gradients of parameters"):
        sgd(bare, 0.1)
    sparse = trained("sparse")
    sparse.gradients["y_w"] = RowSlices("i", "v")
    with pytest.raises(GradientError, match="'y_w' is sparse"):
        sgd(sparse, 0.1, weight_decay=0.1)
    with pytest.raises(ArgumentError, match="'gama'"):
        sgd(trained("typo"), 0.1, policy="step", gama=0.5)


def test_optimizers_are_registered() -> None:
    assert OPTIMIZERS["sgd"] is sgd
    assert OPTIMIZERS.help("sgd") != ""


def table_model(name: str) -> Model:
    """Return a model that adds up rows of a table, and has a loss whose gradient of these sums is R."""
    model = Model(name)
    W = model.add_parameter("W", [6, 3], constant(1.0))
    model.net.add("SparseLengthsSum", [W, "i", "l"], "y")
    model.net.add("Mul", ["y", "R"], "z")
    model.add_gradients([model.net.add("SumElements", "z", "loss")])
    return model


ROWS = {"i": np.array([4, 0, 4, 2]), "l": np.array([3, 0, 1], np.int32)}
R = np.random.default_rng(3).standard_normal((3, 3)).astype(np.float32)
SPREAD = R[[0, 0, 0, 2]]
"""The gradient of each row that is picked."""


@pytest.mark.slow
@pytest.mark.parametrize("net_type", ["simple", "plan"])
@pytest.mark.parametrize(
    ("solver", "options"), [("sgd", {}), ("sgd", {"momentum": 0.75}), ("adagrad", {"epsilon": 0.1})]
)
def test_rows_of_a_table_are_updated(solver: str, options: dict[str, float], net_type: str) -> None:
    """Rows that are met move, one that is met twice twice, others stay; by the formulas, row after row, three times."""
    model = table_model(f"{solver}_{net_type}")
    OPTIMIZERS[solver](model, 0.25, **options)
    ws = Workspace()
    for name, value in {**ROWS, "R": R}.items():
        ws.feed(name, value)
    ws.run_net_once(model.init_net.proto)
    model.net.proto.type = net_type
    model.net.add_external_output("loss")
    ws.create_net(model.net.proto)
    W, M = np.ones((6, 3)), np.zeros((6, 3))
    for _ in range(3):
        ws.run_net(model.net.name)
        for row, g in zip(ROWS["i"], SPREAD.astype(np.float64), strict=True):
            if solver == "adagrad":
                M[row] += g * g
                W[row] -= 0.25 * g / (np.sqrt(M[row]) + 0.1)
            elif options:
                before = M[row].copy()
                M[row] = 0.75 * before + 0.25 * g
                W[row] -= 1.75 * M[row] - 0.75 * before
            else:
                W[row] -= 0.25 * g
    np.testing.assert_allclose(ws.fetch("W"), W, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ws.fetch("W")[[1, 3, 5]], np.ones((3, 3)))


def test_rows_do_not_decay() -> None:
    model = table_model("decaying")
    with pytest.raises(ArgumentError, match=r"decay is 0\.5, and the gradient of 'W' is one of rows"):
        OPTIMIZERS["adagrad"](model, 0.1, decay=0.5)


def test_options_are_arguments() -> None:
    """What an optimizer says that it takes beside the rate, and what its function takes."""
    for name in OPTIMIZERS:
        taken = inspect.signature(OPTIMIZERS[name]).parameters.values()
        own = {one.name for one in taken if one.kind is inspect.Parameter.KEYWORD_ONLY}
        assert set(OPTIONS[name]) == own - {"policy"}
