"""What `tools/record_steps.py` builds: loops, branches, builders, tasks and groups, each by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

# ruff: noqa: D103 -- what a case builds is its name and its few lines


def cases() -> dict[str, Callable[[Any], Any]]:
    """Return all, by name."""
    found: dict[str, Callable[[Any], Any]] = {}
    for name in ("While", "Until", "DoWhile", "DoUntil", "If", "IfNot", "_RunOnceIf", "_RunOnceIfNot"):
        found.update({f"{name} {key}": partial(case, name) for key, case in BODIES.items()})
    for name in ("If", "IfNot"):
        found.update({f"{name} {key}": partial(case, name) for key, case in BRANCHES.items()})
    for name in ("Switch", "SwitchNot"):
        found.update({f"{name} {key}": partial(case, name) for key, case in SWITCHES.items()})
    found.update({one.__name__: one for one in CONTROLS})
    for part in PARTS:
        name = part.__name__
        found[f"builder {name}"] = partial(builder, part, None)
        found[f"builder named {name}"] = partial(builder, part, "named")
        found[f"task {name}"] = partial(task, part, {})
        found[f"instances {name}"] = partial(task, part, {"num_instances": 3})
        found[f"node {name}"] = partial(task, part, {"node": "trainer:0", "name": "mine"})
    for part in GROUPS:
        found[f"group {part.__name__}"] = partial(group, part, None)
        found[f"global group {part.__name__}"] = partial(group, part, "global")
    found.update({one.__name__: one for one in TASKS})
    return found


# -- control -----------------------------------------------------------------------------------------------------------

BODIES: dict[str, Callable[[str, Any], Any]] = {
    "net": lambda f, m: getattr(m.control, f)("d", m.condition(), m.net("a")),
    "blob": lambda f, m: getattr(m.control, f)("d", m.blob("k"), m.net("a")),
    "text": lambda f, m: getattr(m.control, f)("d", "k", m.net("a")),
    "nets": lambda f, m: getattr(m.control, f)("d", m.condition(), [m.net("a"), m.net("b")]),
    "step": lambda f, m: getattr(m.control, f)("d", m.condition(), m.control.Do("e", m.net("a"))),
    "blob step": lambda f, m: getattr(m.control, f)("d", "k", m.control.Do("e", m.net("a"))),
    "mixed": lambda f, m: getattr(m.control, f)("d", m.condition(), [m.control.Do("e", m.net("a")), m.net("b")]),
    "twice": lambda f, m: m.control.Do(
        "q", *(getattr(m.control, f)("d", one, m.net("a")) for one in (m.condition(), m.condition(), "k"))
    ),
}
BRANCHES: dict[str, Callable[[str, Any], Any]] = {
    "else": lambda f, m: getattr(m.control, f)("d", m.condition(), m.net("a"), m.net("b")),
    "blob else": lambda f, m: getattr(m.control, f)("d", "k", m.net("a"), [m.net("b"), m.control.Do("z", m.net("y"))]),
    "no else": lambda f, m: getattr(m.control, f)("d", "k", m.net("a"), []),
    "nothing": lambda f, m: getattr(m.control, f)("d", "k", []),
    "else twice": lambda f, m: m.control.Do(
        "q", *(getattr(m.control, f)("d", m.condition(), m.net("a"), m.net("b")) for _ in range(2))
    ),
}
SWITCHES: dict[str, Callable[[str, Any], Any]] = {
    "three": lambda f, m: getattr(m.control, f)(
        "d", (m.condition(), m.net("a")), (m.blob("k"), m.net("b")), ("s", m.net("c"))
    ),
    "one": lambda f, m: getattr(m.control, f)("d", (m.condition(), [m.net("a"), m.control.Do("z", m.net("y"))])),
    "list": lambda f, m: getattr(m.control, f)("d", [(m.condition(), m.net("a")), (m.blob("k"), m.net("b"))]),
    "twice": lambda f, m: m.control.Do(
        "q", *(getattr(m.control, f)("d", (m.condition(), m.net("a")), ("k", m.net("b"))) for _ in range(2))
    ),
}


def bools(m: Any) -> Any:
    """Nets of conditions."""
    c = m.control
    return [
        c.BoolNet((m.blob("a"), True), ("b", False)),
        c.BoolNet(("b", False)),
        c.NotNet(m.blob("a")),
        c.NotNet(m.condition()),
        c.GetConditionBlobFromNet(m.condition()),
    ]


def merged(m: Any) -> Any:
    """Conditions of several nets."""
    c = m.control
    several = [m.condition("c1"), m.condition("c2"), m.condition("c3")]
    return [
        c.MergeConditionNets("m", several, "And"),
        c.MergeConditionNets("m", several[:1], "Or"),
        c.MergeConditionNets("m", several[0], "Or"),
        c.MergeConditionNets("m", [], "Or"),
        c.CombineConditions("m", several, "Or"),
        c.CombineConditions("m", several[:1], "Or"),
        c.CombineConditions("m", [], "Or"),
    ]


def does(m: Any) -> Any:
    """Steps in turn, and side by side."""
    c = m.control
    return [
        c.Do("d", m.net("a")),
        c.Do("d", m.net("a"), m.net("b")),
        c.Do("d", [m.net("a"), m.net("b")]),
        c.Do("d", m.net("a"), c.Do("e", m.net("b"))),
        c.Do("d", m.net("a"), [m.net("b"), m.net("c")], c.Do("e", m.net("f"))),
        c.DoParallel("d", m.net("a"), m.net("b")),
        c.DoParallel("d", m.net("a"), c.Do("e", m.net("b"))),
    ]


def fors(m: Any) -> Any:
    """Loops that count."""
    c = m.control
    return [
        c.For("d", m.net("a"), 7),
        c.For("d", [m.net("a"), m.net("b")], 7),
        c.For("d", c.Do("e", m.net("a")), 7),
        c.For("d", [c.Do("e", m.net("a")), m.net("b")], 7),
        c.For("d", [], 3),
    ]


def scoped(m: Any) -> Any:
    """Names in a scope."""
    c = m.control
    with m.core.NameScope("sc"):
        return [
            c.While("d", m.condition(), [m.net("a"), m.net("b")]),
            c.If("d", m.condition(), [m.net("a"), m.net("b")], m.net("x")),
            c.If("d", "k", [m.net("a"), m.net("b")], c.For("z", m.net("x"), 3)),
        ]


CONTROLS = [bools, merged, does, fors, scoped]

# -- builders ----------------------------------------------------------------------------------------------------------


def builder(part: Callable[[Any], Any], name: Any, m: Any) -> Any:
    """Return a builder of a part."""
    with m.net_builder.NetBuilder(name=name) as made:
        part(m)
    return made


def task(part: Callable[[Any], Any], settings: dict[str, Any], m: Any) -> Any:
    """Return a task of a part."""
    with m.Task(**settings) as made:
        part(m)
    return made


def one_net(m: Any) -> Any:
    """A builder with control operators is one net."""
    with m.net_builder.NetBuilder(_use_control_ops=True) as init:
        x = m.ops.ConstantFill([], "x", shape=[1], value=0.0)
        y = m.ops.ConstantFill([], "y", shape=[1], value=1.0)
    with m.net_builder.NetBuilder(name="train", _use_control_ops=True, initial_scope=[x, y]) as train:
        z = m.ops.ConstantFill([], "z", shape=[1], value=0.0)
        with m.ops.IfNet(m.ops.LT([x, y])):
            m.ops.Add([x, y], z)
        with m.ops.Else():
            m.ops.Sub([x, y], z)
        with m.ops.WhileNet():
            with m.ops.Condition():
                m.ops.LT([x, y])
            m.ops.Add([x, z], x)
        z.Relu([], ["loss"])
    return [one for built in (init, train) for one in built.get()]


def constant(m: Any) -> None:
    m.const()


def nothing(m: Any) -> None:
    del m


def own_nets(m: Any) -> None:
    m.const()
    m.ops.net(m.core.Net("mine"))
    m.ops.net(m.core.Net("mine2")).ConstantFill([], "q")
    m.const()
    m.ops.net(name="named").ConstantFill([], "q")
    m.ops.net().Const(4)


def stops(m: Any) -> None:
    m.const()
    m.ops.stop()
    m.ops.stop_if(m.const())
    m.const()


def loop_counted(m: Any) -> None:
    x = m.const()
    with m.ops.loop(5) as loop:
        m.ops.Add([x, loop.iter()], [x])
    m.const(2)


def loop_of_blob(m: Any) -> None:
    with m.ops.loop(m.blob("n")):
        m.const(5)
        m.ops.net(m.core.Net("in"))
        m.const(6)


def loop_stopped(m: Any) -> None:
    x = m.const()
    with m.ops.loop():
        m.ops.stop_if(x)
        m.ops.Add([x, x], [x])
    m.const(2)


def late_stop(m: Any) -> None:
    x = m.const()
    with m.ops.loop(3):
        m.const(5)
    m.const(6)
    m.ops.stop_if(x)
    m.const(7)


def branches(m: Any) -> None:
    x = m.const()
    with m.ops.If(x) as c:
        m.const(2)
    with c.Elif(x) as c:
        m.const(3)
    with c.Else():
        m.const(4)
    m.const(7)


def branch_stopped(m: Any) -> None:
    x = m.const()
    with m.ops.If(x):
        with m.ops.loop(3):
            m.const(5)
        m.ops.stop_if(x)
        m.const(2)
        m.ops.stop()
        m.const(5)
    m.const(8)


def guards(m: Any) -> None:
    x = m.const()
    with m.ops.stop_guard() as guard:
        m.ops.stop_if(x)
        m.const(8)
    m.ops.Copy(guard.has_stopped())
    with m.ops.stop_guard(has_stopped_blob=m.blob("given")):
        pass


def if_net(m: Any) -> None:
    x, y = m.const(), m.const(3)
    with m.ops.IfNet(x):
        m.ops.Add([y, m.const(9)], [y])
    m.const(8)


def if_else_net(m: Any) -> None:
    x, y = m.const(), m.const(3)
    with m.ops.IfNet(x):
        z = m.const(9)
        m.ops.Add([y, z], [y])
        with m.ops.IfNet(z):
            m.ops.Add([z, z], [z])
    with m.ops.Else():
        m.ops.Const(2, blob_out=y)
    with m.ops.IfNet(x):
        pass
    with m.ops.Else():
        m.ops.Const(2, blob_out=y)
    m.const(8)


def while_net(m: Any) -> None:
    x, y = m.const(0), m.const(1)
    with m.ops.WhileNet():
        with m.ops.Condition():
            m.ops.Add([x, m.const(1)], [x])
            m.ops.LT([x, m.const(7)])
        m.ops.Add([x, y], [y])


def setups(m: Any) -> None:
    m.const()
    for count, part in enumerate(("task_init", "task_instance_init", "local_init", "task_init")):
        with getattr(m.ops, part)():
            m.const(2 + count)
    for count, part in enumerate(("task_exit", "task_instance_exit", "local_exit")):
        with getattr(m.ops, part)():
            m.const(6 + count)
    with m.ops.local_exit(name="nm"):
        m.const(8)
    m.const(9)


def reported(m: Any) -> None:
    m.const()
    with m.ops.task_reporter(interval_ms=5):
        m.const(2)


class Setup:
    """Adds an operator, and returns something to run."""

    def __init__(self, modules: Any, kind: str) -> None:
        self.modules, self.kind = modules, kind

    def setup(self, net: Any) -> Any:
        """Run before."""
        net.ConstantFill([], "mine" + self.kind)
        core = self.modules.core
        several = {"net": core.Net("snet"), "nets": [core.Net("l1"), core.Net("l2")]}
        several["step"] = core.execution_step("sst", [core.Net("qq")])
        return several.get(self.kind)

    def exit(self, net: Any) -> Any:
        """Run behind."""
        net.ConstantFill([], "exit" + self.kind)


def attributes(m: Any) -> None:
    m.const()
    for kind in ("net", "none", "nets"):
        m.ops.net().add_attribute(m.Task.TASK_SETUP, Setup(m, kind))
    m.ops.net().add_attribute(m.Task.TASK_INSTANCE_SETUP, m.SetupNets([m.core.Net("i")], []))


def attribute_step(m: Any) -> None:
    m.const()
    m.ops.net().add_attribute(m.Task.TASK_SETUP, Setup(m, "step"))


PARTS = [
    constant,
    nothing,
    own_nets,
    stops,
    loop_counted,
    loop_of_blob,
    loop_stopped,
    late_stop,
    branches,
    branch_stopped,
    guards,
    if_net,
    if_else_net,
    while_net,
    setups,
    reported,
    attributes,
    attribute_step,
]

# -- tasks and groups --------------------------------------------------------------------------------------------------


def group(part: Callable[[Any], Any], workspace_type: Any, m: Any) -> Any:
    """Return the one task of a group."""
    with m.Cluster() as cluster, m.TaskGroup(workspace_type) as made:
        part(m)
    before = made.workspace_type(), made.num_registered_tasks(), made.used_nodes(), cluster.nodes()
    return [before, made.to_task(), made.workspace_type(), repr(made)]


def on_nodes(m: Any) -> None:
    with m.Task(name="a"):
        m.const(1)
    with m.Node("n1"):
        with m.Task():
            m.const(2)
        with m.Task(num_instances=2):
            setups(m)
    with m.Node("n2", gpu=3), m.Task(name="z"):
        m.final_output(m.const(4))


def with_reports(m: Any) -> None:
    m.TaskGroup.current().report_net(m.core.Net("rp"), node="local", report_interval=4)
    m.TaskGroup.current().report_step(m.core.execution_step("rs", [m.core.Net("q")]), node="local")
    with m.Task():
        reported(m)
        with m.ops.local_reporter(interval_ms=7):
            m.const(3)
        with m.ops.loop(3):
            with m.ops.local_reporter(name="rep"):
                m.const(3)
            with m.ops.local_init():
                m.const(4)
            with m.ops.task_init():
                m.const(44)


def without_tasks(m: Any) -> None:
    del m


GROUPS = [on_nodes, with_reports, without_tasks]


def by_node(m: Any) -> Any:
    """A group for each node."""
    with m.TaskGroup() as made:
        on_nodes(m)
    return made.tasks_by_node().tasks()


def given_steps(m: Any) -> Any:
    """Tasks of what is there."""
    core = m.core
    return [
        m.Task(step=core.execution_step("s", [core.Net("a")]), outputs=[m.blob("o")], name="given"),
        m.Task(step=core.Net("a"), outputs="o"),
        m.Task(step=[core.Net("a"), core.Net("b")]),
        m.Task(step=core.execution_step("zz", [core.Net("a")])),
        m.Task(),
    ]


def shared_setup(m: Any) -> Any:
    """One attribute in two tasks."""
    setup = m.SetupNets([m.core.Net("i")], [m.core.Net("e")])
    nets = [m.core.Net("x"), m.core.Net("y")]
    for net in nets:
        net.add_attribute(m.Task.TASK_SETUP, setup)
    return [m.Task(step=net) for net in nets]


def names(m: Any) -> Any:
    """Names of tasks."""
    with m.TaskGroup():
        made = [m.Task(name="a"), m.Task(name="a"), m.Task(), m.Task(), m.Task(node="n")]
    return [one.name for one in made]


def outputs(m: Any) -> Any:
    """Values of outputs."""
    one, two, both = m.TaskOutput("a"), m.TaskOutput(["a", "b"]), m.TaskOutputList([m.TaskOutput("a")])
    one.set([1], str)
    two.set([1, 2])
    both.set_values([7])
    return [repr(one), str(one.get()), str(one.fetch()), repr(two), str(two.get()), repr(both), str(both.names())]


def clusters(m: Any) -> Any:
    """What is said of nodes."""
    with m.Cluster() as cluster:
        m.Node("w", gpu=1, a="b")
        again = m.Node("w", gpu=2)
        with m.Node("v", k=2):
            here = str(m.Node.current())
    return [here, repr(again), repr(cluster)]


TASKS = [one_net, by_node, given_steps, shared_setup, names, outputs, clusters]
