"""What a net may do that somebody else wrote: a list of what is allowed, by what schemas declare."""

from __future__ import annotations

from tazza.errors import TazzaError, TrustError
from tazza.operator.effect import Effects
from tazza.operator.nested import all_operators, nested_nets
from tazza.operator.registry import find_schema
from tazza.operator.view import OpView
from tazza.proto import NetDef, OperatorDef

LOADED, RUN = Effects.RANDOM, Effects.WORKSPACE
"""What a net may do that nobody vouches for: while it is loaded, and when it runs."""

WORDS = {
    Effects.PURE: "compute tensors",
    Effects.RANDOM: "compute tensors",
    Effects.STATE: "keep state from one run to the next",
    Effects.WORKSPACE: "write blobs that it does not name",
    Effects.IO: "read or write files, databases or what else is outside of its workspace",
}


def effects_of(op: OpView | OperatorDef) -> Effects:
    """Return what a run of an operator does, nets among its arguments included.

    >>> from tazza.operator.definition import operator_def
    >>> effects_of(operator_def("Relu", ["x"], ["y"])), effects_of(operator_def("Iter", [], ["t"]))
    (<Effects.PURE: 0>, <Effects.STATE: 2>)

    Raises:
        UnknownOperatorError, SchemaError, ArgumentError: the operator, or one within, is not legal.
    """
    view = op if isinstance(op, OpView) else find_schema(op.type).typed_view(op)
    inner = (effects_of(each) for net in nested_nets(view.definition) for each in net.op)
    return max((view.schema.own_effects(view), *inner))


def check_trust(net: NetDef, allowed: Effects, *, source: str, trust: bool = False) -> None:
    """Check that no operator of a net, and of the nets within, does more than what is allowed.

    Args:
        net: what somebody else wrote.
        allowed: the most that an operator may do, `LOADED` or `RUN`.
        source: where the net comes from, for the message.
        trust: the caller knows the net, and lets it do what it likes.

    Raises:
        TrustError: one does more.
        UnknownOperatorError, SchemaError, ArgumentError: one is not legal, so that nobody can tell what it does.
    """
    allowed = Effects.IO if trust else allowed
    for op, where in all_operators(net):
        try:
            view = find_schema(op.type).typed_view(op)
            own = view.schema.own_effects(view)
        except TazzaError as error:
            error.add_context(f"in {where} ({op.type}), from {source}")
            raise
        if own > allowed:
            declared = "" if view.schema.effects is not None else " (it declares no effects, so that it may do all)"
            raise TrustError(
                f"{source}: {where} is {op.type}, which does more than {WORDS[allowed]}: it may {WORDS[own]}{declared}",
                hint="if you know what it does, load the model with trust=True (--trust); or run the net yourself in"
                " a Workspace",
            )
