"""Builders of steps by `with`: `ops.Add(...)` adds to the current net, `ops.loop()`, `ops.If()` ... run parts of it."""

from __future__ import annotations

from typing import Any

from caffe2.python._builder import NetBuilder as NetBuilder
from caffe2.python._builder_parts import (
    Loop,
    ReporterBuilder,
    RunElseNet,
    RunIf,
    RunIfNet,
    RunWhileCondition,
    RunWhileNet,
    SetupBuilder,
    StopGuard,
)
from caffe2.python.task import Task, TaskGroup


class Operations:
    """Operators of the current builder's net, and parts of the builder; `ops` is the one that scripts import."""

    def net(self, net: Any = None, name: str | None = None) -> Any:
        """Return the current net; a net that is given, or a new one of a name, becomes it."""
        assert net is None or name is None, "a net that is given has its name"
        if net is not None:
            NetBuilder.current().add(net)
            return net
        return NetBuilder.current().current_net(name=name)

    def __getattr__(self, op_type: str) -> Any:
        """Return what adds an operator to the current net."""
        builder = NetBuilder.current(required=False)
        if op_type.startswith("__") or builder is None:
            raise AttributeError("No active NetBuilder.")
        return getattr(builder.current_net(), op_type)

    def task_group(self) -> Any:
        """Return a group of tasks among the parts of the builder, which no step can hold."""
        return NetBuilder.current().add(TaskGroup())

    def stop(self) -> Any:
        """Leave the current part here."""
        return NetBuilder.current().stop_if(self.Const(True))

    def stop_if(self, blob: Any) -> Any:
        """Leave the current part here if a blob is true."""
        return NetBuilder.current().stop_if(blob)

    def loop(self, iters: Any = None, name: str | None = None) -> Any:
        """Return a part that runs until it is left, or `iters` times: a number, or a blob."""
        return NetBuilder.current().add(Loop(iters, name=name))

    def stop_guard(self, has_stopped_blob: Any = None, name: str | None = None) -> Any:
        """Return a part that runs once, and knows whether it was left before its end."""
        return NetBuilder.current().add(StopGuard(has_stopped_blob=has_stopped_blob, name=name))

    def If(self, cond: Any, name: str | None = None) -> Any:
        """Return a part that runs if a blob is true, as a step; `Elif` and `Else` of it are the other branches."""
        return NetBuilder.current().add(RunIf(cond, name=name))

    def IfNet(self, cond: Any, name: str | None = None) -> Any:
        """Return a part that runs if a blob is true, as an operator `If`."""
        return NetBuilder.current().add(RunIfNet(cond, name=name))

    def Else(self, name: str | None = None) -> Any:
        """Return the other branch of the `IfNet` just before."""
        return RunElseNet(name=name)

    def WhileNet(self, name: str | None = None) -> Any:
        """Return a part that runs as long as its `Condition` holds, as an operator `While`."""
        return NetBuilder.current().add(RunWhileNet(name=name))

    def Condition(self, name: str | None = None) -> Any:
        """Return the part that computes the condition of a `WhileNet`: what it makes last."""
        return RunWhileCondition(name=name)

    def _setup(self, key: str, kind: str, name: str | None = None) -> Any:
        builder = SetupBuilder(kind, name=name)
        self.net().add_attribute(key, builder)
        return builder

    def task_init(self) -> Any:
        """Return a part that runs once, before the task, also before all of its instances."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.INIT)

    def task_exit(self) -> Any:
        """Return a part that runs once, behind the task."""
        return self._setup(Task.TASK_SETUP, SetupBuilder.EXIT)

    def task_instance_init(self) -> Any:
        """Return a part that runs before each instance of the task, in the workspace of the instance."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.INIT)

    def task_instance_exit(self) -> Any:
        """Return a part that runs behind each instance of the task."""
        return self._setup(Task.TASK_INSTANCE_SETUP, SetupBuilder.EXIT)

    def local_init(self) -> Any:
        """Return a part that runs once, before all tasks of the node."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.INIT)

    def local_exit(self, name: str | None = None) -> Any:
        """Return a part that runs once, behind all tasks of the node."""
        return self._setup(TaskGroup.LOCAL_SETUP, SetupBuilder.EXIT, name)

    def task_reporter(self, interval_ms: int = 1000, name: str | None = None) -> Any:
        """Return a part that runs beside the task, every so many milliseconds."""
        return ReporterBuilder(interval_ms, net=self.net(), name=name)

    def local_reporter(self, interval_ms: int = 1000, name: str | None = None) -> Any:
        """Return a part that runs beside the tasks of the node, every so many milliseconds."""
        return ReporterBuilder(interval_ms, name=name)


ops = Operations()
