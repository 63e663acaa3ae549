"""Sessions: they compile nets, steps, plans, tasks and groups of tasks, run them, and fetch what these give."""

from __future__ import annotations

from typing import Any

from caffe2.python import core, workspace
from caffe2.python.task import Cluster, Task, TaskGroup, WorkspaceType


class CompiledRunnable:
    """What a class of sessions made of something that runs."""

    def __init__(self, obj: Any, session_class: type[Session]) -> None:
        """Remember it, and the class."""
        self.obj = obj
        self.session_class = session_class


def _root_step(plan: Any) -> Any:
    """Return the steps of a plan, which run one after the other, as one."""
    steps = plan.Steps()
    assert steps, f"the plan {plan} has no steps"
    return steps[0] if len(steps) == 1 else core.execution_step("root", list(steps))


def _as_group(runnable: Any, workspace_type: str | None) -> TaskGroup:
    """Return a group of tasks for whatever runs; what is no group runs in the workspace of the session by default."""
    if isinstance(runnable, TaskGroup):
        kinds = {kind for kind in (workspace_type, runnable.workspace_type()) if kind is not None}
        assert len(kinds) <= 1, f"the group has workspaces of type {runnable.workspace_type()}, not {workspace_type}"
        runnable._workspace_type = kinds.pop() if kinds else None  # pyright: ignore[reportPrivateUsage]
        return runnable
    group = TaskGroup(workspace_type or WorkspaceType.GLOBAL)
    if isinstance(runnable, Task):
        group.add(runnable)
        return group
    if isinstance(runnable, core.Plan):
        runnable = _root_step(runnable)
    step = runnable if isinstance(runnable, core.ExecutionStep) else core.execution_step("runnable", runnable)
    Task(step=step, group=group)
    return group


class Session:
    """Runs things one after the other: `with Session() as session: session.run(...)`."""

    def __init__(self) -> None:
        """Open it."""
        self._open = True

    def is_open(self) -> bool:
        """Whether it was not closed."""
        return self._open

    @classmethod
    def compile(
        cls, runnable: Any, workspace_type: str | None = None, setup_net_list: list[Any] | None = None
    ) -> CompiledRunnable:
        """Return what `run` takes, made once: of a group, a task, a plan, a step, a net, or of nets and steps."""
        if isinstance(runnable, CompiledRunnable):
            assert cls is runnable.session_class, f"{cls} does not run what {runnable.session_class} compiled"
            return runnable
        # What was compiled belongs to what runs, and goes with it.
        own: dict[str, dict[type[Session], CompiledRunnable]] = getattr(runnable, "__dict__", {})
        kept = own.setdefault("_compiled_by", {})
        if cls not in kept:
            group = _as_group(runnable, workspace_type)
            kept[cls] = CompiledRunnable(cls._compile_task_group(group, setup_net_list), cls)
        return kept[cls]

    def run(self, runnable: Any, workspace_type: str | None = None, setup_net_list: list[Any] | None = None) -> None:
        """Compile something, and run it; the outputs of a task have values then."""
        assert self.is_open(), "Session is closed."
        compiled = self.compile(runnable, workspace_type, setup_net_list)
        self._run_compiled(compiled.obj)

    def close(self) -> None:
        """Let nothing run any more."""
        if self.is_open():
            self._do_close()
            self._open = False

    def fetch_output(self, output: Any) -> Any:
        """Return the value of an output."""
        raise NotImplementedError

    def _run_compiled(self, runnable: Any) -> None:
        raise NotImplementedError

    @classmethod
    def _compile_task_group(cls, task_group: Any, setup_net_list: list[Any] | None = None) -> Any:
        return task_group

    def _do_close(self) -> None:
        """Nothing to do here."""

    def __enter__(self) -> Any:
        assert self._open, "Session already closed."
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


class LocalSession(Session):
    """Runs all nodes in this process, in one workspace; a task with a private one runs in a workspace below it."""

    def __init__(self, ws: Any = None) -> None:
        """Run in a workspace of `workspace.C`; the current one by default."""
        super().__init__()
        self._ws = workspace.C.Workspace.current if ws is None else ws

    @classmethod
    def _compile_task_group(cls, task_group: Any, setup_net_list: list[Any] | None = None) -> Any:
        with Cluster():
            task = task_group.to_task()
        plan = core.Plan("task_group_plan")
        plan.AddStep(task.get_step())
        return plan, task.output_list(), task.workspace_type()

    def _run_compiled(self, runnable: Any) -> None:
        plan, outputs, workspace_type = runnable
        blobs = [core.BlobReference(str(name)) for name in outputs.names()]
        for blob in blobs:
            self._ws.create_blob(str(blob))  # so that a workspace below writes them here
        outputs.set_values(blobs, _fetch_func=self._fetch_output)
        private = workspace_type == WorkspaceType.PRIVATE
        (workspace.C.Workspace(self._ws) if private else self._ws).run(plan)

    def _fetch_output(self, output: Any) -> Any:
        return self._ws.fetch_blob(str(output))
