"""What a builder has among its nets: parts that run once, again, on a condition, or around a task."""

from __future__ import annotations

from typing import Any

from caffe2.python import core
from caffe2.python._builder import NetBuilder
from caffe2.python.control_ops_util import add_if_op, add_while_op
from caffe2.python.task import Task, TaskGroup


def _const(value: Any, blob_out: Any = None) -> Any:
    return NetBuilder.current().current_net().Const(value, blob_out=blob_out)


class ReporterBuilder(NetBuilder):
    """Runs beside a task, or beside all tasks of a node, every so many milliseconds."""

    def __init__(self, interval_ms: int, net: Any = None, name: str | None = None) -> None:
        """Belong to the task that `net` ends up in; without one, to the node."""
        super().__init__(name)
        self._net = net
        self.interval_ms = interval_ms

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        if args[0] is None:
            self._report()

    def _report(self) -> None:
        step = core.to_execution_step(self)
        step.RunEveryMillis(self.interval_ms)
        if self._net is not None:
            self._net.add_attribute(Task.REPORT_STEP, step)
        else:
            TaskGroup.current().report_step(step, interval_ms=self.interval_ms)


class SetupBuilder(NetBuilder):
    """Runs before or behind a task, an instance of it, or all tasks of a node: an attribute of nets."""

    INIT = "init"
    EXIT = "exit"

    def __init__(self, type: str, name: str | None = None) -> None:
        """Run before, for `INIT`, or behind."""
        super().__init__(name)
        self.type = type

    def setup(self, net: Any) -> Any:
        """Return the step to run before."""
        return core.to_execution_step(self) if self.type == self.INIT else None

    def exit(self, net: Any) -> Any:
        """Return the step to run behind."""
        return core.to_execution_step(self) if self.type == self.EXIT else None


class RunOnce(NetBuilder):
    """Runs once, though it has a stop blob: it stops at its end."""

    def __init__(self, name: str | None = None) -> None:
        """Start a part."""
        super().__init__(name)

    def _finish(self) -> None:
        if self._stop_blob is not None:
            self.stop_if(_const(True))


class StopGuard(RunOnce):
    """Runs once, and remembers whether it was left before its end."""

    def __init__(self, has_stopped_blob: Any = None, name: str | None = None) -> None:
        """Remember it in a blob that is given, or in a new one."""
        super().__init__(name)
        self._stopped = has_stopped_blob

    def __enter__(self) -> Any:
        super().__enter__()
        self._stopped = _const(True, blob_out=self._stopped)
        return self

    def _finish(self) -> None:
        _const(False, blob_out=self._stopped)
        super()._finish()

    def has_stopped(self) -> Any:
        """Return a blob that is true if it was left before its end."""
        return self._stopped


class Loop(NetBuilder):
    """Runs until its stop blob is true, or a number of times."""

    def __init__(self, iters: Any = None, name: str | None = None) -> None:
        """Run `iters` times: a number, or a blob."""
        super().__init__(name, _stop_blob_required=True)
        if iters is not None:
            self._inc = _const(1)
            self._iter = _const(0)
            self._num_iters = iters if isinstance(iters, core.BlobReference) else _const(iters)
        else:
            self._num_iters = None

    def iter(self) -> Any:
        """Return the blob that counts from 0."""
        assert self._num_iters is not None, "This loop does not have a number of iterations."
        return self._iter

    def __enter__(self) -> Any:
        super().__enter__()
        if self._num_iters is not None:
            self.stop_if(self.current_net().GE([self._iter, self._num_iters]))
        return self

    def _finish(self) -> None:
        if self._num_iters is not None:
            self.current_net().Add([self._iter, self._inc], [self._iter])


class RunIf(RunOnce):
    """Runs once if a blob is true, and no branch before it ran."""

    def __init__(self, cond_blob: Any = None, name: str | None = None, _already_ran: Any = None) -> None:
        """Take the condition (the last branch has none), and the blob that says whether another branch ran."""
        super().__init__(name)
        assert cond_blob is not None or _already_ran is not None, "a branch has a condition, or branches before it"
        self._is_else = cond_blob is None
        self._else_blob = _already_ran
        if cond_blob is not None:
            net = NetBuilder.current().current_net()
            negation = net.Not(cond_blob)
            self._else_blob = negation if _already_ran is None else net.Or([_already_ran, negation])
        self._already_ran = _const(False) if _already_ran is None else _already_ran

    def __enter__(self) -> Any:
        super().__enter__()
        self.stop_if(self._else_blob)
        _const(True, blob_out=self._already_ran)
        return self

    def Elif(self, cond: Any, name: str | None = None) -> Any:
        """Return a branch that runs if no other did, and a blob is true."""
        assert not self._is_else, "Elif not allowed for an Else."
        return NetBuilder.current().add(RunIf(cond, name or self.name, self._already_ran))

    def Else(self, name: str | None = None) -> Any:
        """Return a branch that runs if no other did."""
        assert not self._is_else, "Elif not allowed for an Else."
        return NetBuilder.current().add(RunIf(name=name or self.name, _already_ran=self._already_ran))


class RunIfNet(NetBuilder):
    """An `If` operator, whose net is built within."""

    def __init__(self, cond_blob: Any, name: str | None = None) -> None:
        """Take the condition."""
        super().__init__(name, _use_control_ops=True)
        assert cond_blob is not None, "If needs a condition"
        self.cond_blob = cond_blob
        self.then_net: Any = None

    def _finish(self) -> None:
        self.then_net = self._merged("empty_then_net")
        if_net = core.Net(f"{self.name}/if_net")
        add_if_op(if_net, self.cond_blob, self._init_lexical_scope, self.then_net)
        self.add(self.merge_nets([if_net], self._init_lexical_scope))


class RunElseNet(NetBuilder):
    """The other net of the `If` just before."""

    def __init__(self, name: str | None = None) -> None:
        """Find that `If`."""
        parent = NetBuilder.current(required=False)
        before = parent._children[-1] if parent is not None and parent._children else None
        assert isinstance(before, RunIfNet), "Invalid use of Else builder"
        self._if_builder = before
        super().__init__(name, _use_control_ops=True)
        self._init_lexical_scope = before._init_lexical_scope

    def _finish(self) -> None:
        before = self._if_builder
        else_net = self._merged("empty_else_net")
        net = core.Net(f"{self.name}/if_else_net")
        add_if_op(net, before.cond_blob, self._init_lexical_scope, before.then_net, else_net)
        before._children = [net]


class RunWhileNet(NetBuilder):
    """A `While` operator, whose nets are built within: that of the condition first."""

    def __init__(self, name: str | None = None) -> None:
        """Start without a condition."""
        super().__init__(name, _use_control_ops=True)
        self.condition: tuple[Any, Any] | None = None

    def _finish(self) -> None:
        assert self.condition is not None, "Expected a condition in the loop"
        cond_blob, cond_net = self.condition
        body = self._merged("empty_loop_body_net")
        net = core.Net(f"{self.name}/while_net")
        add_while_op(net, cond_blob, self._init_lexical_scope, body, cond_net)
        self.add(self.merge_nets([net], self._init_lexical_scope))


class RunWhileCondition(NetBuilder):
    """The net of a loop's condition, which is its last output."""

    def __init__(self, name: str | None = None) -> None:
        """Find the loop."""
        parent = NetBuilder.current(required=False)
        assert isinstance(parent, RunWhileNet), "Use of Condition outside of WhileNet"
        assert parent.condition is None and not parent._children, (
            "Condition definition must be specified before the loop's body"
        )
        self._loop = parent
        super().__init__(name, _use_control_ops=True)

    def _finish(self) -> None:
        net = self._merged("empty_condition_net")
        assert net.Proto().op, "Expected a condition in the condition's net"
        self._loop.condition = core.BlobReference(net.Proto().op[-1].output[0]), net
