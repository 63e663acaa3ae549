"""Record the steps that `control`, `net_builder` and `task` build; it runs under either Python.

    PYTHON_OF_CAFFE2 -m tools.record_steps tests/data/steps.json

Each case is a function of the modules that returns what was built: nets, steps, builders, tasks, or what can be
printed. A case becomes lines of text: a step with its settings and the names of its nets, indented by its depth, then
the nets. Caffe2 numbers some blobs of `If`, `While` and `Do` by the order of a set: they are sorted.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

SORTED = ("If", "While", "Do")
PIPES = ("pipeline", "dataset", "record_queue", "text_file_reader", "net_printer")


class Modules:
    """The modules under test, and a few nets to build with."""

    def __init__(self) -> None:
        for name in (*("core", "control", "context", "net_builder", "task", "schema"), *PIPES):
            setattr(self, name, import_module("caffe2.python." + name))
        self.ops = self.net_builder.ops
        self.np = import_module("numpy")

    def __getattr__(self, name: str) -> Any:
        """Return what `task` has, and builders of nets."""
        return getattr(self.task, name)

    def reset(self) -> None:
        """Forget the names that earlier cases used."""
        self.core.Net._net_names_used.clear()
        self.core.ExecutionStep._step_names_used.clear()
        self.control._used_step_names.clear()
        self.control._current_idx = 1
        if hasattr(self.context, "_stacks"):
            self.context._stacks.__dict__.clear()
        else:
            for found in self.context._context_registry()._ctxs.values():
                found._local_stack = threading.local()

    def blob(self, name: str) -> Any:
        """Return a name."""
        return self.core.BlobReference(name)

    def net(self, name: str) -> Any:
        """Return a net that fills a blob of its own."""
        made = self.core.Net(name)
        made.ConstantFill([], "x_" + name, shape=[1])
        return made

    def condition(self, name: str = "c") -> Any:
        """Return a net whose last output is a bool."""
        made = self.core.Net(name)
        out = made.ConstantFill([], "b_" + name, shape=[], value=False, dtype=self.core.DataType.BOOL)
        made.AddExternalOutput(out)
        return made

    def const(self, value: Any = 1) -> Any:
        """Add a constant to the net that is built."""
        return self.ops.Const(value)


def _argument(one: Any) -> str:
    if one.HasField("n"):
        return one.name + "={" + net_line(one.n) + "}"
    for field in ("i", "f"):
        if one.HasField(field):
            return f"{one.name}={getattr(one, field):g}"
    if one.HasField("s"):
        return f"{one.name}={one.s.decode()}"
    return f"{one.name}={list(one.ints) or list(one.floats)}"


def _operator(op: Any) -> str:
    hidden = ("inner_blobs", "outer_blobs_idx") if op.type == "Do" else ()
    arguments = sorted(_argument(one) for one in op.arg if one.name not in hidden)
    inputs, outputs = ([*map(str, names)] for names in (op.input, op.output))
    if op.type in SORTED:
        inputs, outputs = sorted(inputs), sorted(outputs)
    return f"{op.type}({','.join(inputs)})->{','.join(outputs)} {' '.join(arguments)}".strip()


def net_line(net: Any) -> str:
    """Return a net as text, without the workspaces of its branches."""
    outputs = sorted(name for name in net.external_output if "workspace_" not in name)
    head = f"{net.name} [{','.join(sorted(net.external_input))}] -> [{','.join(outputs)}]"
    return f"{head}: {'; '.join(map(_operator, net.op))}"


def step_lines(step: Any, depth: int = 0) -> Iterator[str]:
    """Yield a step, and those within."""
    hidden = ("name", "substep", "network")
    settings = sorted(f"{field.name}={value}" for field, value in step.ListFields() if field.name not in hidden)
    yield f"{'  ' * depth}{step.name} ({','.join(step.network)}) {' '.join(settings)}"
    for one in step.substep:
        yield from step_lines(one, depth + 1)


def lines(modules: Modules, built: Any) -> Iterator[str]:
    """Yield what was built as text."""
    core = modules.core
    if isinstance(built, (list, tuple)):
        for one in cast("list[Any]", built):
            yield from lines(modules, one)
    elif isinstance(built, modules.task.Task):
        step = built.get_step()
        yield repr(built)
        yield from lines(modules, step)
    elif isinstance(built, modules.net_builder.NetBuilder):
        yield str(built)
        yield from lines(modules, core.to_execution_step(built))
    elif isinstance(built, core.ExecutionStep):
        plan = core.Plan(built).Proto()
        for one in plan.execution_step:
            yield from step_lines(one)
        for one in plan.network:
            yield "net " + net_line(one)
    elif isinstance(built, core.Net):
        yield "net " + net_line(built.Proto())
    else:
        yield str(built)


def printed(modules: Modules, built: Any) -> Iterator[str]:
    """Yield what `net_printer` writes of what was built."""
    if isinstance(built, (list, tuple)):
        for one in cast("list[Any]", built):
            yield from printed(modules, one)
    elif isinstance(built, (modules.core.Net, modules.core.ExecutionStep, modules.task.Task)):
        for settings in ({}, {"factor_prefixes": True}, {"c2_syntax": False}):
            yield from modules.net_printer.to_string(built, **settings).splitlines()


def recorded(modules: Modules) -> dict[str, list[str]]:
    """Return the lines of each case, of pipes also those of the printer."""
    from tools.pipe_cases import pipe_cases
    from tools.step_cases import cases

    found: dict[str, list[str]] = {}
    for name, build in {**cases(), **pipe_cases()}.items():
        modules.reset()
        built = build(modules)
        found[name] = list(lines(modules, built))
        if name in pipe_cases():
            found[f"printed {name}"] = list(printed(modules, built))
    modules.reset()
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(recorded(Modules()), indent=1) + "\n", encoding="utf-8")
