"""Execution steps and plans, as `core` lends them: which nets run in which order, how often, and when they stop."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

from caffe2.python._net import Net, get_blob_ref
from caffe2.python.scope import CurrentNameScope
from tazza.proto import ExecutionStep as StepProto
from tazza.proto import NetDef, PlanDef


def get_net_name(netlike: Any) -> str:
    """Return the name of a net or of its message."""
    if isinstance(netlike, Net):
        return netlike.Proto().name
    assert isinstance(netlike, NetDef), f"{netlike!r} is no net"
    return netlike.name


def add_net_to_dict(net_dict: dict[str, Any], net: Any) -> bool:
    """Add a net by its name; False where it is there."""
    name = get_net_name(net)
    if name in net_dict:
        assert net_dict[name] is None or net == net_dict[name], f"Different nets with same name: {name}"
        return False
    net_dict[name] = net if isinstance(net, Net) else None
    return True


class ExecutionStep:
    """Some nets, or some steps, that run one after the other or side by side."""

    _step_names_used: ClassVar[set[str]] = set()

    @staticmethod
    def _get_next_step_name(basename: str) -> str:
        names = (basename if count == 0 else f"{basename}_{count}" for count in itertools.count())
        found = next(name for name in names if name not in ExecutionStep._step_names_used)
        ExecutionStep._step_names_used.add(found)
        return found

    def __init__(self, name: str, nets: Any = None, num_iter: int | None = None) -> None:
        """Start a step, with nets that run `num_iter` times."""
        self._step = StepProto(name=name or self._get_next_step_name("step"))
        self._net_dict: dict[str, Any] = {}
        self._is_used = False
        self._substeps: list[ExecutionStep] = []
        if nets is not None:
            for net in [nets] if isinstance(nets, (Net, NetDef)) else nets:
                if add_net_to_dict(self._net_dict, net):
                    self._step.network.append(get_net_name(net))
        if num_iter is not None:
            self._step.num_iter = num_iter

    def get_net(self, name: str) -> Any:
        """Return a net of this step by its name."""
        return self._net_dict[name]

    def Name(self) -> str:
        """Return the name."""
        return self._step.name

    def __str__(self) -> str:
        return self._step.name

    def _assert_can_mutate(self) -> None:
        assert not self._is_used, (
            "Cannot mutate a step that has already been added to a plan/step. "
            "Make sure to complete a step before adding it."
        )

    def _notify_is_used(self) -> None:
        self._is_used = True

    def Proto(self) -> StepProto:
        """Return the step itself."""
        return self._step

    def HasNets(self) -> bool:
        """Whether it runs nets."""
        return len(self._step.network) > 0

    def HasSubsteps(self) -> bool:
        """Whether it runs steps."""
        return len(self._step.substep) > 0

    def Nets(self) -> list[Any]:
        """Return its nets and those of its steps."""
        return list(self._net_dict.values())

    def Substeps(self) -> list[ExecutionStep]:
        """Return its steps."""
        return self._substeps

    def SetIter(self, num_iter: int) -> None:
        """Say how often it runs."""
        self._assert_can_mutate()
        self._step.num_iter = num_iter

    def SetCreateWorkspace(self, create_workspace: bool) -> None:
        """Let it run in a workspace of its own, below that of the plan."""
        self._assert_can_mutate()
        self._step.create_workspace = create_workspace

    def SetNumConcurrentInstances(self, num_concurrent_instances: int) -> None:
        """Let it run several times side by side."""
        self._assert_can_mutate()
        self._step.num_concurrent_instances = num_concurrent_instances

    def SetOnlyOnce(self, only_once: bool) -> None:
        """Let it run once, though a blob says when it stops."""
        self._assert_can_mutate()
        self._step.only_once = only_once

    def SetShouldStopBlob(self, should_stop_blob: Any) -> None:
        """Say which blob ends it when it is true."""
        assert type(should_stop_blob).__name__ == "BlobReference", f"expects BlobReference, got {should_stop_blob!r}"
        self._assert_can_mutate()
        self._step.should_stop_blob = str(should_stop_blob)

    def RunEveryMillis(self, interval: int) -> None:
        """Let it run beside the other steps, every so many milliseconds."""
        self._step.run_every_ms = interval

    def SetReportNet(self, report_net: Any, report_interval: int) -> None:
        """Let a net run beside it, every so many seconds."""
        self._assert_can_mutate()
        add_net_to_dict(self._net_dict, report_net)
        self._step.report_net = get_net_name(report_net)
        self._step.report_interval = report_interval

    def AddSubstep(self, substep: ExecutionStep) -> ExecutionStep:
        """Append a step; one of nets alone is wrapped first."""
        self._assert_can_mutate()
        assert not self.HasNets(), "Cannot have both network and substeps."
        assert isinstance(substep, ExecutionStep)
        substep._notify_is_used()
        if not substep.HasNets() and not substep.HasSubsteps():
            return self
        self._step.substep.add().CopyFrom(substep.Proto())
        self._substeps.append(substep)
        for net in substep.Nets():
            if net is not None:
                add_net_to_dict(self._net_dict, net)
        return self

    def SetConcurrentSubsteps(self, concurrent_substeps: bool) -> None:
        """Let its steps run side by side."""
        self._assert_can_mutate()
        assert not self.HasNets(), "Cannot have both network and substeps."
        self._step.concurrent_substeps = concurrent_substeps

    def AddNet(self, net: Any) -> Any:
        """Append a net."""
        self._assert_can_mutate()
        assert not self.HasSubsteps(), "Cannot have both network and substeps."
        assert isinstance(net, Net)
        add_net_to_dict(self._net_dict, net)
        self._step.network.append(get_net_name(net))
        return self

    def get_all_attributes(self, name: str) -> list[Any]:
        """Return what was attached under a name to its nets."""
        return [one for net in self._net_dict.values() if net is not None for one in net.get_attributes(name)]

    @classmethod
    def create_from_proto(
        cls, step_proto: StepProto, net_obj_dict: dict[str, Any], net_proto_dict: Mapping[str, NetDef]
    ) -> ExecutionStep:
        """Return the step of a message, with the nets that it names."""
        assert not (step_proto.network and step_proto.substep), "a step has nets or steps, not both"
        names = [*step_proto.network, *([step_proto.report_net] if step_proto.report_net else [])]
        for name in names:
            if name not in net_obj_dict:
                net_obj_dict[name] = Net(net_proto_dict[name])
        made = cls(step_proto.name)
        for name in step_proto.network:
            made.AddNet(net_obj_dict[name])
        for one in step_proto.substep:
            made.AddSubstep(cls.create_from_proto(one, net_obj_dict, net_proto_dict))
        if step_proto.report_net:
            made.SetReportNet(net_obj_dict[step_proto.report_net], step_proto.report_interval)
        own = made._step
        for field, value in step_proto.ListFields():
            if field.name not in ("name", "network", "substep", "report_net", "report_interval"):
                setattr(own, field.name, value)
        return made


def add_nets_in_order(step: ExecutionStep, net_list: list[Any]) -> None:
    """Add the nets of a step, and of its steps, to a list in the order in which they run."""
    proto = step.Proto()
    for substep in step.Substeps():
        add_nets_in_order(substep, net_list)
    names = [*proto.network, *([proto.report_net] if proto.report_net else [])]
    for net in map(step.get_net, names):
        if net not in net_list:
            net_list.append(net)


class Plan:
    """Nets, and the steps that run them."""

    def __init__(self, name_or_step: str | ExecutionStep) -> None:
        """Start a plan, or make one of a step."""
        self._plan = PlanDef()
        self._net_dict: dict[str, Any] = {}
        self._steps: list[ExecutionStep] = []
        if isinstance(name_or_step, ExecutionStep):
            self._plan.name = name_or_step.Name()
            self.AddStep(name_or_step)
        elif not isinstance(cast("object", name_or_step), str):
            raise ValueError("name_or_step must be a string or ExecutionStep")
        else:
            self._plan.name = name_or_step

    def __str__(self) -> str:
        return self._plan.name

    def Proto(self) -> PlanDef:
        """Return the plan itself."""
        return self._plan

    def AddNets(self, nets: Iterable[Any]) -> None:
        """Add nets that steps name."""
        for net in nets:
            if net is not None and add_net_to_dict(self._net_dict, net):
                assert isinstance(net, Net)
                self._plan.network.add().CopyFrom(net.Proto())

    def Nets(self) -> list[Any]:
        """Return all nets."""
        return list(self._net_dict.values())

    def AddStep(self, step: ExecutionStep) -> None:
        """Append a step, unless it runs nothing."""
        assert isinstance(step, ExecutionStep)
        step._notify_is_used()  # pyright: ignore[reportPrivateUsage] -- steps and plans belong together
        if not step.HasNets() and not step.HasSubsteps():
            return
        self._plan.execution_step.add().CopyFrom(step.Proto())
        self._steps.append(step)
        nets: list[Any] = []
        add_nets_in_order(step, nets)
        self.AddNets(nets)

    def Steps(self) -> list[ExecutionStep]:
        """Return the steps."""
        return self._steps

    def get_all_attributes(self, name: str) -> list[Any]:
        """Return what was attached under a name to its nets."""
        return [one for net in self._net_dict.values() for one in net.get_attributes(name)]

    @classmethod
    def create_from_proto(cls, plan_proto: PlanDef) -> Plan:
        """Return the plan of a message."""
        made = cls(plan_proto.name)
        messages = {net.name: net for net in plan_proto.network}
        nets: dict[str, Any] = {}
        for step in plan_proto.execution_step:
            made.AddStep(ExecutionStep.create_from_proto(step, nets, messages))
        return made


def to_execution_step(step_or_nets: Any, default_name: str | None = None) -> ExecutionStep:
    """Return a step of what is one, a net, several of either, or has `to_execution_step`."""
    if isinstance(step_or_nets, ExecutionStep):
        return step_or_nets
    if not default_name and hasattr(step_or_nets, "name"):
        default_name = step_or_nets.name
    if isinstance(step_or_nets, (Net, NetDef)):
        return execution_step(default_name, [step_or_nets])
    stepper = getattr(step_or_nets, "to_execution_step", None)
    return stepper() if stepper is not None else execution_step(default_name, step_or_nets)


def _wrapped(name: str | None, steps_or_nets: Any, concurrent_substeps: bool | None) -> ExecutionStep:
    """Return a step of nets, or of steps."""
    made = ExecutionStep(name or "")
    if concurrent_substeps is not None:
        made.SetConcurrentSubsteps(concurrent_substeps)  # before there are nets, which it means nothing to
    one = steps_or_nets
    if isinstance(one, ExecutionStep):
        return made.AddSubstep(one)
    if isinstance(one, Net):
        return made.AddNet(one)
    if not isinstance(one, (list, tuple)):
        raise ValueError(f"steps_or_nets must be a step, a net, or a list or tuple of nets or steps, not {one!r}")
    given: list[Any] = list(one)  # pyright: ignore[reportUnknownArgumentType] -- of anything
    if all(isinstance(each, Net) for each in given):
        for each in given:
            made.AddNet(each)
    else:
        for each in given:
            made.AddSubstep(to_execution_step(each))
    return made


def execution_step(
    default_name: str | None,
    steps_or_nets: Any,
    num_iter: int | None = None,
    report_net: Any = None,
    report_interval: int | None = None,
    concurrent_substeps: bool | None = None,
    should_stop_blob: Any = None,
    only_once: bool | None = None,
    num_concurrent_instances: int | None = None,
    create_workspace: bool = False,
    run_every_ms: int | None = None,
) -> ExecutionStep:
    """Return a step that runs nets or steps."""
    assert should_stop_blob is None or num_iter is None, "Cannot set both should_stop_blob and num_iter."
    if should_stop_blob is None and num_iter is None:
        num_iter = 1
    made = _wrapped(default_name, steps_or_nets, concurrent_substeps)
    if report_net is not None:
        made.SetReportNet(report_net, report_interval if report_interval is not None else 0)
    settings: list[tuple[Any, Any]] = [
        (made.SetIter, num_iter),
        (made.SetOnlyOnce, only_once),
        (made.SetShouldStopBlob, None if should_stop_blob is None else get_blob_ref(should_stop_blob)),
        (made.SetNumConcurrentInstances, num_concurrent_instances),
        (made.SetCreateWorkspace, create_workspace or None),
        (made.RunEveryMillis, run_every_ms),
    ]
    for setter, value in settings:
        if value is not None:
            setter(value)
    return made


def scoped_execution_step(name: str, *args: Any, **kwargs: Any) -> ExecutionStep:
    """Return `execution_step` under a name with the current scope in front."""
    return execution_step(CurrentNameScope() + name, *args, **kwargs)
