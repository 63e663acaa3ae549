"""A net in a scope of its own: Do.

The net sees the outer blobs that it is bound to, under names of its own; all else that it writes is local to the scope
(`ops.control.scope`). Its gradient is a Do again, marked `is_gradient_op`, that runs in the scope of the forward run.

Blobs:  X (inputs), scope -> Y (outputs), scope.  Binding k: `inner_blobs[k]` is the name in the net of blob number
`outer_blobs_idx[k]`, counted through inputs and outputs without the scope.
"""

from __future__ import annotations

import weakref

from tazza.errors import NetError, SchemaError
from tazza.operator import (
    Effects,
    GradientRequest,
    LocalBlobs,
    Operator,
    OpView,
    OwnedNets,
    Role,
    RunnableNet,
    Touched,
    anything,
    arg,
    blob,
    host_kernel,
    make_argument,
    read_first,
    schema,
    touched_by,
)
from tazza.ops.control.nested_gradient import (
    copied,
    dense,
    given_gradients,
    gradient_net,
    gradient_operator,
    zeros_like,
)
from tazza.ops.control.scope import SCOPES, Scope, ScopeStack
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import Blob

GIVEN = "/_DO_OPERATOR_INNER_GRAD_"
"""Ends the name in the gradient net of what comes in."""
LEFT = "/_DO_OPERATOR_INNER_GRAD_COPY_"
"""Ends the name of what goes out."""

DO = schema(
    "Do",
    """Runs `net` in a new scope, on the inputs and outputs that its names are bound to.

    All of them have to be bound, each once. The last input and output is the stack that the scope goes on.""",
    inputs=[
        blob("X", type_name="*", optional=True, variadic=True),
        blob("scope", type_name=SCOPES, role=Role.STATE),
    ],
    outputs=[
        blob("Y", type_name="*", optional=True, variadic=True),
        blob("scope_next", type_name=SCOPES),
    ],
    args=[
        arg("net", NetDef, doc="what to run"),
        arg("inner_blobs", list[str], [], doc="names in the net"),
        arg("outer_blobs_idx", list[int], [], minimum=0, doc="which input or output each stands for"),
        arg("saved_fwd_blobs", list[str], [], doc="of a gradient: what it reads of the scope; nobody asks"),
        arg("reuse_workspace", bool, False, doc="run in the last scope, if there is one; then there is no gradient"),
        arg("copy_external_blobs", bool, False, doc="keep copies of bound tensors for the gradient"),
    ],
    in_place={"Y": anything()},
    must_in_place={"scope_next": "scope"},
    effects=Effects.WORKSPACE,
    binds_nets=True,
    source="Caffe2",
)


def bindings(op: OpView) -> dict[str, str]:
    """Return the outer blob that each name of the net stands for."""
    definition = op.definition
    outer = [*definition.input[:-1], *definition.output[:-1]]
    return {inner: outer[index] for inner, index in zip(op.inner_blobs, op.outer_blobs_idx, strict=True)}


@DO.validate
def do_validate(op: OpView) -> None:
    definition: OperatorDef = op.definition
    names: list[str] = op.inner_blobs
    places: list[int] = op.outer_blobs_idx
    outer = [*definition.input[:-1], *definition.output[:-1]]
    if len(names) != len(places):
        raise op.error(SchemaError, f"{len(names)} inner_blobs are bound to {len(places)} outer_blobs_idx")
    if len(set(names)) != len(names):
        raise op.error(SchemaError, f"inner_blobs {', '.join(names)} name a blob twice")
    if any(place >= len(outer) for place in places):
        raise op.error(SchemaError, f"outer_blobs_idx {max(places)} is beyond the {len(outer)} inputs and outputs")
    bound = [outer[place] for place in places]
    if len(set(bound)) != len(bound):
        raise op.error(SchemaError, f"outer_blobs_idx binds a blob twice: {', '.join(bound)}")
    unbound = [name for name in outer if name not in bound]
    if unbound:
        raise op.error(SchemaError, f"no inner name stands for {unbound[0]!r}", hint="bind every input and output")
    if op.reuse_workspace and (op.copy_external_blobs or definition.is_gradient_op):
        raise op.error(SchemaError, "reuse_workspace keeps nothing for a gradient, which is asked for")


@DO.touches
def do_touches(op: OpView) -> Touched:
    return touched_by(op.net).seen_as(bindings(op)).also(certain=op.definition.output[-1:])


def do_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Emit a Do of the backward pass of the net, whose names stay bound as they were.

    What comes in is called `<inner>/_DO_OPERATOR_INNER_GRAD_`, what goes out is copied: it may be the same blob. An
    input that the net overwrites unread has the gradient zero, where one is asked for.
    """
    op, definition = g.op, g.definition
    inner = {outer: name for name, outer in bindings(op).items()}
    copies, given = given_gradients(g, len(definition.output) - 1)
    incoming = {f"{inner[output]}{GIVEN}": gradient for output, gradient in given.items()}
    back = g.backward(op.net, {inner[output]: f"{inner[output]}{GIVEN}" for output in given}, bindings(op))
    if not back.ops:
        return []
    outer_of = {**bindings(op), **incoming}
    bound: dict[str, str] = {}
    last: list[OperatorDef] = []
    over: list[OperatorDef] = []
    came = {gradient: name for name, gradient in incoming.items()}
    for index, outer in enumerate(definition.input[:-1]):
        found, leaving = dense(g, outer, back.given.get(inner[outer])), f"{inner[outer]}{LEFT}"
        if found is None and outer not in given:
            continue
        last.append(zeros_like(inner[g.like(index)], leaving) if found is None else copied(found, leaving))
        gradient = f"{outer}_grad"
        if gradient in came:  # an outer blob has one name inside: it is written when nobody reads it any more
            over.append(copied(leaving, came[gradient]))
            leaving = came[gradient]
        bound[leaving] = gradient
        g.pass_to(index, gradient)
    outputs = list(bound.values())
    read = read_first((*back.ops, *(one for one in last if one.type != "Copy")))
    bound.update((name, outer_of[name]) for name in read if name in outer_of)
    inputs = list(dict.fromkeys(bound[name] for name in read if name in bound))
    saved = [name for name in read if name not in bound]
    made = gradient_operator(definition, {"net": gradient_net(op.net, (*back.ops, *last, *over))})
    scope = g.O(len(definition.output) - 1)
    made.input.extend((*inputs, scope))
    made.output.extend((*outputs, scope))
    outer = [*inputs, *outputs]
    places = [outer.index(name) for name in bound.values()]
    arguments = {"inner_blobs": list(bound), "outer_blobs_idx": places, "saved_fwd_blobs": saved}
    made.arg.extend(make_argument(name, value) for name, value in arguments.items())
    return [*copies, made]


DO.gradient(do_gradient, copy_arguments=False)


@host_kernel(DO)
class Do:
    """Has a net in every scope of the stack that it ran in."""

    def __init__(self, operator: Operator) -> None:
        self.nets = OwnedNets(operator)
        self._operator = operator
        self._bindings = bindings(operator.op)
        self._scopes: weakref.WeakSet[Scope] = weakref.WeakSet()

    def run(self, op: OpView, scope_next: Blob) -> None:
        stack = scope_next.get(ScopeStack)
        if op.definition.is_gradient_op:
            self._run_gradient(op, stack)
        else:
            self._run_forward(op, stack)

    def _run_forward(self, op: OpView, stack: ScopeStack) -> None:
        depth = stack.depth
        scope = stack.top() if op.reuse_workspace else None
        if scope is None:
            scope = stack.push(self._operator.workspace)
        blobs = scope.bind(self._operator.workspace, self._bindings)
        try:
            self._net(op, scope, blobs).run()
        except BaseException:
            stack.depth = depth  # a scope whose net failed has no gradient
            raise
        if op.copy_external_blobs:
            scope.keep()

    def _run_gradient(self, op: OpView, stack: ScopeStack) -> None:
        scope = stack.top()
        if scope is None:
            raise NetError(
                "Do: the stack has no scope whose gradient is yet to come",
                hint="run the forward operator first, once for each run of the gradient",
            )
        blobs = scope.bind_gradient(self._operator.workspace, self._bindings)
        self._net(op, scope, blobs).run()
        stack.depth -= 1

    def _net(self, op: OpView, scope: Scope, blobs: LocalBlobs) -> RunnableNet:
        if self not in scope.nets:
            scope.nets[self] = self.nets.make(op.net, blobs)
            self._scopes.add(scope)
        return scope.nets[self]

    def close(self) -> None:
        for scope in self._scopes:
            scope.nets.pop(self, None)
        self._scopes.clear()
        self.nets.close()
