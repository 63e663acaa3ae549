"""Control by steps: loops, conditions and branches of nets, as execution steps that stop when a blob is true.

A step of nets is asked between its nets whether it goes on; a step of steps, between its steps. So a condition is a net
in front of the body (`While`, `If`) or behind it (`DoWhile`), whose blob, or the `Not` of it, ends the step. Where the
blob might be true from an earlier run before the body may run once, a net in front of the step makes it false.
"""

from __future__ import annotations

from typing import Any, cast

from caffe2.python import core
from caffe2.python._net import get_blob_ref

_used_step_names: set[str] = set()
_current_idx = 1


def _get_next_step_name(control_name: str, base_name: str) -> str:
    """Return the name of a step: the one asked for, and a number behind it where it is taken."""
    global _current_idx
    name = wanted = f"{base_name}/{control_name}"
    while name in _used_step_names:
        name = f"{wanted}_{_current_idx}"
        _current_idx += 1
    _used_step_names.add(name)
    return name


def _MakeList(input: Any) -> list[Any]:
    """Return the parts of what was given as arguments: a list alone stands for its parts."""
    if len(input) == 0:
        raise ValueError("input cannot be empty.")
    if len(input) > 1:
        return list(input)
    return _listed(input[0])


def _listed(one_or_several: Any) -> list[Any]:
    """Return the parts of a list, or what is none as a list of its own."""
    return [*cast("list[Any]", one_or_several)] if isinstance(one_or_several, list) else [one_or_several]


def _IsNets(nets_or_steps: Any) -> bool:
    """Whether these are nets alone."""
    return all(isinstance(one, core.Net) for one in _listed(nets_or_steps))


def _PrependNets(nets_or_steps: Any, *nets: Any) -> list[Any]:
    """Return nets, or a step of them, in front of a body."""
    body = _MakeList((nets_or_steps,))
    front = _MakeList(nets)
    return front + body if _IsNets(body) else [Do("prepend", front), *body]


def _AppendNets(nets_or_steps: Any, *nets: Any) -> list[Any]:
    """Return nets, or a step of them, behind a body."""
    body = _MakeList((nets_or_steps,))
    back = _MakeList(nets)
    return body + back if _IsNets(body) else [*body, Do("append", back)]


def GetConditionBlobFromNet(condition_net: Any) -> Any:
    """Return the last output of a net, which is its condition: a bool, of one element."""
    outputs = condition_net.external_outputs
    assert outputs, f"the net {condition_net.Name()} has no output, which a condition is"
    return outputs[-1]


def BoolNet(*blobs_with_bool_value: Any) -> Any:
    """Return a net that fills blobs, each given with its value, True or False."""
    pairs: list[Any] = _MakeList(blobs_with_bool_value)
    net = core.Net("bool_net")
    for blob, value in pairs:
        made = net.ConstantFill([], [blob], shape=[], value=value, dtype=core.DataType.BOOL)
        net.AddExternalOutput(made)
    return net


def _derived(name: str, op: str, condition_blob: Any) -> tuple[Any, Any]:
    """Return a net of one operator on a condition, and its output."""
    net = core.Net(name)
    made = getattr(net, op)(condition_blob)
    net.AddExternalOutput(made)
    return net, made


def NotNet(condition_blob_or_net: Any) -> tuple[Any, Any]:
    """Return a net that makes the opposite of a condition, and its blob; a net of the condition must run before."""
    return _derived("not_net", "Not", _blob(condition_blob_or_net))


def _CopyConditionBlobNet(condition_blob: Any) -> tuple[Any, Any]:
    """Return a net that copies a condition, which the body may change, and the copy."""
    return _derived("copy_condition_blob_net", "Copy", condition_blob)


def _blob(condition_blob_or_net: Any) -> Any:
    """Return the blob of a condition."""
    is_net = isinstance(condition_blob_or_net, core.Net)
    return GetConditionBlobFromNet(condition_blob_or_net) if is_net else get_blob_ref(condition_blob_or_net)


def _own_nets(condition_blob_or_net: Any) -> list[Any]:
    """Return the net of a condition, if it is one."""
    return [condition_blob_or_net] if isinstance(condition_blob_or_net, core.Net) else []


def MergeConditionNets(name: str, condition_nets: Any, relation: str) -> Any:
    """Return a net with the operators of all, whose condition is their `And`, `Or` or `Xor`; one net alone as it is."""
    nets = _listed(condition_nets)
    if len(nets) <= 1:
        return nets[0] if nets else None
    merged, last = core.Net(name), None
    for net in nets:
        merged.Proto().op.extend(net.Proto().op)
        condition = GetConditionBlobFromNet(net)
        last = condition if last is None else getattr(merged, relation)([last, condition])
    merged.AddExternalOutput(last)
    return merged


def CombineConditions(name: str, condition_nets: Any, relation: str) -> Any:
    """Return a net whose condition is the `And`, `Or` or `Xor` of blobs, or of nets run before; of one, its copy."""
    blobs = [_blob(one) for one in condition_nets]
    if not blobs:
        return None
    if len(blobs) == 1:
        return _CopyConditionBlobNet(blobs[0])[0]
    combined, last = core.Net(name), blobs[0]
    for blob in blobs[1:]:
        last = getattr(combined, relation)([last, blob])
    combined.AddExternalOutput(last)
    return combined


def Do(name: str, *nets_or_steps: Any) -> Any:
    """Return a step that runs nets, or steps, one after the other; beside steps, a net becomes one."""
    body = _MakeList(nets_or_steps)
    return core.scoped_execution_step(_get_next_step_name("Do", name), body)


def DoParallel(name: str, *nets_or_steps: Any) -> Any:
    """Return a step that runs nets, or steps, side by side."""
    body = _MakeList(nets_or_steps)
    return core.scoped_execution_step(_get_next_step_name("DoParallel", name), body, concurrent_substeps=True)


def _guarded(kind: str, name: str, body: list[Any], stop: Any, **settings: Any) -> Any:
    """Return a step that a blob ends, behind a net that makes the blob false."""
    return Do(
        f"{name}/{kind}",
        BoolNet((stop, False)),
        core.scoped_execution_step(_get_next_step_name(f"{kind}-inner", name), body, should_stop_blob=stop, **settings),
    )


def _stopped(kind: str, name: str, body: list[Any], stop: Any, **settings: Any) -> Any:
    """Return a step that a blob ends."""
    return core.scoped_execution_step(_get_next_step_name(kind, name), body, should_stop_blob=stop, **settings)


def _while(kind: str, name: str, condition_blob_or_net: Any, nets_or_steps: Any, **settings: Any) -> Any:
    """Return a step that is left as soon as a condition, which is seen before the body, is false."""
    negation, stop = NotNet(condition_blob_or_net)
    body = _PrependNets(nets_or_steps, *_own_nets(condition_blob_or_net), negation)
    return (_guarded if _IsNets(body) else _stopped)(kind, name, body, stop, **settings)


def _RunOnceIf(name: str, condition_blob_or_net: Any, nets_or_steps: Any) -> Any:
    """Return a step that runs the body once if a condition holds before it."""
    return _while("_RunOnceIf", name, condition_blob_or_net, nets_or_steps, only_once=True)


def _RunOnceIfNot(name: str, condition_blob_or_net: Any, nets_or_steps: Any) -> Any:
    """Return a step that runs the body once unless a condition holds before it; the body may change its blob."""
    if isinstance(condition_blob_or_net, core.Net):
        front, stop = condition_blob_or_net, GetConditionBlobFromNet(condition_blob_or_net)
    else:
        front, stop = _CopyConditionBlobNet(condition_blob_or_net)
    return _stopped("_RunOnceIfNot", name, _PrependNets(nets_or_steps, front), stop, only_once=True)


def For(name: str, nets_or_steps: Any, iter_num: int) -> Any:
    """Return a step that runs the body so many times; it counts in a blob of its own, anew each time it runs."""
    init_net = core.Net("init-net")
    counter = init_net.CreateCounter([], init_count=iter_num)
    count_down = core.Net("For-iter")
    stop = count_down.CountDown([counter])
    inner = _get_next_step_name("For-inner", name)
    loop = core.scoped_execution_step(inner, _PrependNets(nets_or_steps, count_down), should_stop_blob=stop)
    return Do(f"{name}/For", Do(f"{name}/For-init-net", init_net), loop)


def While(name: str, condition_blob_or_net: Any, nets_or_steps: Any) -> Any:
    """Return a step that runs the body as long as a condition holds, which is seen before it."""
    return _while("While", name, condition_blob_or_net, nets_or_steps)


def Until(name: str, condition_blob_or_net: Any, nets_or_steps: Any) -> Any:
    """Return a step that runs the body until a condition holds, which is seen before it."""
    front = _own_nets(condition_blob_or_net)
    body = _PrependNets(nets_or_steps, *front) if front else _MakeList((nets_or_steps,))
    return _stopped("Until", name, body, _blob(condition_blob_or_net))


def DoWhile(name: str, condition_blob_or_net: Any, nets_or_steps: Any) -> Any:
    """Return a step that runs the body once, and then as long as a condition holds, which is seen behind it."""
    negation, stop = NotNet(condition_blob_or_net)
    body = _AppendNets(nets_or_steps, *_own_nets(condition_blob_or_net), negation)
    return _guarded("DoWhile", name, body, stop)


def DoUntil(name: str, condition_blob_or_net: Any, nets_or_steps: Any) -> Any:
    """Return a step that runs the body once, and then until a condition holds, which is seen behind it.

    A condition that is a blob, not a net, is seen before the body too, as `Until` sees it.
    """
    if not isinstance(condition_blob_or_net, core.Net):
        return _stopped("DoUntil", name, _MakeList((nets_or_steps,)), get_blob_ref(condition_blob_or_net))
    body = _AppendNets(nets_or_steps, condition_blob_or_net)
    return _guarded("DoUntil", name, body, GetConditionBlobFromNet(condition_blob_or_net))


def _switch(kind: str, once: Any, name: str, conditions: Any) -> Any:
    """Return a step that sees each condition in turn, and runs what belongs to it."""
    step_name = _get_next_step_name(kind, name)
    cases = [once(f"{name}/{kind}", condition, body) for condition, body in _MakeList(conditions)]
    return core.scoped_execution_step(step_name, cases)


def Switch(name: str, *conditions: Any) -> Any:
    """Return a step of pairs, a condition and a body: every body whose condition holds runs, in turn."""
    return _switch("Switch", _RunOnceIf, name, conditions)


def SwitchNot(name: str, *conditions: Any) -> Any:
    """Return a step of pairs, a condition and a body: every body whose condition does not hold runs, in turn."""
    return _switch("SwitchNot", _RunOnceIfNot, name, conditions)


def _branch(kind: str, bodies: tuple[Any, Any], name: str, condition_blob_or_net: Any, nets: tuple[Any, Any]) -> Any:
    """Return a step of one body, or of two, of which the second sees the condition that the first one's net made."""
    own = f"{name}/{kind}"
    first, second = bodies
    if not nets[1]:
        return first(own, condition_blob_or_net, nets[0])
    return Do(
        own,
        first(f"{own}-true", condition_blob_or_net, nets[0]),
        second(f"{own}-false", _blob(condition_blob_or_net), nets[1]),
    )


def If(name: str, condition_blob_or_net: Any, true_nets_or_steps: Any, false_nets_or_steps: Any = None) -> Any:
    """Return a step that runs the first body if a condition holds, and else the second, if there is one."""
    bodies = true_nets_or_steps, false_nets_or_steps
    return _branch("If", (_RunOnceIf, _RunOnceIfNot), name, condition_blob_or_net, bodies)


def IfNot(name: str, condition_blob_or_net: Any, true_nets_or_steps: Any, false_nets_or_steps: Any = None) -> Any:
    """Return a step that runs the first body unless a condition holds, and else the second, if there is one."""
    bodies = true_nets_or_steps, false_nets_or_steps
    return _branch("IfNot", (_RunOnceIfNot, _RunOnceIf), name, condition_blob_or_net, bodies)
