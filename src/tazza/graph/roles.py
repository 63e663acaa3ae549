"""What the operators of a net take its inputs for, by the roles that their schemas declare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator

from tazza.graph.versions import VersionedOps
from tazza.operator import SCHEMAS, Role, Touched, touches
from tazza.proto import NetDef, OperatorDef


def roles_of(net: NetDef) -> dict[str, frozenset[Role]]:
    """Return for each blob that a net reads before it writes it the roles that it has, until somebody writes it.

    >>> from tazza.operator import operator_def
    >>> net = NetDef(op=[operator_def("FC", ["x", "W", "b"], ["y"]), operator_def("Relu", ["y"], ["y"])])
    >>> {name: sorted(role.value for role in roles) for name, roles in roles_of(net).items()}
    {'x': ['data'], 'W': ['parameter'], 'b': ['parameter']}

    What reads a blob without saying what for, a net within an operator or an operator that nobody declares, may take it
    for anything: it adds all roles.

    Raises:
        SchemaError, ArgumentError: an operator is not legal.
    """
    found: defaultdict[str, set[Role]] = defaultdict(set)
    written: set[str] = set()
    for op in net.op:
        touched = touches(op)
        for name, roles in _reads(op, touched):
            if name not in written:
                found[name].update(roles)
        written.update(touched.certain)
    return {name: frozenset(roles) for name, roles in found.items()}


def made_by_last_layers(net: NetDef, ends: Collection[str]) -> set[str]:
    """Return what a net makes behind its last parameters on the way to these blobs: predictions and what follows.

    >>> from tazza.graph.text import parse_net
    >>> net = parse_net("h = FC(x, W, b)", "y = FC(h, V, c)", "y = Relu(y)", "loss = AveragedLoss(y)")
    >>> sorted(made_by_last_layers(net, ["loss"]))
    ['loss', 'y']

    Raises:
        SchemaError, ArgumentError: an operator is not legal.
    """
    ssa = VersionedOps(net.op)
    left = [(name, ssa.last[name]) for name in ends if name in ssa.last]
    found: set[str] = set()
    seen: set[int] = set()
    while left:
        position = ssa.writers.get(left.pop())
        if position is None or position in seen:
            continue
        seen.add(position)
        one = ssa.ops[position]
        found.update(one.written)
        if not any(Role.PARAMETER in roles for _, roles in _reads(one.op, touches(one.op))):
            left.extend(one.read.items())
    return found


def _reads(op: OperatorDef, touched: Touched) -> Iterator[tuple[str, Iterable[Role]]]:
    schema = SCHEMAS.get(op.type)
    if schema is None:
        yield from ((name, Role) for name in touched.reads)
        return
    letters = schema.typed_view(op).input_letters
    yield from ((name, [schema.inputs_by_letter[letter].role]) for letter, name in zip(letters, op.input, strict=True))
    yield from ((name, Role) for name in touched.reads if name not in op.input)


def comes_with_data(roles: frozenset[Role]) -> bool:
    """Whether a blob of these roles is thought to be another one in each run: somebody takes it for data."""
    return any(role.comes_with_data for role in roles)


def is_data_alone(roles: frozenset[Role]) -> bool:
    """Whether a blob of these roles is data, and never what is learned or kept; its shape may matter as well."""
    return comes_with_data(roles) and not roles & {Role.PARAMETER, Role.STATE}
