"""Steps of `control`, `task`, `pipeline` and their kin are those that genuine Caffe2 builds; run, they do as told."""

from __future__ import annotations

import gc
import json
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import control, core, workspace
from caffe2.python.checkpoint import Job
from caffe2.python.net_builder import NetBuilder, ops
from caffe2.python.net_printer import Text
from caffe2.python.session import LocalSession, Session
from caffe2.python.task import Node, SetupNets, Task, TaskGroup, TaskOutput, WorkspaceType, final_output
from tests.patience import LONG_S
from tools.record_steps import Modules, recorded

RECORDED: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[1] / "data" / "steps.json").read_text(encoding="utf-8")
)


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


@pytest.fixture(scope="module")
def built() -> dict[str, list[str]]:
    return recorded(Modules())


@pytest.mark.slow
@pytest.mark.parametrize("case", RECORDED)
def test_the_steps_are_those_of_caffe2(case: str, built: dict[str, list[str]]) -> None:
    assert built[case] == RECORDED[case]


@pytest.mark.slow
def test_every_case_is_recorded(built: dict[str, list[str]]) -> None:
    assert built.keys() == RECORDED.keys()


def counted(name: str = "n") -> tuple[Any, Any]:
    """Return a net that adds one to a number, and the number's name."""
    net = core.Net(f"count_{name}")
    net.Add([name, "one"], name)
    for blob, value in ((name, 0), ("one", 1)):
        workspace.FeedBlob(blob, np.array(value, np.int64))
    return net, name


def below(bound: int, name: str = "n") -> Any:
    """Return a net whose condition is that a number is below a bound."""
    net = core.Net("below")
    net.AddExternalOutput(net.LT([name, net.Const(bound)]))
    return net


@pytest.mark.parametrize(
    ("kind", "start", "wanted"),
    [
        *(("While", 0, 5), ("While", 9, 9), ("DoWhile", 0, 5), ("DoWhile", 9, 10), ("If", 0, 1), ("If", 9, 9)),
        *(("IfNot", 0, 0), ("IfNot", 9, 10), ("Until", 9, 10), ("DoUntil", 9, 10), ("DoUntil", 0, 1)),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_loop_runs_as_its_condition_says(kind: str, start: int, wanted: int, nested: bool) -> None:
    net, name = counted()
    workspace.FeedBlob(name, np.array(start, np.int64))
    if kind in {"Until", "DoUntil"} and start:  # until it is no longer there
        condition = core.Net("beyond")
        condition.AddExternalOutput(condition.GE([name, condition.Const(10)]))
    else:
        condition = below(5)
    body = control.Do("body", net) if nested else net
    workspace.RunPlan(core.Plan(getattr(control, kind)("loop", condition, body)))
    assert workspace.FetchBlob(name) == wanted


def test_a_loop_counts_anew_each_time_it_runs() -> None:
    net, name = counted()
    workspace.RunPlan(core.Plan(control.For("outer", control.For("inner", net, 3), 4)))
    assert workspace.FetchBlob(name) == 12


class Watched:
    """A Python operator that notes who runs at the same time."""

    def __init__(self, parties: int) -> None:
        self.barrier = threading.Barrier(parties, timeout=LONG_S)
        self.calls = 0
        self._lock = threading.Lock()

    def __call__(self, inputs: Any, outputs: Any) -> None:
        with self._lock:
            self.calls += 1
        self.barrier.wait()


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("rounds", [1, 2])
def test_instances_of_a_step_run_at_the_same_time(private: bool, rounds: int) -> None:
    watched = Watched(6)
    steps: list[Any] = []
    for name in ("a", "b"):
        net = core.Net(name)
        net.Python(watched)([], [])
        steps.append(core.execution_step(f"step_{name}", net, create_workspace=private))
    whole = core.execution_step("all", steps, num_concurrent_instances=3, num_iter=rounds)
    workspace.RunPlan(core.Plan(whole))
    assert watched.calls == 6 * rounds


def test_a_net_in_two_steps_side_by_side_runs_twice_at_once() -> None:
    watched = Watched(2)
    net = core.Net("twice")
    net.Python(watched)([], [])
    steps = [core.execution_step("first", net), core.execution_step("second", net)]
    workspace.RunPlan(core.Plan(core.execution_step("both", steps, concurrent_substeps=True)))
    assert watched.calls == 2


def test_steps_in_turn_share_a_net_whatever_its_place() -> None:
    made: list[str] = []

    def nothing(inputs: Any, outputs: Any) -> None:
        del inputs, outputs

    def builder(name: str) -> Any:
        made.append(name)
        return nothing

    nets = {name: core.Net(name) for name in ("a", "b")}
    for name, net in nets.items():
        net.Python((builder, [name], {}))([], [])
    steps = [
        core.execution_step("", [core.execution_step("", nets[name]) for name in order], concurrent_substeps=True)
        for order in ("ab", "ba", "aab")
    ]
    workspace.RunPlan(core.Plan(core.execution_step("", [*steps, core.execution_step("", nets["b"])])))
    assert sorted(made) == ["a", "a", "b"]


def test_instances_of_nets_run_once() -> None:
    net, name = counted()
    workspace.RunPlan(core.Plan(core.execution_step("nets", net, num_concurrent_instances=5)))
    assert workspace.FetchBlob(name) == 1


def test_outputs_of_a_task_are_what_the_session_fetches() -> None:
    with Task() as task:
        five = ops.Const(5)
        one, both = final_output(five), final_output([five, ops.Const(7)])
    with LocalSession() as session:
        session.run(task)
        session.run(task)
    assert one.fetch() == 5
    assert both.fetch() == [5, 7]
    assert task.workspace_type() == WorkspaceType.GLOBAL


def test_tasks_of_a_group_have_workspaces_of_their_own() -> None:
    with TaskGroup() as group:
        for node in ("a", "b"):
            with Node(node), Task():
                out = final_output(ops.Const(node == "b", blob_out=f"out_{node}"))
                ops.Const(1, blob_out="within")
    LocalSession().run(group)
    assert out.fetch()
    assert workspace.HasBlob("out_a")
    assert not workspace.HasBlob("within")


def test_a_session_runs_nets_steps_plans_and_what_was_compiled() -> None:
    net, name = counted()
    session = LocalSession()
    compiled = LocalSession.compile(net)
    runnables: list[Any] = [net, core.execution_step("step", net), core.Plan(core.execution_step("of", net)), compiled]
    for runnable in [*runnables, [net, net]]:
        session.run(runnable)
    assert workspace.FetchBlob(name) == 6
    assert LocalSession.compile(net) is compiled
    session.close()
    with pytest.raises(AssertionError, match="closed"):
        session.run(net)
    with pytest.raises(NotImplementedError):
        Session().run(net)


def test_what_was_compiled_goes_with_what_ran() -> None:
    def run() -> list[Any]:
        net, _ = counted("gone")
        with Task() as task:
            ops.Const(1)
        session = LocalSession()
        session.run(net)
        session.run(task)
        return [weakref.ref(net), weakref.ref(task)]

    found = run()
    gc.collect()
    assert [one() for one in found] == [None, None]


def test_a_session_in_a_workspace_leaves_others_alone() -> None:
    own = workspace.C.Workspace()
    net = core.Net("fill")
    net.ConstantFill([], "filled", shape=[1], value=3.0)
    LocalSession(own).run(net)
    assert own.has_blob("filled")
    assert not workspace.HasBlob("filled")


def left_open(what: str) -> Any:
    """Build something wrong within a builder."""
    with NetBuilder() as builder:
        if what == "loop":
            with ops.loop():
                ops.Const(1)
        elif what == "else":
            ops.Else()
        elif what == "condition":
            ops.Condition()
        elif what == "elif":
            with ops.If(ops.Const(True)) as first, first.Else() as last:
                last.Else()
        elif what == "while":
            with ops.WhileNet():
                ops.Const(1)
        elif what == "late condition":
            with ops.WhileNet():
                ops.Const(1)
                ops.Condition()
        elif what == "step in net":
            with ops.IfNet(ops.Const(True)), ops.loop(3):
                pass
        elif what == "stop in net":
            with ops.IfNet(ops.Const(True)):
                ops.stop()
    return builder


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("loop", "requires a stop condition"),
        ("else", "Invalid use of Else"),
        ("condition", "outside of WhileNet"),
        ("elif", "not allowed for an Else"),
        ("while", "condition"),
        ("late condition", "before the loop's body"),
        ("step in net", "control ops"),
        ("stop in net", "Stop blobs are not used"),
    ],
)
def test_what_cannot_be_built_says_so(what: str, text: str) -> None:
    with pytest.raises(AssertionError, match=text):
        left_open(what)
    assert NetBuilder.current(required=False) is None


def test_what_was_built_stays_as_it_is() -> None:
    with NetBuilder(name="done") as builder:
        ops.Const(1)
    builder.get()
    for change in (builder.current_net, builder.stop_blob, lambda: builder.add(core.Net("late"))):
        with pytest.raises(AssertionError, match="has been built already"):
            change()
    with pytest.raises(AttributeError, match="No active NetBuilder"):
        _ = ops.Add
    with TaskGroup() as group:
        task = Task(step=core.Net("a"))
    group.tasks()
    with pytest.raises(AssertionError, match="already been used"):
        task.set_step(core.Net("b"))
    net = core.Net("x")
    net.add_attribute(Task.TASK_SETUP, SetupNets(5))
    with pytest.raises(TypeError, match="neither a net nor a step"):
        Task(step=net).get_step()
    with pytest.raises(AssertionError, match="not set yet"):
        TaskOutput("a").get()


def test_what_a_caller_gives_a_job_is_kept_even_if_it_is_empty() -> None:
    conditions: list[Any] = []
    assert Job(stop_conditions=conditions).stop_conditions is conditions
    assert Job().stop_conditions == []


def test_an_error_inside_a_context_leaves_the_indent_as_it_was() -> None:
    text = Text()

    def fail() -> None:
        with text.context("a"):
            text.add("first")
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    text.add("last")
    assert str(text) == "with a:\n    first\nlast"
