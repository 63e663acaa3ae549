"""Tasks: steps that belong to a node, grouped, with what is set up before and behind them; a session runs them.

Nets carry *attributes* that say what must run around the task that they end up in: `Task.TASK_SETUP` once,
`Task.TASK_INSTANCE_SETUP` once in every instance, `TaskGroup.LOCAL_SETUP` once on the node. An attribute is an object
with `setup(net)` and `exit(net)`: either adds operators to the net that it is given, or returns nets or steps.
"""

from __future__ import annotations

# pyright: reportPrivateUsage=false
# Groups and their tasks belong together.
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, cast

from caffe2.python import context, core
from caffe2.python.schema import Field, from_blob_list


def _merge_node_kwargs(a: dict[str, Any] | None, b: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return what was said of a node twice; the first one counts."""
    if a is None or b is None:
        return b if a is None else a
    return b | a


class Cluster(context.DefaultManaged):
    """The nodes that were named while it was the current one, and what was said of them."""

    def __init__(self) -> None:
        """Start without nodes."""
        self._nodes: list[str] = []
        self._node_kwargs: dict[str, Any] = {}

    def add_node(self, node: Any) -> None:
        """Add a node, once."""
        name = str(node)
        if name not in self._nodes:
            self._nodes.append(name)
        self._node_kwargs[name] = _merge_node_kwargs(self._node_kwargs.get(name), node.kwargs())

    def nodes(self) -> list[str]:
        """Return their names, in order."""
        return self._nodes

    def node_kwargs(self) -> dict[str, Any]:
        """Return what was said of each."""
        return self._node_kwargs

    def __repr__(self) -> str:
        return f"Cluster(nodes={self.nodes()}, node_kwargs={self.node_kwargs()})"


class Node(context.DefaultManaged):
    """Where tasks run that are made in it: `with Node("reader"): ...`."""

    def __init__(self, node: str = "local", **kwargs: Any) -> None:
        """Name a node; the current cluster gets to know it."""
        self._name = str(node)
        self._kwargs = kwargs
        Cluster.current().add_node(self)

    def __str__(self) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"Node(name={self._name}, kwargs={self._kwargs})"

    def kwargs(self) -> dict[str, Any]:
        """Return what was said of it."""
        return self._kwargs


class WorkspaceType:
    """Whether what a task makes goes with it (but for its outputs), or stays in the workspace of the session."""

    PRIVATE = "private"
    GLOBAL = "global"


def _listed(returned: Any, what: str) -> list[Any]:
    """Return the nets and steps that an attribute returned."""
    if returned is None:
        return []
    if isinstance(returned, (list, tuple)):
        return list(returned)  # pyright: ignore[reportUnknownArgumentType] -- of anything
    if isinstance(returned, (core.Net, core.ExecutionStep)):
        return [returned]
    raise TypeError(f"{what} returned {returned!r}, which is neither a net nor a step, nor several of them")


def get_setup_nets(key: str, steps_or_nets: Iterable[Any], target: Any) -> tuple[list[Any], list[Any]]:
    """Return what must run before and behind some steps, by their attributes of a key; each object is asked once, ever.

    Operators that the objects add to a net of their own come before the nets that they return; `target` is the task or
    the group that they are set up for.
    """
    init_net, exit_net = core.Net(f"{key}/init"), core.Net(f"{key}/exit")
    init_nets: list[Any] = []
    exit_nets: list[Any] = []
    given = itertools.chain.from_iterable(
        one.get_attributes(key) if isinstance(one, core.Net) else one.get_all_attributes(key) for one in steps_or_nets
    )
    for one in given:
        if getattr(one, "_setup_used", False):
            continue  # another task, or a group, has it
        one._setup_used = True
        if hasattr(one, "setup"):
            init_nets += _listed(one.setup(init_net), "setup")
        if hasattr(one, "exit"):
            exit_nets += _listed(one.exit(exit_net), "exit")
    for net, several in ((init_net, init_nets), (exit_net, exit_nets)):
        if net.Proto().op:
            several.insert(0, net)
    return init_nets, exit_nets


def add_setup_steps(step: Any, init_nets: list[Any], exit_nets: list[Any], name: str) -> Any:
    """Return a step between what runs before and behind it; the step itself where there is neither."""
    if not init_nets and not exit_nets:
        return step
    before = [core.execution_step(f"{name}:init", init_nets)] if init_nets else []
    behind = [core.execution_step(f"{name}:exit", exit_nets)] if exit_nets else []
    return core.execution_step(name, [*before, step, *behind])


class TaskGroup(context.Managed):
    """Tasks that run side by side; those of a node become one."""

    LOCAL_SETUP = "local_setup"

    def __init__(self, workspace_type: str | None = None) -> None:
        """Start without tasks; the type of workspace is that of the first one, unless it is given."""
        self._workspace_type = workspace_type
        self._tasks: list[Task] = []
        self._already_used = False
        self._tasks_by_node: tuple[TaskGroup, dict[str, str]] | None = None
        self._remote_nets: list[Any] = []
        self._report_nets: dict[str, tuple[Any, float]] = {}
        self._report_steps: list[tuple[Any, str, int]] = []

    def add_remote_net(self, net: Any) -> None:
        """Add a net that other nodes call."""
        self._remote_nets.append(net)

    def remote_nets(self) -> list[Any]:
        """Return them."""
        return self._remote_nets

    def add(self, task: Task) -> None:
        """Add a task, until those of a node have become one."""
        assert not self._already_used, "Cannot add Task to an already used TaskGroup."
        self._tasks.append(task)

    def tasks(self) -> list[Task]:
        """Return all tasks, which stay as they are from then on."""
        for task in self._tasks:
            task._notify_used()
        return self._tasks

    def num_registered_tasks(self) -> int:
        """Return how many there are by now."""
        return len(self._tasks)

    def used_nodes(self) -> list[str]:
        """Return the nodes of the tasks, in order."""
        return list(dict.fromkeys(task.node for task in self._tasks))

    def report_step(self, step: Any = None, node: Any = None, interval_ms: int = 1000) -> None:
        """Let a step run beside the tasks of a node, every so many milliseconds."""
        self._report_steps.append((step, str(Node.current() if node is None else node), interval_ms))

    def report_net(self, net: Any = None, node: Any = None, report_interval: float = 5) -> Any:
        """Let a net run beside the tasks of a node, every so many seconds; without one, return a new one."""
        name = str(Node.current() if node is None else node)
        assert net is None or name not in self._report_nets, f"the node {name} has a net that reports"
        if name not in self._report_nets:
            self._report_nets[name] = (net or core.Net(f"{name}/reporter"), report_interval)
        return self._report_nets[name][0]

    def _node_task(self, node: str, tasks: list[Task], reports: list[Any], group: TaskGroup) -> Task:
        """Return the one task of a node, in the group of those."""
        steps = [task.get_step() for task in tasks]
        kinds = {task.workspace_type() for task in tasks}
        for task, step in zip(tasks, steps, strict=True):
            step.SetCreateWorkspace(task.workspace_type() == WorkspaceType.PRIVATE)
        init_nets, exit_nets = get_setup_nets(self.LOCAL_SETUP, [*steps, *reports], self)
        body = steps[0]
        if reports or len(steps) > 1:
            body = core.execution_step(f"{node}:body", [*reports, *steps], concurrent_substeps=True)
        made = Task(
            node=node,
            step=add_setup_steps(body, init_nets, exit_nets, node),
            outputs=[output for task in tasks for output in task.outputs()],
            name="grouped_by_node",
            group=group,
            workspace_type=WorkspaceType.GLOBAL if WorkspaceType.GLOBAL in kinds else WorkspaceType.PRIVATE,
        )
        made._step_with_setup = made._step  # the setup of each task is around it already
        return made

    def tasks_by_node(self, node_remap: Callable[[str], str] | None = None) -> TaskGroup:
        """Return a group of one task for each node, of those of this group; `node_remap` may rename nodes."""
        node_map = {node: node_remap(node) if node_remap else node for node in self.used_nodes()}
        if self._tasks_by_node is not None:
            made, before = self._tasks_by_node
            assert before == node_map, "Cannot call tasks_by_node multiple times."
            return made
        self._already_used = True
        if self._tasks:
            self._workspace_type = self._workspace_type or WorkspaceType.PRIVATE
        tasks: dict[str, list[Task]] = defaultdict(list)
        for task in self.tasks():
            task._workspace_type = task._workspace_type or self._workspace_type
            tasks[node_map[task.node]].append(task)
        reports: dict[str, list[Any]] = defaultdict(list)
        for step, node, interval_ms in self._report_steps:
            step.RunEveryMillis(interval_ms)
            reports[node_map[node]].append(step)
        for node, (net, interval_s) in self._report_nets.items():
            reports[node_map[node]].append(core.execution_step("", [net], run_every_ms=int(interval_s * 1000)))
        made = TaskGroup()
        for node, several in tasks.items():
            self._node_task(node, several, reports[node], made)
        self._tasks_by_node = made, node_map
        return made

    def to_task(self, node: Any = None) -> Task:
        """Return all as one task, which runs on one node."""
        name = str(Node.current(node))
        found = self.tasks_by_node(lambda _: name).tasks()
        return found[0] if found else Task()

    def workspace_type(self) -> str | None:
        """Return the type of workspace of all tasks."""
        return self._workspace_type

    def __repr__(self) -> str:
        kind, nets = self._workspace_type, self._remote_nets
        return f"TaskGroup(tasks={self._tasks}, workspace_type={kind}, remote_nets={nets})"


class TaskOutput:
    """One or several blobs that outlive a task, or a record; a session says which values they have."""

    def __init__(self, names: Any) -> None:
        """Take the name of a blob, a list of names, or a record of blobs."""
        self._schema = names if isinstance(names, Field) else None
        found = names.field_blobs() if isinstance(names, Field) else names
        self._is_scalar = not isinstance(found, (tuple, list))
        self.names: list[Any] = [*cast("list[Any]", found)] if isinstance(found, (tuple, list)) else [found]
        self._values: list[Any] | None = None
        self._fetch_func: Callable[[Any], Any] | None = None

    def set(self, values: Any, _fetch_func: Callable[[Any], Any] | None = None) -> None:
        """Say what the blobs are, and how they are fetched."""
        assert len(values) == len(self.names), f"{len(values)} values for {len(self.names)} names"
        self._values = values
        self._fetch_func = _fetch_func

    def _shaped(self, values: list[Any]) -> Any:
        if self._is_scalar:
            return values[0]
        return values if self._schema is None else from_blob_list(self._schema, values)

    def get(self) -> Any:
        """Return what was set, as it was asked for: one, several, or a record."""
        assert self._values is not None, "Output value not set yet."
        return self._shaped(self._values)

    def fetch(self) -> Any:
        """Return the values themselves."""
        assert self._fetch_func is not None, "Cannot fetch value for this output."
        assert self._values is not None, "Output value not set yet."
        return self._shaped([self._fetch_func(value) for value in self._values])

    def __repr__(self) -> str:
        return f"TaskOutput(names={self.names}, values={self._values})"


def final_output(blob_or_record: Any) -> TaskOutput:
    """Add an output to the current task, or to a new one."""
    return (Task.current(required=False) or Task()).add_output(blob_or_record)


class TaskOutputList:
    """The outputs of a task, in order."""

    def __init__(self, outputs: list[TaskOutput] | None = None) -> None:
        """Take some outputs."""
        self.outputs = outputs or []

    def names(self) -> list[Any]:
        """Return the names of all blobs."""
        return [name for output in self.outputs for name in output.names]

    def set_values(self, values: Any, _fetch_func: Callable[[Any], Any] | None = None) -> None:
        """Say what the blobs are, for all outputs in turn."""
        expected = len(self.names())
        assert len(values) == expected, f"{len(values)} values for {expected} names"
        left = iter(values)
        for output in self.outputs:
            output.set([next(left) for _ in output.names], _fetch_func)

    def __repr__(self) -> str:
        return f"TaskOutputList(outputs={self.outputs})"


class Task(context.Managed):
    """A step on a node, with outputs; as a context, its step is what is built within, by `net_builder.ops`."""

    TASK_SETUP = "task_setup"
    TASK_INSTANCE_SETUP = "task_instance_setup"
    REPORT_STEP = "report_step"
    _global_names_used: ClassVar[set[str]] = set()

    @staticmethod
    def _get_next_name(node: str, group: TaskGroup | None, name: str | None) -> str:
        used = Task._global_names_used if group is None else {task.name for task in group._tasks}
        wanted = f"{node}/{name or 'task'}"
        names = itertools.chain([wanted], (f"{wanted}:{count}" for count in itertools.count(1)))
        return next(found for found in names if found not in used)

    def __init__(
        self,
        step: Any = None,
        outputs: Any = None,
        workspace_type: str | None = None,
        group: TaskGroup | None = None,
        node: Any = None,
        name: str | None = None,
        num_instances: int | None = None,
    ) -> None:
        """Make a task of a step, or of nets; it joins the current group, and runs on the current node."""
        self.node = str(Node.current(None if node is None else Node(str(node))))
        self.group = TaskGroup.current(group, required=False)
        if name is None and isinstance(step, core.ExecutionStep):
            name = step.Name()
        self.name = self._get_next_name(self.node, self.group, name)
        self._already_used = False
        self._workspace_type = workspace_type
        self._step: Any = None
        self._step_with_setup: Any = None
        self._outputs: list[TaskOutput] = []
        self._num_instances = num_instances
        self._net_builder: Any = None
        self._pipeline: Any = None
        self._is_pipeline_context = False
        if step is not None:
            self.set_step(step)
        if outputs is not None:
            self.add_outputs(outputs)
        if self.group is not None:
            self.group.add(self)

    def __enter__(self) -> Any:
        """Let operators be added by `net_builder.ops`."""
        from caffe2.python.net_builder import NetBuilder

        super().__enter__()
        assert self._step is None, "This Task already has an execution step."
        self._net_builder = NetBuilder(_fullname=self.name)
        self._net_builder.__enter__()
        return self

    def __exit__(self, *args: object) -> None:
        builder, self._net_builder = self._net_builder, None
        try:
            builder.__exit__(*args)
        finally:
            super().__exit__(*args)
        if args[0] is None:
            self.set_step(builder)

    def workspace_type(self) -> str | None:
        """Return the type of its workspace."""
        return self._workspace_type

    def _assert_not_used(self) -> None:
        assert not self._already_used, "Cannot modify task since it is already been used."

    def add_output(self, output: Any) -> TaskOutput:
        """Add a blob, several, or a record."""
        self._assert_not_used()
        made = output if isinstance(output, TaskOutput) else TaskOutput(output)
        self._outputs.append(made)
        return made

    def add_outputs(self, outputs: Any) -> Any:
        """Add several outputs, or one."""
        if not isinstance(outputs, (list, tuple)):
            return self.add_output(outputs)
        several: list[Any] = [*cast("list[Any]", outputs)]  # pyright: ignore[reportUnknownArgumentType] -- of anything
        return [self.add_output(one) for one in several]

    def set_step(self, step: Any) -> None:
        """Say what it runs."""
        self._assert_not_used()
        self._step = core.to_execution_step(step)

    def get_step(self) -> Any:
        """Return its step, with what is set up around it; a task without outputs gets one, which says that it ran."""
        if self._step_with_setup is None:
            self._step_with_setup = self._with_setup()
        return self._step_with_setup

    def _with_setup(self) -> Any:
        if self._step is None:
            return core.execution_step(self.name, [])
        reports = [core.to_execution_step(step) for step in self._step.get_all_attributes(self.REPORT_STEP)]
        body = core.execution_step(f"{self.name}:body", [*reports, self._step]) if reports else self._step
        init_nets, exit_nets = get_setup_nets(self.TASK_SETUP, [self._step, *reports], self)
        instance = get_setup_nets(self.TASK_INSTANCE_SETUP, [self._step, *reports], self)
        if not self._outputs:
            net = core.Net(f"{self.name}:output")
            self._outputs.append(TaskOutput([net.ConstantFill([], 1, dtype=core.DataType.INT32, value=0)]))
            exit_nets.append(net)
        step = add_setup_steps(body, *instance, f"{self.name}:instance")
        if self._num_instances is not None and self._num_instances > 1:
            step.SetCreateWorkspace(True)
            step = core.execution_step("%s:parallel", [step], num_concurrent_instances=self._num_instances)
        return add_setup_steps(step, init_nets, exit_nets, self.name)

    def output_list(self) -> TaskOutputList:
        """Return its outputs."""
        return TaskOutputList(self._outputs)

    def outputs(self) -> list[TaskOutput]:
        """Return its outputs, as a list."""
        return self._outputs

    def _notify_used(self) -> None:
        """Build its step; it cannot be changed from then on."""
        self.get_step()
        self._already_used = True

    def __repr__(self) -> str:
        return f"Task(name={self.name}, node={self.node}, outputs={self.outputs()})"


class SetupNets:
    """An attribute of nets that brings nets to run before and behind."""

    def __init__(self, init_nets: Any = None, exit_nets: Any = None) -> None:
        """Take nets for both."""
        self.init_nets = init_nets
        self.exit_nets = exit_nets

    def setup(self, init_net: Any) -> Any:
        """Return those that run before."""
        return self.init_nets

    def exit(self, exit_net: Any) -> Any:
        """Return those that run behind."""
        return self.exit_nets

    def __repr__(self) -> str:
        return f"SetupNets(init_nets={self.init_nets}, exit_nets={self.exit_nets})"
