"""What the arguments of RecurrentNetwork say: its nets, and how blobs inside of a step belong to blobs outside.

link    in step t, the blob `internal` lies on rows [t + offset, t + offset + window) of `external`
state   `states` holds all values that a blob has over time, the initial ones first: (T + L, N, D)
alias   the blob `target` lies on the rows of `source` from `offset` on; below 0 it counts from the end
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tazza.errors import ArgumentError, SchemaError
from tazza.operator import OpView, find_argument
from tazza.operator.nested import net_argument
from tazza.proto import NetDef, OperatorDef

RENAME = ".rename"
"""`<blob>.rename` says under which other name a gradient blob goes; plans of memory write such arguments."""
LOCAL_TYPE = "simple"
"""Step nets run their operators in order, whatever type they name."""


@dataclass(frozen=True, slots=True)
class Link:
    """See the module."""

    internal: str
    external: str
    offset: int
    window: int = 1


@dataclass(frozen=True, slots=True)
class State:
    """A recurrent state: the blob of all its values, the blob of its initial one, and the input that this is."""

    states: str
    initial: str
    position: int


@dataclass(frozen=True, slots=True)
class Alias:
    """See the module."""

    source: str
    target: str
    offset: int

    def first_row(self, rows: int) -> int:
        """Return the first of the rows that the target lies on."""
        return self.offset if self.offset >= 0 else rows + self.offset


@dataclass(frozen=True, slots=True)
class Parameter:
    """A blob that all steps read: its name, that of its gradient, and that of its gradient from one step."""

    name: str
    gradient: str
    of_step: str


@dataclass(frozen=True, slots=True)
class StateGradient:
    """Gradients of a state: the blob of all of them, and those of outputs that come from outside, which are added."""

    state: State
    gradients: str
    given: tuple[str, ...]
    given_last: tuple[str, ...]


def links_of(op: OpView, prefix: str = "") -> list[Link]:
    """Return the links that the arguments `<prefix>link_internal` and so on say.

    Raises:
        ArgumentError: they are not as many.
    """
    internal, external, offset = _equal(op, *(f"{prefix}link_{end}" for end in ("internal", "external", "offset")))
    windows: Sequence[int] = [] if prefix else op.link_window
    if windows and len(windows) != len(internal):
        raise op.error(ArgumentError, f"link_window has {len(windows)} elements, link_internal has {len(internal)}")
    return [
        Link(inner, outer, start, window)
        for inner, outer, start, window in zip(
            internal, external, offset, windows if windows else [1] * len(internal), strict=True
        )
    ]


def aliases_of(op: OpView) -> list[Alias]:
    """Return the aliases.

    Raises:
        ArgumentError: their arguments have not as many elements.
    """
    sources, targets, offsets = _equal(op, "alias_src", "alias_dst", "alias_offset")
    return [Alias(*each) for each in zip(sources, targets, offsets, strict=True)]


def states_of(op: OpView, inputs: Sequence[str]) -> list[State]:
    """Return the recurrent states; `inputs` are those of the forward operator.

    Raises:
        ArgumentError: the arguments do not fit each other, or name an input that is not there.
    """
    states, positions = _equal(op, "recurrent_states", "initial_recurrent_state_ids")
    return [
        State(name, _input(op, inputs, "initial_recurrent_state_ids", i), i)
        for name, i in zip(states, positions, strict=True)
    ]


def parameters_of(op: OpView, inputs: Sequence[str], gradients: Sequence[str]) -> list[Parameter]:
    """Return the parameters; `gradients` are the outputs for them.

    Raises:
        ArgumentError: the arguments do not fit each other, or name an input that is not there.
    """
    names = [_input(op, inputs, "param", i) for i in op.param]
    inner: list[str] = op.param_grads if op.param_grads else list(gradients)
    if len(inner) != len(names):
        raise op.error(ArgumentError, f"param has {len(names)} elements, param_grads has {len(inner)}")
    return [
        Parameter(name, gradient, f"{renamed(op.definition, within) if op.param_grads else within}_tmpstep")
        for name, gradient, within in zip(names, gradients, inner, strict=True)
    ]


def state_gradients_of(op: OpView, states: Sequence[State]) -> list[StateGradient]:
    """Return where the gradients of states are, and which outputs add to them.

    Raises:
        ArgumentError: an output that gets a gradient is neither all of a state's values but the initial one, nor the
            last one.
        SchemaError: the outputs of the forward operator, in front of the last input, are not what aliases name.
    """
    aliases = {alias.target: alias for alias in aliases_of(op)}
    outputs = list(op.definition.input[-1 - len(aliases) : -1])
    if set(outputs) != set(aliases):
        relation = f"aliases name {', '.join(aliases)}, the outputs of the forward operator are {', '.join(outputs)}"
        raise op.error(SchemaError, relation, "each output with a gradient lies on a state")
    given: dict[tuple[str, int], list[str]] = {}
    wanted: list[int] = op.outputs_with_grads
    for name, position in zip(op.definition.input, wanted, strict=False):
        if not 0 <= position < len(outputs):
            raise op.error(ArgumentError, f"outputs_with_grads names output {position} of {len(outputs)}")
        alias = aliases[outputs[position]]
        if alias.offset not in (1, -1):
            raise op.error(
                ArgumentError,
                f"output {alias.target!r} has a gradient and alias_offset {alias.offset}, which must be 1 or -1",
            )
        given.setdefault((alias.source, alias.offset), []).append(name)
    return [
        StateGradient(
            state,
            renamed(op.definition, f"{state.states}_grad"),
            tuple(given.get((state.states, 1), ())),
            tuple(given.get((state.states, -1), ())),
        )
        for state in states
    ]


def renamed(definition: OperatorDef, name: str) -> str:
    """Return the name under which a gradient blob goes."""
    found = find_argument(definition, f"{name}{RENAME}")
    return name if found is None else found.s.decode("utf-8", errors="surrogateescape")


def step_net(op: OpView, name: str) -> NetDef | None:
    """Return a copy of a step net, of a type that runs in order; None where there is none.

    Raises:
        FormatError: it is text that is no net.
    """
    found = net_argument(op.definition, name)
    if found is None:
        return None
    made = NetDef()
    made.CopyFrom(found)
    made.type = LOCAL_TYPE
    return made


def declare_inputs(net: NetDef, reads: Iterable[str]) -> None:
    """Add to the external inputs of a step net what it reads and does not name there."""
    named = set(net.external_input)
    net.external_input.extend(name for name in reads if name not in named)


def _equal(op: OpView, *names: str) -> list[list[Any]]:
    """Return the values of arguments that must have as many elements."""
    values = [op.arguments[name] for name in names]
    for name, value in zip(names[1:], values[1:], strict=True):
        if len(value) != len(values[0]):
            raise op.error(
                ArgumentError, f"{names[0]} has {len(values[0])} elements, {name} has {len(value)}", "one for each"
            )
    return values


def _input(op: OpView, inputs: Sequence[str], argument: str, position: int) -> str:
    if not 0 <= position < len(inputs):
        raise op.error(ArgumentError, f"{argument} names input {position} of {len(inputs)}")
    return inputs[position]
