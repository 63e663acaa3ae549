"""A net as a table for notebooks: a row for each operator, those of nets within indented under their own."""

from __future__ import annotations

from collections.abc import Iterator

from tazza.operator import stored_fields
from tazza.operator.nested import nested_nets
from tazza.proto import Argument, NetDef, OperatorDef
from tazza.runtime.html import heading, table

NUMBERS_SHOWN = 8
"""A list of more numbers is told by its length."""
INDENT = "\N{NO-BREAK SPACE}" * 4


def net_html(net: NetDef, title: str) -> str:
    """Return a net under a title, with its inputs and outputs; any net, legal or not."""
    ends = ((word, ", ".join(names)) for word, names in (("in", net.external_input), ("out", net.external_output)))
    rows = [("", word, names, "", "") for word, names in ends if names]
    rows += [(str(place), *row) for place, op in enumerate(net.op) for row in _rows(op)]
    return heading(title) + table(("", "operator", "reads", "makes", "arguments"), rows, numbers={0})


def _rows(op: OperatorDef, indent: str = "") -> Iterator[tuple[str, str, str, str]]:
    arguments = ", ".join(f"{argument.name}={_value(argument)}" for argument in op.arg)
    yield indent + op.type, ", ".join(op.input), ", ".join(op.output), arguments
    for net in nested_nets(op):
        for within in net.op:
            yield from _rows(within, indent + INDENT)


def _value(argument: Argument) -> str:
    """Return the value of an argument as far as it is short.

    >>> _value(Argument(name="kernel", i=3)), _value(Argument(name="values", floats=[0.5] * 99))
    ('3', '[99 values]')
    """
    fields = stored_fields(argument)
    if len(fields) != 1 or fields[0] in ("t", "n", "qtensors", "tensors", "nets"):
        return "..." if fields else "[]"
    value = getattr(argument, fields[0])
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if len(value) > NUMBERS_SHOWN:
        return f"[{len(value)} values]"
    return f"[{', '.join(each.decode(errors='replace') if isinstance(each, bytes) else f'{each:g}' for each in value)}]"
