"""The gradient of one step as a net: for who builds a recurrent net, and where one is asked for that carries none.

In step t backwards, links let the gradient of what the step left lie on row t + 1 of the gradients of its state, and
that of what it took over on row t. The names, and the order of what is listed, are those that Caffe2's Python gives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, GradientError
from tazza.operator import Effects, Gradient, RowSlices, effects_of, gradient_name, operator_def, read_first, touched_by
from tazza.operator.gradient import DERIVATIVE
from tazza.operator.nested import all_operators, rename_blobs
from tazza.ops.recurrent.recurrence import LOCAL_TYPE, Backward, Link, Recurrence
from tazza.proto import NetDef, OperatorDef

GIVE_ONE = "give the operator a backward_step_net"
AGAIN = "_again"
"""Ends the names of what an operator makes that runs again for its gradient."""


@dataclass(frozen=True, slots=True)
class _Carried:
    """A state: the blobs of a step that are its value before and after, and the blob of all its values."""

    before: str
    after: str
    states: str


def with_backward(
    recurrence: Recurrence, inputs: Sequence[str], given: Iterable[int], recompute: Collection[str] = ()
) -> Recurrence:
    """Return a recurrence whose step has a gradient.

    Args:
        recurrence: one step, whose row is linked to the first input, and each state's value before and after it.
        inputs: of the operator.
        given: its outputs whose gradients come from outside.
        recompute: blobs of a step that are made again in the backward pass, and so need not be kept for each step.

    Raises:
        GradientError: a step has no gradient, or reads and writes its states in another way.
        ArgumentError: an operator makes some blobs that are made again, and some that are not.
    """
    step, sequence = recurrence.step, inputs[0]
    carried, row = _carried(recurrence), _row(recurrence, sequence)
    derived = DERIVATIVE.get()(step, {one.after: gradient_name(one.after) for one in carried})
    made = _added_in_place(derived.ops, (gradient_name(one.after) for one in carried))
    ops = [*_made_again(step, recompute), *made]
    written = {name for op in ops for name in op.output}
    links: list[Link] = []
    for one in carried:
        own = gradient_name(one.before)
        links.append(Link(gradient_name(one.after), gradient_name(one.states), 1))
        before = own if own in written else _dense(derived.given, one.before)
        links.append(Link(before, gradient_name(one.states), 0))
    links.append(Link(_dense(derived.given, row), gradient_name(sequence), 0))
    known = {row, *(one.before for one in carried)}
    unnamed = next((name for name in derived.given if name not in known and name not in inputs), None)
    if unnamed is not None:
        raise GradientError(f"a step reads {unnamed!r}, which is no input", hint="name it among the inputs")
    initial = {state.position for state in recurrence.states}
    param = [i for i, name in enumerate(inputs) if i and i not in initial and name in derived.given]
    net = NetDef(name="RecurrentBackwardStep", type=LOCAL_TYPE)
    net.external_input.extend(_left_over(step, ops))
    net.external_input.extend(gradient_name(one.after) for one in carried)
    net.external_input.extend((*step.external_input, *step.external_output))
    net.op.extend(ops)
    backward = Backward(
        net,
        tuple(links),
        tuple(param),
        tuple(_dense(derived.given, inputs[i]) for i in param),
        tuple(given),
        tuple(recompute),
    )
    return replace(recurrence, backward=backward)


def again(recurrence: Recurrence) -> Recurrence:
    """Return a recurrence that does the same under names of its own.

    Raises:
        GradientError: a step may do otherwise when it runs a second time.
    """
    touched = touched_by(recurrence.step)
    kept = next((name for name in touched.writes if name in touched.reads), None)
    if kept is not None:
        raise GradientError(
            f"a step changes {kept!r}, which it reads first, so that it cannot run again", hint=GIVE_ONE
        )
    for op, where in all_operators(recurrence.step):
        if effects_of(op) not in (Effects.PURE, Effects.WORKSPACE):  # of nets within each operator is asked
            raise GradientError(f"{op.type}, {where}, may do otherwise when it runs again", hint=GIVE_ONE)
    names = {state.states: f"{state.states}{AGAIN}" for state in recurrence.states}
    outside = names | {gradient_name(old): gradient_name(new) for old, new in names.items()}

    def renamed(links: Iterable[Link]) -> tuple[Link, ...]:
        return tuple(replace(link, external=outside.get(link.external, link.external)) for link in links)

    return replace(
        recurrence,
        links=renamed(recurrence.links),
        backward=replace(recurrence.backward, links=renamed(recurrence.backward.links)),
        states=tuple(replace(state, states=names[state.states]) for state in recurrence.states),
        aliases=tuple(
            replace(alias, source=names[alias.source], target=f"{alias.target}{AGAIN}") for alias in recurrence.aliases
        ),
    )


def _carried(recurrence: Recurrence) -> list[_Carried]:
    touched = touched_by(recurrence.step)
    found: list[_Carried] = []
    for state in recurrence.states:
        links = [link for link in recurrence.links if link.external == state.states]
        before = [link for link in links if link.internal in touched.reads]
        after = [link for link in links if link.internal not in touched.reads]
        if [(link.offset, link.window) for link in (*before, *after)] != [(0, 1), (1, 1)] or len(before) != 1:
            rows = ", ".join(f"{link.internal!r} at {link.offset}, {link.window} long" for link in links)
            raise GradientError(
                f"a step has {rows} of the state {state.states!r}; one that it reads at 0 and one that it writes at 1, "
                "1 long, have a gradient",
                hint=GIVE_ONE,
            )
        found.append(_Carried(before[0].internal, after[0].internal, state.states))
    return found


def _row(recurrence: Recurrence, sequence: str) -> str:
    """Return the blob of a step that is its row of the sequence: the only other link."""
    states = {state.states for state in recurrence.states}
    links = [link for link in recurrence.links if link.external not in states]
    if [(link.external, link.offset, link.window) for link in links] != [(sequence, 0, 1)]:
        rows = ", ".join(f"{link.external!r} at {link.offset}, {link.window} long" for link in links)
        raise GradientError(
            f"a step reads rows of {rows}; one of {sequence!r} at 0, 1 long, has a gradient", hint=GIVE_ONE
        )
    return links[0].internal


def _made_again(step: NetDef, recompute: Collection[str]) -> list[OperatorDef]:
    """Return the operators that make the blobs which are not kept."""
    wanted = set(recompute)
    found = [op for op in step.op if not wanted.isdisjoint(op.output)]
    for op in found:
        others = set(op.output) - wanted
        if others:
            raise ArgumentError(
                f"{op.type} makes {sorted(others)[0]!r} too, which is not made again", hint="name all its outputs"
            )
    return found


def _left_over(step: NetDef, ops: Sequence[OperatorDef]) -> list[str]:
    """Return the blobs that forward operators leave in the workspace of a step, and backward ones read."""
    read = read_first(ops)
    outputs = dict.fromkeys(name for op in step.op for name in op.output)
    return [name for name in outputs if name in read and name not in step.external_output]


def _added_in_place(ops: Sequence[OperatorDef], given: Iterable[str]) -> list[OperatorDef]:
    """Return the operators; where one adds what a step makes to a given gradient, the sum stands in place of that.

    What is added is called `<gradient>_accum`, as Caffe2 does. Where a sum has more than two parts it stays as it is.
    """
    found = list(ops)
    for gradient in given:
        readers = [i for i, op in enumerate(found) if gradient in op.input]
        if len(readers) != 1:
            continue
        add = found[readers[0]]
        own = [name for name in add.input if name != gradient]
        if add.type != "Sum" or len(add.input) != 2 or own != list(add.output):
            continue
        accum = f"{gradient}_accum"
        found = [_renamed(op, {own[0]: accum if i < readers[0] else gradient}) for i, op in enumerate(found)]
        found[readers[0]] = operator_def("Sum", [gradient, accum], [gradient])
    return found


def _renamed(op: OperatorDef, names: Mapping[str, str]) -> OperatorDef:
    made = OperatorDef()
    made.CopyFrom(op)
    rename_blobs(made, names)
    return made


def _dense(gradients: Mapping[str, Gradient], blob: str) -> str:
    gradient = gradients.get(blob)
    if gradient is None or isinstance(gradient, RowSlices):
        kind = "has no gradient" if gradient is None else "has a sparse gradient"
        raise GradientError(f"blob {blob!r} of a step {kind}", hint="build it with forward_only, or read it densely")
    return gradient
