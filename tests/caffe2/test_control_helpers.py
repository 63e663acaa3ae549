"""Branches and loops of models, run: what they write outside is what the scope shows them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from caffe2.python import brew, core, model_helper, workspace


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


@pytest.mark.parametrize(("condition", "wanted"), [(True, [0.0, 3.0]), (False, [2.0, -3.0])])
def test_a_branch_writes_what_is_visible(condition: bool, wanted: list[float]) -> None:
    model, then, other = (
        model_helper.ModelHelper(name) for name in ("control_branch", "control_then", "control_other")
    )
    then.net.Relu("x", "y")
    other.net.Negative("x", "y")
    other.net.Copy("y", "hidden")
    workspace.FeedBlob("go", np.array(condition))
    workspace.FeedBlob("x", np.array([-2, 3], np.float32))
    workspace.FeedBlob("y", np.array([0, 0], np.float32))
    visible = [core.BlobReference("x"), core.BlobReference("y")]
    brew.cond(model, core.BlobReference("go"), visible, then, other)
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob("y").tolist() == wanted
    assert not workspace.HasBlob("hidden")


def test_a_loop_runs_until_its_condition_fails() -> None:
    model, body, condition = (
        model_helper.ModelHelper(name) for name in ("control_loop", "control_body", "control_condition")
    )
    body.net.Add(["x", "one"], "x")
    condition.net.LT(["x", "bound"], "go")
    for name, value in (("x", 0), ("one", 1), ("bound", 5)):
        workspace.FeedBlob(name, np.array([value], np.float32))
    condition.net.Squeeze("go", "go", dims=[0])
    visible = [core.BlobReference(name) for name in ("x", "one", "bound")]
    brew.loop(model, core.BlobReference("go"), visible, body, condition)
    workspace.RunNetOnce(model.net)
    assert workspace.FetchBlob("x").tolist() == [5]


def test_what_a_branch_reads_has_to_be_visible() -> None:
    model, then = model_helper.ModelHelper("blind"), model_helper.ModelHelper("blind_then")
    then.net.Relu("x", "y")
    with pytest.raises(AssertionError, match="x"):
        brew.cond(model, core.BlobReference("go"), [], then)
