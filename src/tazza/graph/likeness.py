"""Whether two nets do the same with other names of blobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tazza.device import merge
from tazza.graph.versions import VersionedOps
from tazza.proto import NetDef, OperatorDef


def unlike_wiring(one: NetDef, other: NetDef) -> int | None:
    """Return the position of the first operator whose inputs come from other operators in the other net; None if none.

    Operators are alike if types and devices are, and if the same operators have written what they read, one after the
    other. What nobody in the net has written does not count, nor do arguments.

    >>> from tazza.graph.text import parse_net
    >>> net = parse_net("a = Relu(x)", "b = Relu(a)", "c = Sum(a, b)")
    >>> unlike_wiring(net, parse_net("p = Relu(y)", "q = Relu(p)", "r = Sum(p, q)"))
    >>> unlike_wiring(net, parse_net("a = Relu(x)", "a = Relu(a)", "c = Sum(a, a)"))
    2

    Raises:
        SchemaError, ArgumentError, FormatError: an operator with nets is not legal.
    """
    if len(one.op) != len(other.op):
        return min(len(one.op), len(other.op))
    pairs = zip(_wires(one), _wires(other), strict=True)
    return next((position for position, (wires, others) in enumerate(pairs) if wires != others), None)


def _wires(net: NetDef) -> Iterator[tuple[object, ...]]:
    """Yield of each operator its type, its device, and who has written its inputs."""
    ssa = VersionedOps(net.op)
    for position, versions in enumerate(ssa.ops):
        op = versions.op
        option = merge(net.device_option, op.device_option)
        writers = [ssa.writers.get((name, versions.read[name])) for name in op.input]
        known = [writer for writer in writers if writer is not None and writer < position]
        yield op.type, option.device_type, option.device_id, option.node_name, known


def unlike_in_place(one: NetDef, other: NetDef) -> int | None:
    """Return the position of the first operator that writes over other inputs in the other net; None if none does.

    Operators that one net has behind the end of the other do not count.

    >>> from tazza.graph.text import parse_net
    >>> unlike_in_place(parse_net("x = Relu(x)"), parse_net("a = Relu(x)"))
    0
    """
    pairs = zip(one.op, other.op, strict=False)
    return next(
        (
            position
            for position, (op, like) in enumerate(pairs)
            if op.type != like.type or _written_over(op) != _written_over(like)
        ),
        None,
    )


def _written_over(op: OperatorDef) -> Sequence[tuple[int, int]]:
    return [(i, j) for i, read in enumerate(op.input) for j, written in enumerate(op.output) if read == written]
