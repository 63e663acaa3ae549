"""Nets, steps, tasks and jobs as text, and a check that every blob that they read is defined before."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any, ClassVar

from caffe2.python import core
from caffe2.python._operators import BlobReference
from caffe2.python.task import WorkspaceType
from tazza.proto import Argument, DeviceOption, NetDef, OperatorDef
from tazza.proto import ExecutionStep as StepProto

LENGTH_MAX = 64
"""Letters of a text that are shown."""
LARGEST_BYTES = 2**26
"""What a task may take as a message."""


class Visitor:
    """Calls the function that is registered for the class of an object."""

    _visitors: ClassVar[dict[tuple[str, str], Callable[..., Any]]] = {}

    @classmethod
    def register(cls, Type: type) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator of functions of (visitor, object)."""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            cls._visitors[cls.__name__, Type.__name__] = function
            return function

        return decorate

    def __call__(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Visit an object.

        Raises:
            TypeError: nobody registered a function for its class.
        """
        if obj is None:
            return None
        for cls in type(self).__mro__:
            found = self._visitors.get((cls.__name__, type(obj).__name__))
            if found is not None:
                return found(self, obj, *args, **kwargs)
        raise TypeError(f"{type(self).__name__}: unsupported object type: {type(obj)}")


class Analyzer(Visitor):
    """Follows which blobs are defined, in workspaces within each other."""

    PREFIXES_TO_IGNORE: ClassVar[set[str]] = {"distributed_ctx_init"}

    def __init__(self) -> None:
        """Start without workspaces."""
        self.workspaces: dict[Any, dict[str, int]] = {}
        self.workspace_ctx: list[dict[str, int]] = []

    @property
    def workspace(self) -> dict[str, int]:
        """The blobs of the present workspace, with how often each was defined."""
        return self.workspace_ctx[-1]

    @contextmanager
    def set_workspace(self, node: Any = None, ws: Any = None, do_copy: bool = False) -> Generator[Any, None, None]:
        """Let a workspace be the present one inside: a node's, a given one, or a copy."""
        if ws is None:
            ws = self.workspaces.setdefault(str(node), {}) if node is not None else self.workspace
        self.workspace_ctx.append(copy(ws) if do_copy else ws)
        try:
            yield self.workspace
        finally:
            self.workspace_ctx.pop()

    def define_blob(self, blob: Any) -> None:
        """Note that a blob is written."""
        self.workspace[str(blob)] = self.workspace.get(str(blob), 0) + 1

    def need_blob(self, blob: Any) -> None:
        """Check that a blob was written.

        Raises:
            AssertionError: it was not.
        """
        name = str(blob)
        if not any(name.startswith(prefix) for prefix in self.PREFIXES_TO_IGNORE):
            assert name in self.workspace, f"Blob undefined: {name}"


@Analyzer.register(OperatorDef)
def analyze_op(analyzer: Analyzer, op: OperatorDef) -> None:
    """Check an operator."""
    for name in op.input:
        analyzer.need_blob(name)
    for name in op.output:
        analyzer.define_blob(name)


def analyze_net(analyzer: Analyzer, net: Any) -> None:
    """Check the operators of a net."""
    for op in net.Proto().op:
        analyzer(op)


def analyze_step(analyzer: Analyzer, step: Any) -> None:
    """Check the nets of a step, and its steps."""
    proto = step.Proto()
    with analyzer.set_workspace(do_copy=proto.create_workspace):
        if proto.report_net:
            with analyzer.set_workspace(do_copy=True):
                analyzer(step.get_net(proto.report_net))
        made: set[str] = set()
        for substep in [*step.Substeps(), *(step.get_net(name) for name in proto.network)]:
            with analyzer.set_workspace(do_copy=proto.concurrent_substeps) as inner:
                analyzer(substep)
                if proto.should_stop_blob:
                    analyzer.need_blob(proto.should_stop_blob)
            if proto.concurrent_substeps:
                new = inner.keys() - analyzer.workspace.keys()
                twice = ", ".join(sorted(made & new))
                assert not twice, f"Error: Blobs created by multiple parallel steps: {twice}"
                made |= new
    for name in sorted(made):
        analyzer.define_blob(name)


def analyze_task(analyzer: Analyzer, task: Any) -> None:
    """Check the step of a task, which has blobs of its own unless it works in the global workspace."""
    step = task.get_step()
    plan = core.Plan(task.node)
    plan.AddStep(step)
    size = plan.Proto().ByteSize()
    assert size < LARGEST_BYTES, f"a serialized task must be smaller than {LARGEST_BYTES} bytes, this has {size}"
    with analyzer.set_workspace(do_copy=task.workspace_type() != WorkspaceType.GLOBAL):
        analyzer(step)


def analyze_task_group(analyzer: Analyzer, tg: Any) -> None:
    """Check the tasks of a group, each with the blobs of its node."""
    for task in tg.tasks_by_node().tasks():
        with analyzer.set_workspace(node=task.node):
            analyzer(task)


def analyze_job(analyzer: Analyzer, job: Any) -> None:
    """Check the groups of a job."""
    for group in (job.init_group, job.epoch_group):
        analyzer(group)


def analyze(obj: Any) -> None:
    """Check that every blob which a task, a group or a job reads is defined before, and none by two steps at once.

    Raises:
        AssertionError: one is not, or is.
    """
    analyzer = Analyzer()
    with analyzer.set_workspace(ws={}):
        analyzer(obj)


class Text:
    """Lines, indented by contexts."""

    def __init__(self) -> None:
        """Start without lines."""
        self._indent = 0
        self._lines_in_context = [0]
        self.lines: list[str] = []

    @contextmanager
    def context(self, text: str | None) -> Generator[None, None, None]:
        """Indent what is added inside, below `with <text>:`; nothing where there is no text."""
        if text is None:
            yield
            return
        self.add(f"with {text}:")
        self._indent += 4
        self._lines_in_context.append(0)
        try:
            yield
        finally:
            if self._lines_in_context.pop() == 0:
                self.add("pass")
            self._indent -= 4

    def add(self, text: str) -> None:
        """Append a line."""
        self._lines_in_context[-1] += 1
        self.lines.append(" " * self._indent + text)

    def __str__(self) -> str:
        return "\n".join(self.lines)


class Printer(Visitor, Text):
    """Writes what it visits."""

    def __init__(self, factor_prefixes: bool = False, c2_syntax: bool = True) -> None:
        """Choose how names are written: with common prefixes once, and as calls of `core.Net`."""
        super().__init__()
        self.factor_prefixes = factor_prefixes
        self.c2_syntax = c2_syntax
        self.c2_net_name: str | None = None


def _sanitize_str(s: Any) -> str:
    if isinstance(s, bytes):
        s = s.decode("ascii", errors="ignore")
    text = str(s)
    return f"'{text}'" if len(text) < LENGTH_MAX else f"'{text[:LENGTH_MAX]}'...<+len={len(text) - LENGTH_MAX}>"


def _arg_val(arg: Argument) -> str:
    for field in ("f", "i"):
        if arg.HasField(field):
            return str(getattr(arg, field))
    if arg.HasField("s"):
        return _sanitize_str(arg.s)
    if arg.strings:
        return str([_sanitize_str(one) for one in arg.strings])
    return str(list(arg.floats) or list(arg.ints))


def commonprefix(m: Sequence[str]) -> str:
    """Return the longest beginning of all texts."""
    first, last = (min(m), max(m)) if m else ("", "")
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same]


def format_value(val: Any) -> str:
    """Return a value as text."""
    if isinstance(val, (list, tuple)):
        quoted = ", ".join(f"'{one}'" for one in val)  # pyright: ignore[reportUnknownVariableType]
        return f"[{quoted}]"
    return str(val)


def factor_prefix(vals: Iterable[Any], do_it: bool) -> str:
    """Return names in a row, their common beginning written once where that is asked for."""
    texts = [format_value(one) for one in vals]
    prefix = commonprefix(texts) if len(texts) > 1 and do_it else ""
    joined = ", ".join(text[len(prefix) :] for text in texts)
    return f"{prefix}[{joined}]" if prefix else joined


def call(op: Any, inputs: Any = None, outputs: Any = None, factor_prefixes: bool = False) -> str:
    """Return `outputs = op(inputs)`; inputs that are pairs have names."""
    given = [] if inputs is None else list(inputs)
    plain = [one for one in given if not isinstance(one, tuple)]
    named: list[tuple[Any, Any]] = [one for one in given if isinstance(one, tuple)]
    parts = [factor_prefix(plain, factor_prefixes)] if plain else []
    parts += [f"{key}={value}" for key, value in named]
    text = f"{op}({', '.join(parts)})"
    return f"{factor_prefix(outputs, factor_prefixes)} = {text}" if outputs else text


def format_device_option(dev_opt: DeviceOption | None) -> str | None:
    """Return the option of a device as text, None without one."""
    if not dev_opt or not (dev_opt.device_type or dev_opt.device_id or dev_opt.node_name):
        return None
    return str(call("DeviceOption", [dev_opt.device_type, dev_opt.device_id, f"'{dev_opt.node_name}'"]))


@Printer.register(OperatorDef)
def print_op(text: Printer, op: OperatorDef) -> None:
    """Write an operator, and the nets within it."""
    args: list[Any] = [(one.name, _arg_val(one)) for one in op.arg]
    device = format_device_option(op.device_option)
    if device is not None:
        args.append(("device_option", device))
    if text.c2_net_name:
        text.add(call(f"{text.c2_net_name}.{op.type}", [list(op.input), list(op.output), *args]))
    else:
        text.add(call(op.type, [*op.input, *args], op.output, factor_prefixes=text.factor_prefixes))
    for one in op.arg:
        if one.HasField("n"):
            with text.context(f"arg: {one.name}"):
                text(one.n)


@Printer.register(NetDef)
def print_net_def(text: Printer, net_def: NetDef) -> None:
    """Write the operators of a net's message."""
    if text.c2_syntax:
        text.add(call("core.Net", [f"'{net_def.name}'"], [net_def.name]))
        text.c2_net_name = net_def.name
    else:
        text.add(f"# net: {net_def.name}")
    for op in net_def.op:
        text(op)
    if text.c2_syntax:
        text.c2_net_name = None


def print_net(text: Printer, net: Any) -> None:
    """Write the operators of a net."""
    text(net.Proto())


def _get_step_context(step: Any) -> tuple[str | None, bool]:
    """Return how a step is headed, and whether those within it are."""
    proto = step.Proto()
    if proto.should_stop_blob:
        return call("loop"), False
    if proto.num_iter and proto.num_iter != 1:
        return call("loop", [proto.num_iter]), False
    if proto.num_concurrent_instances > 1:
        return call("parallel", [("num_instances", proto.num_concurrent_instances)]), len(step.Substeps()) > 1
    if proto.concurrent_substeps and len(step.Substeps()) > 1:
        return call("parallel"), True
    return (call("run_once") if proto.report_net else None), False


def _substep_context(step: Any, is_parallel: bool) -> str | None:
    """Return how a net or a step within a step is headed."""
    proto = step.Proto() if hasattr(step, "Substeps") else None
    if proto is not None and proto.run_every_ms:
        return call("reporter", [str(step), ("interval_ms", proto.run_every_ms)])
    if not is_parallel:
        return None
    return call("workspace" if proto is not None and proto.create_workspace else "step", [str(step)])


def print_step(text: Printer, step: Any) -> None:
    """Write the nets and steps of a step."""
    proto: StepProto = step.Proto()
    context, is_parallel = _get_step_context(step)
    with text.context(context):
        if proto.report_net:
            with text.context(call("report_net", [proto.report_interval])):
                text(step.get_net(proto.report_net))
        for one in [*step.Substeps(), *(step.get_net(name) for name in proto.network)]:
            with text.context(_substep_context(one, is_parallel)):
                text(one)
                if proto.should_stop_blob:
                    text.add(call("yield stop_if", [proto.should_stop_blob]))


def _print_task_output(x: Any) -> str:
    return f"Output[{', '.join(map(str, x.names))}]"


def print_task(text: Printer, task: Any) -> None:
    """Write the step of a task, and its outputs."""
    outs = ", ".join(_print_task_output(one) for one in task.outputs())
    context: list[Any] = [("node", task.node), ("name", task.name), ("outputs", outs)]
    with text.context(call("Task", context)):
        text(task.get_step())


def print_task_group(text: Printer, tg: Any, header: Any = None) -> None:
    """Write the tasks of a group."""
    with text.context(header or call("TaskGroup")):
        for task in tg.tasks_by_node().tasks():
            text(task)


def print_job(text: Printer, job: Any) -> None:
    """Write the groups of a job."""
    text(job.init_group, "Job.current().init_group")
    text(job.epoch_group, "Job.current().epoch_group")
    with text.context("Job.current().stop_conditions"):
        for out in job.stop_conditions:
            text.add(_print_task_output(out))
    text(job.download_group, "Job.current().download_group")
    text(job.exit_group, "Job.current().exit_group")


def to_string(obj: Any, **kwargs: Any) -> str:
    """Return a net, a step, a task or a job as text."""
    printer = Printer(**kwargs)
    printer(obj)
    return str(printer)


def debug_net(net: Any) -> Any:
    """Add a Print of each output behind each operator of a copy of a net, which is returned."""
    made = net.Clone(f"{net.Name()}_debug", keep_schema=False)
    ops = list(made.Proto().op)
    del made.Proto().op[:]
    for op in ops:
        made.extend_ops([op])
        for name in op.output:
            made.Print(BlobReference(name), [])
    return made


def _register_by_name(name: str, analyzing: Callable[..., Any], printing: Callable[..., Any]) -> None:
    """Register functions for a class whose module need not be there."""
    Analyzer._visitors[Analyzer.__name__, name] = analyzing  # pyright: ignore[reportPrivateUsage]
    Printer._visitors[Printer.__name__, name] = printing  # pyright: ignore[reportPrivateUsage]


_register_by_name("Net", analyze_net, print_net)
_register_by_name("ExecutionStep", analyze_step, print_step)
_register_by_name("Task", analyze_task, print_task)
_register_by_name("TaskGroup", analyze_task_group, print_task_group)
_register_by_name("Job", analyze_job, print_job)
