"""Nets among the arguments of an operator: bodies of loops, branches, step nets.

They lie in the fields `n` and `nets` of any argument. Nets of 2017 hold them as text, in the field `s` of an argument
that its schema declares as `NetDef | str`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from tazza.operator.registry import SCHEMAS
from tazza.proto import Argument, NetDef, OperatorDef
from tazza.proto.message import format_text, parse_text


def nested_nets(definition: OperatorDef) -> Iterator[NetDef]:
    """Yield the nets that an operator holds, not those that these hold in turn; of texts, what they say.

    Raises:
        FormatError: a text that should be a net is none.
    """
    schema = SCHEMAS.get(definition.type)
    netless: Collection[str] = () if schema is None else schema.netless
    for argument in definition.arg:
        if argument.name in netless:
            continue  # as most; with a net in one of them the operator is not legal
        if argument.HasField("n"):
            yield argument.n
        yield from argument.nets
        if _is_text(definition, argument):
            yield _parsed(definition, argument)


def net_argument(definition: OperatorDef, name: str) -> NetDef | None:
    """Return the net that an argument holds, or says as text; None where it is missing or empty.

    Raises:
        FormatError: the text is no net.
    """
    found = next((argument for argument in definition.arg if argument.name == name), None)
    if found is None:
        return None
    if found.HasField("n"):
        return found.n
    return _parsed(definition, found) if found.s else None


def all_operators(net: NetDef) -> Iterator[tuple[OperatorDef, str]]:
    """Yield every operator of a net and of all nets within, each with words that tell where it stands.

    Raises:
        FormatError: a text that should be a net is none.
    """
    for position, op in enumerate(net.op):
        where = f"operator {position} of net {net.name!r}"
        yield op, where
        for inner in nested_nets(op):
            yield from ((found, f"{place}, in {where}") for found, place in all_operators(inner))


def change_nested(definition: OperatorDef, change: Callable[[NetDef], None]) -> None:
    """Let `change` work on each net that an operator holds; one that is text is written anew."""
    for argument in definition.arg:
        if argument.HasField("n"):
            change(argument.n)
        for net in argument.nets:
            change(net)
        if _is_text(definition, argument):
            net = _parsed(definition, argument)
            change(net)
            argument.s = format_text(net).encode()


def rename_blobs(definition: OperatorDef, names: Mapping[str, str]) -> None:
    """Give blobs of an operator other names wherever it mentions them, in nets within as well.

    Nets that are bound by position (`OpSchema.binds_nets`) have names of their own, which stay.
    """
    for listed in (definition.input, definition.output, definition.control_input):
        listed[:] = [names.get(name, name) for name in listed]
    found = SCHEMAS.get(definition.type)
    if (found is not None and found.binds_nets) or next(nested_nets(definition), None) is None:
        return

    def change(net: NetDef) -> None:
        for listed in (net.external_input, net.external_output):
            listed[:] = [names.get(name, name) for name in listed]
        for op in net.op:
            rename_blobs(op, names)

    change_nested(definition, change)


def _is_text(definition: OperatorDef, argument: Argument) -> bool:
    if not argument.HasField("s"):
        return False
    found = SCHEMAS.get(definition.type)
    spec = None if found is None else found.args.get(argument.name)
    return spec is not None and spec.takes(NetDef)


def _parsed(definition: OperatorDef, argument: Argument) -> NetDef:
    return parse_text(NetDef, argument.s.decode(errors="replace"), f"argument {argument.name!r} of {definition.type}")
