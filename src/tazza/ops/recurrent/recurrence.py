"""What the arguments of RecurrentNetwork say, read and written: its nets, and how blobs in a step belong to others.

link    in step t, the blob `internal` lies on rows [t + offset, t + offset + window) of `external`
state   `states` holds all values that a blob has over time, the initial ones first: (T + L, N, D)
alias   the blob `target` lies on the rows of `source` from `offset` on; below 0 it counts from the end
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from tazza.data_class import dataclass
from tazza.device import place_of
from tazza.errors import ArgumentError, SchemaError
from tazza.operator import OpView, arg, find_argument
from tazza.operator.nested import net_argument
from tazza.proto import DeviceOption, NetDef, OperatorDef

RENAME = ".rename"
"""`<blob>.rename` says under which other name a gradient blob goes; plans of memory write such arguments."""
LOCAL_TYPE = "simple"
"""Step nets run their operators in order, whatever type they name."""
LINK, ALIAS = ("internal", "external", "offset"), ("src", "dst", "offset")
"""Ends of the arguments, each of which holds one column of a table."""
TIMESTEP = "timestep"
"""The blob in a step that holds its number, unless it is called otherwise."""
FORWARD_WORKSPACES = 4
"""Workspaces that serve all steps in turn where nothing is kept for a gradient."""

RECURRENT_ARGS = (
    arg("step_net", NetDef | str, doc="runs once a step; as a net, or as its text"),
    arg("backward_step_net", NetDef | str, None, doc="the gradient of one step; without it nothing is kept for one"),
    arg("timestep", str, TIMESTEP, doc="blob in a step: its number, int32 (1), on the CPU"),
    arg("recurrent_states", list[str], [], doc="blobs that hold all values of a state over time"),
    arg("initial_recurrent_state_ids", list[int], [], doc="for each state the input that is its initial value"),
    arg("link_internal", list[str], [], doc="blobs in a step that lie on rows of blobs outside"),
    arg("link_external", list[str], [], doc="these blobs outside"),
    arg("link_offset", list[int], [], doc="which row that is in step 0"),
    arg("link_window", list[int], [], doc="how many rows; 1 unless given"),
    arg("alias_src", list[str], [], doc="states that outputs lie on"),
    arg("alias_dst", list[str], [], doc="these outputs"),
    arg("alias_offset", list[int], [], doc="the first of their rows; below 0 from the end"),
    arg("param", list[int], [], doc="inputs that all steps read, and that get gradients"),
    arg("param_grads", list[str], [], doc="their gradients in the backward step net"),
    arg("backward_link_internal", list[str], [], doc="as link_internal, for the backward step net"),
    arg("backward_link_external", list[str], [], doc="as link_external: gradients of the sequence and of states"),
    arg("backward_link_offset", list[int], [], doc="as link_offset"),
    arg("outputs_with_grads", list[int], [], doc="outputs whose gradients come from outside"),
    arg("recompute_blobs_on_backward", list[str], [], doc="blobs of a step that the backward step net makes again"),
    arg("num_workspaces", int, FORWARD_WORKSPACES, minimum=1, doc="of a net without backward step net"),
    arg("enable_rnn_executor", int, 0, doc="how Caffe2 ran the steps; no effect"),
    arg("rnn_executor_debug", int, 0, doc="whether Caffe2 told how; no effect"),
)


def initial_rows(dims: Sequence[int | None]) -> int:
    """Return L, how many initial values a state has: one of (D) or (N, D), those of (L, N, D); 1 where L is unknown.

    >>> initial_rows((7,)), initial_rows((3, 7)), initial_rows((2, 3, 7))
    (1, 1, 2)
    """
    return dims[0] if len(dims) == 3 and dims[0] is not None else 1


def open_arguments(name: str) -> bool:
    """Whether an argument that is named after blobs, or after Caffe2's way to run steps, belongs to the format."""
    return name.endswith(RENAME) or name.startswith("rnn_executor.")


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


@dataclass(frozen=True, slots=True)
class Backward:
    """What the arguments say of the gradient of a step; nothing, where there is none.

    Args:
        net: the backward step net; None where nobody made one, or Caffe2's Python one without operators.
        links: of its blobs.
        param: inputs of the operator that all steps read, and that get gradients.
        param_grads: the gradients of these in the net.
        outputs_with_grads: outputs of the operator whose gradients come from outside.
        recompute: blobs of a step that the net makes again.
    """

    net: NetDef | None = None
    links: tuple[Link, ...] = ()
    param: tuple[int, ...] = ()
    param_grads: tuple[str, ...] = ()
    outputs_with_grads: tuple[int, ...] = ()
    recompute: tuple[str, ...] = ()

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that say this."""
        if self == Backward():
            return {}
        found: dict[str, Any] = {
            "param": list(self.param),
            **_columns("backward_link", LINK, [(link.internal, link.external, link.offset) for link in self.links]),
            "outputs_with_grads": list(self.outputs_with_grads),
            "recompute_blobs_on_backward": list(self.recompute),
            "param_grads": list(self.param_grads),
        }
        if self.net is not None:
            found["backward_step_net"] = self.net
        return found


@dataclass(frozen=True, slots=True)
class Recurrence:
    """What all arguments of a RecurrentNetwork, or of its gradient, say; `renames` are those of gradient blobs."""

    step: NetDef
    links: tuple[Link, ...]
    states: tuple[State, ...]
    aliases: tuple[Alias, ...]
    timestep: str = TIMESTEP
    backward: Backward = Backward()
    num_workspaces: int = FORWARD_WORKSPACES
    enable_rnn_executor: int = 0
    renames: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def read(cls, op: OpView, inputs: Sequence[str]) -> Recurrence:
        """Return what an operator says; `inputs` are those of the forward operator.

        Raises:
            SchemaError: there is no step net.
            ArgumentError: arguments do not fit each other, or name an input that is not there.
            FormatError: a net is text that is no net.
        """
        step = step_net(op, "step_net")
        if step is None:
            raise op.error(SchemaError, "step_net is empty")
        for position in op.param:
            _input(op, inputs, "param", position)
        backward = Backward(
            step_net(op, "backward_step_net"),
            tuple(links_of(op, "backward_")),
            tuple(op.param),
            tuple(op.param_grads),
            tuple(op.outputs_with_grads),
            tuple(op.recompute_blobs_on_backward),
        )
        names = [argument.name for argument in op.definition.arg if argument.name.endswith(RENAME)]
        old = [name.removesuffix(RENAME) for name in names]
        return cls(
            step,
            tuple(links_of(op)),
            tuple(states_of(op, inputs)),
            tuple(aliases_of(op)),
            op.timestep,
            backward,
            op.num_workspaces,
            op.enable_rnn_executor,
            {name: renamed(op.definition, name) for name in old},
        )

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that say this, in the order of Caffe2's Python."""
        found: dict[str, Any] = {
            **_columns("alias", ALIAS, [(alias.source, alias.target, alias.offset) for alias in self.aliases]),
            "recurrent_states": [state.states for state in self.states],
            "initial_recurrent_state_ids": [state.position for state in self.states],
            **_columns("link", LINK, [(link.internal, link.external, link.offset) for link in self.links]),
        }
        if any(link.window != 1 for link in self.links):
            found["link_window"] = [link.window for link in self.links]
        found |= {
            "enable_rnn_executor": self.enable_rnn_executor,
            "step_net": self.step,
            "timestep": self.timestep,
            **self.backward.arguments(),
            **{f"{name}{RENAME}": new for name, new in self.renames.items()},
        }
        if self.num_workspaces != FORWARD_WORKSPACES:
            found["num_workspaces"] = self.num_workspaces
        return found


def links_of(op: OpView, prefix: str = "") -> list[Link]:
    """Return the links that the arguments `<prefix>link_internal` and so on say.

    Raises:
        ArgumentError: they are not as many.
    """
    internal, external, offset = _equal(op, *(f"{prefix}link_{end}" for end in LINK))
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
    sources, targets, offsets = _equal(op, *(f"alias_{end}" for end in ALIAS))
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
        SchemaError: the outputs of the forward operator, in front of the last input, are not what aliases name, with
            states or without.
    """
    aliases = {alias.target: alias for alias in aliases_of(op)}
    outputs = _forward_outputs(op, {*aliases, *(state.states for state in states)})
    if not set(aliases) <= set(outputs):
        relation = f"aliases name {', '.join(aliases)}, the outputs of the forward operator are {', '.join(outputs)}"
        raise op.error(SchemaError, relation, "each output with a gradient lies on a state")
    given: dict[tuple[str, int], list[str]] = {}
    wanted: list[int] = op.outputs_with_grads
    for name, position in zip(op.definition.input, wanted, strict=False):
        if not 0 <= position < len(outputs):
            raise op.error(ArgumentError, f"outputs_with_grads names output {position} of {len(outputs)}")
        alias = aliases.get(outputs[position])
        if alias is None:
            raise op.error(ArgumentError, f"output {outputs[position]!r} has a gradient, and no alias")
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


def _forward_outputs(op: OpView, lying: Collection[str]) -> list[str]:
    """Return the outputs of the forward operator but the last one: in front of it, all that lie on states."""
    inputs = op.definition.input[:-1]
    behind = list(itertools.takewhile(lying.__contains__, reversed(inputs)))
    return behind[::-1]


def renamed(definition: OperatorDef, name: str) -> str:
    """Return the name under which a gradient blob goes."""
    found = find_argument(definition, f"{name}{RENAME}")
    return name if found is None else found.s.decode("utf-8", errors="surrogateescape")


def step_net(op: OpView, name: str) -> NetDef | None:
    """Return a copy of a step net, of a type that runs in order, on the operator's device; None where there is none.

    Raises:
        FormatError: it is text that is no net.
    """
    found = net_argument(op.definition, name)
    if found is None:
        return None
    made = NetDef()
    made.CopyFrom(found)
    made.type = LOCAL_TYPE
    _place(made, op.definition)
    return made


def _place(net: NetDef, definition: OperatorDef) -> None:
    """Let the operators of a step net run on the device of the operator that owns it, where they name none."""
    owner = definition.device_option
    if place_of(owner).is_host:
        return
    for op in net.op:
        if not op.device_option.HasField("device_type"):
            op.device_option.MergeFrom(DeviceOption(device_type=owner.device_type, device_id=owner.device_id))


def declare_inputs(net: NetDef, reads: Iterable[str]) -> None:
    """Add to the external inputs of a step net what it reads and does not name there."""
    named = set(net.external_input)
    net.external_input.extend(name for name in reads if name not in named)


def _columns(stem: str, ends: Iterable[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """Return an argument for each column of a table."""
    return {f"{stem}_{end}": [row[column] for row in rows] for column, end in enumerate(ends)}


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
