"""Procedures: steps that run nets so often, until a blob says so, side by side, and in workspaces of their own."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError, BlobTypeError, ClosedError, DTypeError, NetError, NotFoundError, ShapeError
from tazza.operator import operator_def
from tazza.procedure import run_in_background, run_procedure
from tazza.proto import ExecutionStep, NetDef, PlanDef
from tazza.workspace import Workspace

ADD = NetDef(name="add", op=[operator_def("Add", ["x", "one"], ["x"])])
STOP = NetDef(name="stop", op=[operator_def("ConstantFill", [], ["stop"], shape=[1], value=True, dtype=5)])
FAIL = NetDef(name="fail", op=[operator_def("Sum", ["x", "long"], ["y"])])


@pytest.fixture
def workspace() -> Workspace:
    """Return one with x = 0."""
    made = Workspace()
    made.feed("x", np.zeros(1, np.float32))
    made.feed("one", np.ones(1, np.float32))
    made.feed("stop", np.array([False]))
    made.feed("long", np.zeros((2, 3), np.float32))
    return made


def x_after(workspace: Workspace, *steps: ExecutionStep) -> float:
    """Run steps of all nets, and return x."""
    run_procedure(PlanDef(name="p", network=[ADD, STOP, FAIL], execution_step=steps), workspace)
    return workspace.fetch("x").item()


def test_a_step_runs_once_or_as_often_as_it_says(workspace: Workspace) -> None:
    assert x_after(workspace, ExecutionStep(network=["add", "add"])) == 2
    assert x_after(workspace, ExecutionStep(network=["add"], num_iter=3)) == 5
    assert x_after(workspace, ExecutionStep(network=["add"], num_iter=0)) == 5
    assert workspace.nets() == ["add"]


def test_the_blob_is_looked_at_behind_each_net(workspace: Workspace) -> None:
    """Not only at the end of a round; Caffe2 gives 1 as well."""
    assert x_after(workspace, ExecutionStep(network=["add", "stop", "add"], should_stop_blob="stop")) == 1


def test_a_net_of_the_step_may_make_the_blob_which_is_false_while_it_is_empty(workspace: Workspace) -> None:
    workspace.remove_blob("stop")
    assert x_after(workspace, ExecutionStep(network=["add", "add", "stop"], should_stop_blob="stop")) == 2


def test_what_a_net_frees_stops_nothing(workspace: Workspace) -> None:
    """A net that frees what it has read may free what its step would be stopped by: no step goes on for ever then."""
    net = NetDef(name="frees", type="simple_refcount", op=[*STOP.op, operator_def("Copy", ["stop"], ["seen"])])
    step = ExecutionStep(name="until", network=["frees"], should_stop_blob="stop")
    with pytest.raises(BlobTypeError, match="'stop' holds") as caught:
        run_procedure(PlanDef(name="p", network=[net], execution_step=[step]), workspace)
    assert "external_output" in str(caught.value)
    net.external_output.append("stop")
    run_procedure(PlanDef(name="p", network=[net], execution_step=[step]), workspace)


def test_only_once_ends_a_step_that_nothing_stops(workspace: Workspace) -> None:
    assert x_after(workspace, ExecutionStep(network=["add", "add"], should_stop_blob="stop", only_once=True)) == 2


def test_the_blob_of_a_step_is_looked_at_behind_its_steps(workspace: Workspace) -> None:
    inner = [ExecutionStep(network=[name]) for name in ("add", "stop", "add")]
    assert x_after(workspace, ExecutionStep(substep=inner, should_stop_blob="stop")) == 1


def test_a_workspace_of_its_own_sees_the_outer_one_and_goes(workspace: Workspace) -> None:
    own = NetDef(name="own", op=[operator_def("Add", ["x", "one"], ["y"])])
    steps = [ExecutionStep(network=["own"], create_workspace=True, num_iter=2)]
    run_procedure(PlanDef(network=[own], execution_step=steps), workspace)
    assert not workspace.has_blob("y")
    assert workspace.nets() == []


def test_steps_run_side_by_side_and_the_first_error_ends_all(workspace: Workspace) -> None:
    waiting = ExecutionStep(network=["add"], should_stop_blob="stop", name="waits for ever")
    both = ExecutionStep(substep=[waiting, ExecutionStep(network=["fail"])], concurrent_substeps=True)
    with pytest.raises(ShapeError, match="Sum"):
        x_after(workspace, both)
    ended = ExecutionStep(substep=[waiting, ExecutionStep(network=["stop"])], concurrent_substeps=True)
    assert x_after(workspace, ended) >= 0


TAKE = NetDef(name="take", op=[operator_def("DequeueBlobs", ["q"], ["x"])])
PUT = NetDef(name="put", op=[operator_def("EnqueueBlobs", ["full", "x"], ["x"])])


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_waits_ends_where_a_step_beside_it_fails(workspace: Workspace, depth: int) -> None:
    """Steps that wait for a queue, however deep, give up; the error is that of the one that failed, and says where."""
    workspace.run_operator(operator_def("CreateBlobsQueue", [], ["q"]))
    workspace.run_operator(operator_def("CreateBlobsQueue", [], ["full"], capacity=0))
    beside = [ExecutionStep(network=[name]) for name in ("take", "put")]
    for n in range(depth):
        beside = [ExecutionStep(name=f"deep {n}", substep=beside, concurrent_substeps=True)]
    failing = ExecutionStep(name="failing", network=["add", "fail"], num_iter=9)
    both = ExecutionStep(substep=[*beside, failing], concurrent_substeps=True)
    nets = [ADD, STOP, FAIL, TAKE, PUT]
    with pytest.raises(ShapeError, match="in round 1 of step 'failing', net 'fail'"):
        run_procedure(PlanDef(network=nets, execution_step=[both]), workspace)
    workspace.run_operator(operator_def("EnqueueBlobs", ["q", "one"], ["one"]))
    workspace.run_net("take")  # it was asked to give up then, not now
    assert workspace.fetch("x").item() == 1


def test_an_error_of_a_later_round_says_which(workspace: Workspace) -> None:
    workspace.run_operator(operator_def("CreateBlobsQueue", [], ["q"], capacity=2))
    for _ in range(2):
        workspace.feed("v", np.ones(1, np.float32))
        workspace.run_operator(operator_def("EnqueueBlobs", ["q", "v"], ["v"]))
    workspace.run_operator(operator_def("CloseBlobsQueue", ["q"], []))
    step = ExecutionStep(name="taking", network=["take"], num_iter=5)
    with pytest.raises(ClosedError, match="in round 3 of step 'taking', net 'take'"):
        run_procedure(PlanDef(network=[TAKE], execution_step=[step]), workspace)


def test_what_runs_beside_ends_with_its_step(workspace: Workspace) -> None:
    count = NetDef(name="count", op=[operator_def("AtomicIter", ["m", "n"], ["n"])])
    workspace.run_operator(operator_def("CreateMutex", [], ["m"]))
    workspace.feed("n", np.array([0]))
    beside = ExecutionStep(network=["count"], run_every_ms=1)
    until = NetDef(name="until", op=[operator_def("GE", ["n", "three"], ["stop"])])
    workspace.feed("three", np.array([3]))
    step = ExecutionStep(
        substep=[beside, ExecutionStep(network=["until"], should_stop_blob="stop")], should_stop_blob="stop"
    )
    run_procedure(PlanDef(network=[count, until], execution_step=[step]), workspace)
    reached = workspace.fetch("n").item()
    assert reached >= 3
    assert workspace.fetch("n").item() == reached


def test_nets_that_were_there_are_replaced_once(workspace: Workspace) -> None:
    workspace.create_net(NetDef(name="add", op=[operator_def("Sub", ["x", "one"], ["x"])]))
    assert x_after(workspace, ExecutionStep(network=["add"]), ExecutionStep(network=["add"])) == 2


@pytest.mark.parametrize(
    ("step", "kind", "text"),
    [
        (ExecutionStep(network=["none"]), NotFoundError, "'none'"),
        (ExecutionStep(network=["add"], should_stop_blob="none"), NotFoundError, "'none'"),
        (ExecutionStep(network=["add"], should_stop_blob="x"), DTypeError, "stops by 'x'"),
        (ExecutionStep(network=["add"], should_stop_blob="stop", num_iter=1), ArgumentError, "num_iter"),
        (ExecutionStep(network=["add"], report_net="add"), ArgumentError, "report_interval"),
        (ExecutionStep(network=["add"], substep=[ExecutionStep()]), NetError, "nets and steps"),
    ],
)
def test_refused(workspace: Workspace, step: ExecutionStep, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        x_after(workspace, step)


def test_two_nets_of_one_name_are_refused(workspace: Workspace) -> None:
    with pytest.raises(NetError, match="two nets called 'add'"):
        run_procedure(PlanDef(network=[ADD, ADD]), workspace)


def test_in_the_background(workspace: Workspace) -> None:
    step = ExecutionStep(network=["add"], num_iter=2)
    run_in_background(PlanDef(network=[ADD], execution_step=[step]), workspace).result(30)
    assert workspace.fetch("x").item() == 2
    failing = PlanDef(network=[FAIL], execution_step=[ExecutionStep(network=["fail"])])
    with pytest.raises(ShapeError, match="Sum"):
        run_in_background(failing, workspace).result(30)
