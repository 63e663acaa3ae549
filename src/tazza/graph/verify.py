"""Checks of a whole net: blobs are made before they are read, declared outputs are made, operators are legal."""

from __future__ import annotations

from itertools import chain

from tazza.errors import NetError, TazzaError
from tazza.operator import find_schema, read_first
from tazza.operator.touches import as_named, each_touched
from tazza.proto import NetDef


def check_net(net: NetDef) -> None:
    """Check that blobs are made before they are read, and that declared outputs are made.

    With an empty `external_input` the first check is off: scripts that build nets by hand leave it out.

    Raises:
        NetError: names the operator and the blob.
    """
    touched = each_touched(net)
    there = {*net.external_input, *chain.from_iterable(one.writes for one in touched)}
    listed = net.external_input
    for name in read_first(map(as_named, net.op, touched), perhaps_made=True) if listed else ():
        if name not in listed:
            position = next(position for position, op in enumerate(net.op) if name in op.input)
            raise NetError(
                f"net {net.name!r}: operator {position} ({net.op[position].type}) reads {name!r}, "
                "which no earlier operator makes and external_input does not list",
                hint=_later_maker(net, position, name),
            )
    absent = [name for name in net.external_output if name not in there]
    if absent:
        raise NetError(
            f"net {net.name!r} declares the output {absent[0]!r}, which no operator makes",
            hint="drop it from external_output",
        )


def check_operators(net: NetDef) -> None:
    """Check every operator against its schema.

    Raises:
        TazzaError: the first that is not legal, with its place in the net.
    """
    for position, op in enumerate(net.op):
        try:
            find_schema(op.type).view(op)
        except TazzaError as error:
            error.add_context(f"in operator {position} ({op.type}) of net {net.name!r}")
            raise


def _later_maker(net: NetDef, position: int, name: str) -> str:
    for later, op in enumerate(net.op):
        if later >= position and name in op.output:
            return f"operator {later} ({op.type}) makes it later: a cycle, or operators out of order"
    return "add it to external_input and feed it"
