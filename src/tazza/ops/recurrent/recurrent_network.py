"""Nets that run once for each step of a sequence: RecurrentNetwork.

Letters: T steps, N sequences, D elements of a state, L rows of its initial value (1, or the first extent of an input of
rank 3). X is (T, N, ...); a state over time is (T + L, N, D). What links, states and aliases are: see `recurrence`; how
a step runs: see `step`.

Outputs lie on the rows of a state, they are no copies. The last output keeps a workspace for each step, which its
gradient reads; without a backward step net a few workspaces serve all steps in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from tazza.errors import GradientError, SchemaError, ShapeError
from tazza.operator import (
    Cost,
    Effects,
    GradientRequest,
    LocalBlobs,
    Operator,
    OpView,
    Role,
    Touched,
    blob,
    ends,
    host_kernel,
    operator_def,
    schema,
    touched_by,
)
from tazza.ops.recurrent.backward_step import AGAIN, again, with_backward
from tazza.ops.recurrent.recurrence import (
    LOCAL_TYPE,
    RECURRENT_ARGS,
    Link,
    Parameter,
    Recurrence,
    aliases_of,
    initial_rows,
    links_of,
    open_arguments,
    parameters_of,
    renamed,
    state_gradients_of,
    states_of,
    step_net,
)
from tazza.ops.recurrent.room import room
from tazza.ops.recurrent.row_sums import Apart, AroundSteps, placed, taken_apart
from tazza.ops.recurrent.state_gradient import begin_gradients, finish_gradients, tensor_of
from tazza.ops.recurrent.step import SCRATCH, Steps, StepWorkspaces, begin_state, lay_on, like_zero, view_rows
from tazza.ops.recurrent.step_cost import cost_of_steps, linked, over_time
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Blob, TensorSpec, TypeSpec

MOST_BOUND = 256
"""Steps that stay bound between runs where nothing is kept for a gradient; with more, a few workspaces serve all."""

RECURRENT_NETWORK = schema(
    "RecurrentNetwork",
    """Runs `step_net` for each row of X. Links let its blobs lie on rows of X and of recurrent states.

    A state begins with its initial value: an input (N, D), one (D) for all sequences, or several rows (L, N, D). Steps
    read other inputs as they are. Blobs that a step makes are its own; one that it reads first is the one outside.""",
    inputs=[
        blob("X", dims="T N *D", doc="the sequences"),
        blob(
            "inputs",
            type_name="*",
            variadic=True,
            optional=True,
            role=Role.DATA,
            doc="initial states, and what steps read",
        ),
        blob(
            "param", variadic=True, optional=True, role=Role.PARAMETER, doc="what `param` names: weights of the steps"
        ),
    ],
    outputs=[
        blob("Y", variadic=True, doc="what `alias_dst` names"),
        blob("step_workspaces", type_name=SCRATCH, doc="what the gradient reads"),
    ],
    args=RECURRENT_ARGS,
    open_args=open_arguments,
    effects=Effects.WORKSPACE,
    binds_nets=True,
    source="Caffe2",
)


@RECURRENT_NETWORK.name_inputs
def recurrent_network_inputs(op: OpView, count: int) -> tuple[str, ...]:
    parameters = set(op.param)
    return ("X", *("param" if place in parameters else "inputs" for place in range(1, count)))


def in_order(
    op: OpView, X: TensorSpec, inputs: Sequence[TensorSpec | TypeSpec], param: Sequence[TensorSpec | TypeSpec]
) -> list[TensorSpec | TypeSpec]:
    """Return the specs of all inputs of the forward operator in their order."""
    by_letter = {"X": iter([X]), "inputs": iter(inputs), "param": iter(param)}
    return [next(by_letter[letter]) for letter in op.input_letters]


def forward_steps(op: OpView) -> tuple[NetDef, list[Link]]:
    """Return the step net and its links.

    Raises:
        SchemaError: there is no step net.
        ArgumentError: links do not fit each other.
        FormatError: the step net is text that is no net.
    """
    made = step_net(op, "step_net")
    if made is None:
        raise op.error(SchemaError, "step_net is empty")
    return made, links_of(op)


@RECURRENT_NETWORK.validate
def recurrent_network_validate(op: OpView) -> None:
    forward_steps(op)
    states = {state.states for state in states_of(op, op.definition.input)}
    outputs = op.definition.output[:-1]
    for alias in aliases_of(op):
        if alias.source not in states:
            raise op.error(
                SchemaError, f"alias {alias.target!r} lies on {alias.source!r}, which is none of recurrent_states"
            )
        if alias.target not in outputs:
            raise op.error(SchemaError, f"alias {alias.target!r} is none of the outputs {', '.join(outputs)}")


@RECURRENT_NETWORK.infer
def recurrent_network_infer(
    op: OpView,
    X: TensorSpec,
    inputs: tuple[TensorSpec | TypeSpec, ...],
    param: tuple[TensorSpec, ...],
) -> tuple[TensorSpec | TypeSpec | None, ...]:
    given = in_order(op, X, inputs, param)
    states = {state.states: given[state.position] for state in states_of(op, op.definition.input)}
    aliases = {alias.target: alias for alias in aliases_of(op)}
    found: list[TensorSpec | TypeSpec | None] = []
    for name in op.definition.output[:-1]:
        alias = aliases.get(name)
        initial = None if alias is None else states[alias.source]
        if alias is None or not isinstance(initial, TensorSpec):
            found.append(None)
        elif X.dims is None or initial.dims is None:
            found.append(TensorSpec(None, initial.dtype))
        else:
            T, N = X.dims[:2]
            rows = None if T is None else T + initial_rows(initial.dims)
            count = None if rows is None else max(0, rows - alias.first_row(rows))
            found.append(TensorSpec((count, N, initial.dims[-1]), initial.dtype))
    return (*found, TypeSpec(SCRATCH))


@RECURRENT_NETWORK.cost
def recurrent_network_cost(
    op: OpView,
    X: TensorSpec,
    inputs: tuple[TensorSpec | TypeSpec, ...],
    param: tuple[TensorSpec, ...],
    **outputs: object,
) -> Cost:
    del outputs
    net, links = forward_steps(op)
    outside = over_time(op, op.definition.input, in_order(op, X, inputs, param))
    return cost_of_steps(op, X.shape[0], net, linked(links, outside))


@RECURRENT_NETWORK.touches
def recurrent_network_touches(op: OpView) -> Touched:
    net, links = forward_steps(op)
    states = [state.states for state in states_of(op, op.definition.input)]
    return _seen_outside(touched_by(net), op, links, states, list(op.definition.output))


def _seen_outside(inner: Touched, op: OpView, links: list[Link], made: list[str], outputs: list[str]) -> Touched:
    """Return what steps touch outside of their workspaces: blobs that they read first, and what links lead to."""
    own = {op.timestep, *(link.internal for link in links)}
    waits = (name for name in inner.after if name not in inner.writes)
    outside = {name: name for name in (*inner.reads, *waits) if name not in own}
    externals = (link.external for link in links if link.external not in made)
    return inner.perhaps().seen_as(outside).also(reads=externals, writes=made, certain=(*outputs, *made))


def recurrent_network_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit the gradient operator, which runs the backward step net that the operator carries.

    One that carries none keeps nothing of its steps: it runs again under other names, as one that does, and that with a
    backward step net made here.
    """
    recurrence, forward = Recurrence.read(g.op, g.definition.input), g.definition
    before: list[OperatorDef] = []
    if recurrence.backward.net is None:
        given = [i for i, gradient in enumerate(g.output_gradients) if gradient is not None]
        recurrence = again(with_backward(recurrence, g.definition.input, given))
        forward = operator_def(
            "RecurrentNetwork",
            [g.I(i) for i in range(len(g.definition.input))],
            [f"{name}{AGAIN}" for name in g.definition.output],
            **recurrence.arguments(),
        )
        before = [forward]
    backward = recurrence.backward
    if not backward.outputs_with_grads:
        raise GradientError(
            "RecurrentNetwork names no output that gets a gradient", hint="say outputs_with_grads=[0], say"
        )
    inputs = [g.GO(i) for i in backward.outputs_with_grads]
    inputs += [g.I(i) for i in range(len(forward.input))]
    inputs += [g.O(i) for i in range(len(forward.output))] if forward is g.definition else list(forward.output)
    outputs = [g.GI(i) for i in (0, *backward.param, *(state.position for state in recurrence.states))]
    (made,) = g.emit("RecurrentNetworkGradient", inputs, outputs)
    made.arg.extend(forward.arg)
    return [*before, made]


RECURRENT_NETWORK.gradient(recurrent_network_gradient, copy_arguments=False)


@host_kernel(RECURRENT_NETWORK)
class RecurrentNetwork:
    """Runs the steps of one operator."""

    def __init__(self, operator: Operator) -> None:
        op = operator.op
        net, links = forward_steps(op)
        self._operator, self._op = operator, op
        self._states = states_of(op, op.definition.input)
        self._aliases = aliases_of(op)
        self._keeps = step_net(op, "backward_step_net") is not None
        self.nets = Steps(operator, net, links, op.timestep, shared=op.recompute_blobs_on_backward)
        self._within: list[tuple[LocalBlobs, LocalBlobs]] = []  # of a workspace, and a child of it for one step
        workspace = operator.workspace
        self._blobs = {state.states: workspace.create_blob(state.states) for state in self._states}

    def run(self, X: Blob, step_workspaces: Blob) -> None:
        op, owner = self._op, self._operator.workspace
        T, N = tuple(X.tensor().shape)[:2]
        for state in self._states:
            initial = owner.get_blob(state.initial)
            assert initial is not None, "inputs are there"
            begin_state(op, self._blobs[state.states], initial, T, N)
        if not isinstance(step_workspaces.value, StepWorkspaces):
            step_workspaces.set(StepWorkspaces())
        scratch = step_workspaces.get(StepWorkspaces)
        count = T if self._keeps else min(T, op.num_workspaces)
        spaces = scratch.reserve(owner, count)
        homes = [spaces[t if self._keeps else t % count] for t in range(T)]
        within = homes if self._keeps or T > MOST_BOUND else self._passing(homes)
        assert scratch.shared is not None
        shared = scratch.shared
        self.nets.keep(within)
        steps = [(self.nets.of(own, shared, home), t) for t, (own, home) in enumerate(zip(within, homes, strict=True))]
        self.nets.run(steps)
        if within is not homes:
            for state, t in steps[-count:]:
                state.show(homes[t])
        for alias in self._aliases:
            source, target = self._blobs[alias.source].tensor(), owner.create_blob(alias.target)
            rows = int(source.shape[0])
            first = alias.first_row(rows)
            op.require(0 <= first <= rows, f"alias {alias.target!r} begins at row {first} of {rows}")
            lay_on(target, view_rows(source, first, rows - first, alias.target))

    def _passing(self, homes: Sequence[LocalBlobs]) -> list[LocalBlobs]:
        """Return a child of each workspace for each step that it serves: a step that is bound once stays bound."""
        pairs = zip(homes, self._within, strict=False)
        kept = [pair for _, pair in itertools.takewhile(lambda both: both[1][0] is both[0], pairs)]
        self._within = [*kept, *((home, home.child()) for home in homes[len(kept) :])]
        return [inner for _, inner in self._within]


RECURRENT_NETWORK_GRADIENT = schema(
    "RecurrentNetworkGradient",
    """Runs `backward_step_net` for each step, the last one first.

    Inputs: the gradients of the outputs that `outputs_with_grads` names, then inputs and outputs of the forward
    operator. Outputs: the gradients of X, of the parameters, which are sums over the steps, and of initial states.""",
    inputs=[
        blob("dY", variadic=True, doc="gradients of outputs"),
        blob("X", dims="T N *D"),
        blob("blobs", type_name="*", variadic=True, optional=True, doc="other inputs, and outputs, of the operator"),
        blob("step_workspaces", type_name=SCRATCH, role=Role.STATE),
    ],
    outputs=[
        blob("dX"),
        blob("dparam", variadic=True, optional=True, doc="one for each of `param`"),
        blob("dinitial", variadic=True, optional=True, doc="one for each state"),
    ],
    args=RECURRENT_ARGS,
    open_args=open_arguments,
    effects=Effects.WORKSPACE,
    binds_nets=True,
    no_gradient=ends("second derivatives are not built"),
    source="the chain rule, through time; Werbos 1990",
)


@RECURRENT_NETWORK_GRADIENT.name_inputs
def recurrent_network_gradient_inputs(op: OpView, count: int) -> tuple[str, ...]:
    given = len(op.outputs_with_grads)
    return (*("dY",) * given, "X", *("blobs",) * (count - given - 2), "step_workspaces")[:count]


@RECURRENT_NETWORK_GRADIENT.name_outputs
def recurrent_network_gradient_outputs(op: OpView, count: int) -> tuple[str, ...]:
    letters = ("dX", *("dparam",) * len(op.param), *("dinitial",) * len(op.recurrent_states))
    if count != len(letters):
        raise op.error(
            SchemaError, f"{count} outputs, with {len(op.param)} parameters and its states it has {len(letters)}"
        )
    return letters


def forward_inputs(op: OpView) -> list[str]:
    """Return the names of the inputs of the forward operator, with those behind them."""
    return list(op.definition.input[len(op.outputs_with_grads) :])


@RECURRENT_NETWORK_GRADIENT.infer
def recurrent_network_gradient_infer(
    op: OpView,
    dY: tuple[TensorSpec, ...],
    X: TensorSpec,
    blobs: tuple[TensorSpec | TypeSpec, ...],
    step_workspaces: TypeSpec,
) -> tuple[TensorSpec | TypeSpec | None, ...]:
    del dY, step_workspaces
    given = (X, *blobs)
    positions = (0, *op.param, *op.initial_recurrent_state_ids)
    found = [given[i] if 0 <= i < len(given) else None for i in positions]
    return tuple(TensorSpec(spec.dims, spec.dtype) if isinstance(spec, TensorSpec) else spec for spec in found)


def backward_steps(op: OpView) -> tuple[NetDef, list[Link]]:
    """Return the backward step net with what adds up gradients in front and behind, and the links of its blobs.

    Raises:
        TazzaError: as `backward_step`.
    """
    net, links = backward_step(op)
    add_up(op, net, parameters_of(op, forward_inputs(op), op.definition.output[1 : 1 + len(op.param)]))
    return net, links


def add_up(op: OpView, net: NetDef, parameters: Iterable[Parameter]) -> None:
    """Append to a step what adds its gradients of parameters to those of the steps before."""
    after = [operator_def("Sum", [one.gradient, one.of_step], [one.gradient]) for one in parameters]
    net.op.extend(placed(op.definition, after))


def backward_step(op: OpView) -> tuple[NetDef, list[Link]]:
    """Return the backward step net with what adds up gradients of states in front, and the links of its blobs.

    Raises:
        ArgumentError: links, states, parameters or outputs with gradients do not fit each other.
        SchemaError: outputs of the forward operator are not what aliases name.
        FormatError: the net is text that is no net.
    """
    net = step_net(op, "backward_step_net")
    if net is None:
        net = NetDef(name="backward", type=LOCAL_TYPE)  # of a step whose gradient is what it was given
    inputs = forward_inputs(op)
    definition = op.definition
    # What links call the gradient of X is the output, under whatever name that goes.
    outside = {renamed(definition, f"{inputs[0]}_grad"): definition.output[0]}
    links: list[Link] = []
    for link in (*links_of(op, "backward_"), *links_of(op)):
        external = renamed(definition, link.external)
        external = outside.get(external, external)
        links.append(Link(renamed(definition, link.internal), external, link.offset, link.window))
    parameters = parameters_of(op, inputs, definition.output[1 : 1 + len(op.param)])
    within = {one.of_step.removesuffix("_tmpstep"): one.of_step for one in parameters}
    ops = list(net.op)
    for each in ops:
        for names in (each.input, each.output):
            for place, name in enumerate(names):
                names[place] = within.get(name, name)
    before: list[OperatorDef] = []
    for each in state_gradients_of(op, states_of(op, inputs)):
        if each.given:
            names = [f"{each.gradients}/row", *(f"{given}/row" for given in each.given)]
            outer = (Link(f"{given}/row", given, 0) for given in dict.fromkeys(each.given))
            links = [Link(names[0], each.gradients, 1), *outer, *links]
            before.append(operator_def("Sum", names, names[:1]))
    del net.op[:]
    net.op.extend((*placed(definition, before), *ops))
    return net, links


def backward_parts(op: OpView) -> tuple[Apart, list[Link]]:
    """Return the backward step net as it runs: with what is done for all steps at once apart, and the links.

    Raises:
        TazzaError: as `backward_step`.
    """
    net, links = backward_step(op)
    inputs, definition = forward_inputs(op), op.definition
    parameters = parameters_of(op, inputs, definition.output[1 : 1 + len(op.param)])
    states = states_of(op, inputs)
    sequences = {definition.output[0], *(each.gradients for each in state_gradients_of(op, states))}
    apart = taken_apart(net, links, parameters, [state.states for state in states], sequences)
    add_up(op, apart.step, (one for one in parameters if one.name not in apart.made))
    return apart, links


@RECURRENT_NETWORK_GRADIENT.validate
def recurrent_network_gradient_validate(op: OpView) -> None:
    backward_steps(op)


@RECURRENT_NETWORK_GRADIENT.cost
def recurrent_network_gradient_cost(
    op: OpView,
    dY: tuple[TensorSpec, ...],
    X: TensorSpec,
    blobs: tuple[TensorSpec | TypeSpec, ...],
    **others: object,
) -> Cost:
    del others
    names, definition = forward_inputs(op), op.definition
    outside = over_time(op, names, (X, *blobs))
    net, links = forward_steps(op)
    left = linked(links, outside)
    cost_of_steps(op, 1, net, left)  # what forward steps leave
    outside.update(zip(definition.input, dY, strict=False))
    states = states_of(op, names)
    outside |= {each.gradients: outside[each.state.states] for each in state_gradients_of(op, states)}
    outside |= {
        one.gradient: outside[one.name] for one in parameters_of(op, names, definition.output[1:][: len(op.param)])
    }
    outside[definition.output[0]] = X
    apart, links = backward_parts(op)
    known = left | linked(links, outside)
    cost = cost_of_steps(op, 1, apart.first, known) + cost_of_steps(op, X.shape[0], apart.step, known)
    return cost + cost_of_steps(op, 1, apart.last, known | linked(apart.over(X.shape[0]), outside))


@RECURRENT_NETWORK_GRADIENT.touches
def recurrent_network_gradient_touches(op: OpView) -> Touched:
    net, links = backward_steps(op)
    forward = step_net(op, "step_net")
    inner = touched_by(net)
    if forward is not None:  # what the forward steps left is in their workspaces
        inner = inner.given(touched_by(forward).writes)
    states = states_of(op, forward_inputs(op))
    made = [each.gradients for each in state_gradients_of(op, states)]
    outputs = list(op.definition.output)
    seen = _seen_outside(inner, op, links, made, outputs)
    return seen.given(outputs).also(reads=(state.states for state in states))


@host_kernel(RECURRENT_NETWORK_GRADIENT)
class RecurrentNetworkGradient:
    """Runs the backward steps of one operator."""

    def __init__(self, operator: Operator) -> None:
        op = operator.op
        self._operator, self._op = operator, op
        inputs = forward_inputs(op)
        self._states = states_of(op, inputs)
        self._gradients = state_gradients_of(op, self._states)
        self._parameters = parameters_of(op, inputs, op.definition.output[1 : 1 + len(op.param)])
        apart, links = backward_parts(op)
        self._parameters = [one for one in self._parameters if one.name not in apart.made]
        self.nets = Steps(operator, apart.step, links, op.timestep)
        self._around = AroundSteps(apart, self.nets.make)
        self._within: list[tuple[LocalBlobs, LocalBlobs]] = []  # of a forward step, and a child of it for this one

    def run(self, X: Blob, step_workspaces: Blob, dX: Blob, dinitial: tuple[Blob, ...]) -> None:
        op, owner = self._op, self._operator.workspace
        T = int(X.tensor().shape[0])
        scratch = step_workspaces.get(StepWorkspaces)
        if len(scratch.steps) < T or scratch.shared is None:
            raise op.error(
                ShapeError,
                f"{len(scratch.steps)} steps were kept, X has {T}",
                "run the forward operator first; it keeps steps if it has a backward_step_net",
            )
        for one in self._parameters:
            like_zero(owner.create_blob(one.gradient), tensor_of(owner, one.name))
        for each in self._gradients:
            begin_gradients(op, owner, each)
        given = X.tensor()
        room(dX, tuple(given.shape), given.dtype, given.place).reserve()
        within = self._workspaces(scratch.steps)
        self._around.begin(scratch.shared)
        self.nets.run([(self.nets.of(within[t], scratch.shared), t) for t in reversed(range(T))])
        self._around.end(owner, T)
        for each, target in zip(self._gradients, dinitial, strict=True):
            finish_gradients(owner, each, target)

    def _workspaces(self, forward: Sequence[LocalBlobs]) -> list[LocalBlobs]:
        """Return a child of each workspace of the forward pass; those of workspaces that are gone go too."""
        if [outer for outer, _ in self._within] != list(forward):  # workspaces are equal to themselves alone
            known = {id(outer): inner for outer, inner in self._within}
            self._within = [(outer, known.get(id(outer)) or outer.child()) for outer in forward]
            self.nets.keep([inner for _, inner in self._within])
        return [inner for _, inner in self._within]
