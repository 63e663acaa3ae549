"""Two net types are compared by all blobs that a model leaves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from caffe2.python import model_helper, workspace
from caffe2.python.test.executor_test_util import ExecutorTestBase, build_conv_model, executor_test_model_names


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def compared(runs: list[int]) -> None:
    """Compare two types of a model that draws and counts; `runs`: how often each is run."""
    model = model_helper.ModelHelper("compared")
    model.param_init_net.GaussianFill([], "x", shape=[3, 4])
    model.param_init_net.ConstantFill([], "n", shape=[1])
    model.net.Add(["n", "n"], "twice")
    model.net.Exp("n", "n")
    model.Proto().num_workers = 2
    left = iter(runs)
    ExecutorTestBase().compare_executors(model, "simple", "parallel", lambda: workspace.RunNet(model.net, next(left)))


def test_types_that_leave_the_same_pass() -> None:
    compared([2, 2])


def test_types_that_leave_something_else_are_told() -> None:
    with pytest.raises(AssertionError, match="is another one as parallel"):
        compared([2, 3])


def test_models_are_told_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAVIS", raising=False)
    assert executor_test_model_names() == ["AlexNet", "Inception", "MLP", "OverFeat", "Resnet50", "VGGA"]
    with pytest.raises(AssertionError, match="there is no model LeNet"):
        build_conv_model("LeNet", 1)


@pytest.mark.slow
def test_a_residual_net_trains_on_what_it_makes_itself() -> None:
    model = build_conv_model("Resnet50", 1)
    made = {name for op in model.param_init_net.Proto().op for name in op.output}
    assert {"data", "label", "ONE"} <= made
    assert sum(op.type == "WeightedSum" for op in model.net.Proto().op) == len(model.params)
