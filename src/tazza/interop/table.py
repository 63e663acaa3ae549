"""Tables of a trained net in few bits: what reads their rows reads codes with a scale and a bias for each row.

    net, tables = with_tables_in(8, predict_net, {name: workspace.fetch(name) for name in names})

Source: Guan and others 2019, arXiv 1911.02079, and Caffe2, whose operators these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray

from tazza.errors import ArgumentError, NetError
from tazza.ops.embedding.lookup import lookups
from tazza.ops.embedding.row_format import EIGHT, FOUR, TWO, RowFormat
from tazza.proto import NetDef

FORMATS = {8: EIGHT, 4: FOUR, 2: TWO}
TABLE = 0
"""Position of the table among the inputs of an operator that reads rows of one."""


def lookup_in(format: RowFormat, type: str) -> str | None:
    """Return the operator that does on rows in a format what `type` does on rows of float32; None if there is none.

    >>> lookup_in(FOUR, "SparseLengthsMean"), lookup_in(FOUR, "Gather")
    ('SparseLengthsMeanFused4BitRowwise', None)
    """
    for quantized, row in lookups.rows.items():
        if row.rows.format is format and not row.rows.pruned and type == f"SparseLengths{row.reducer.name}":
            return quantized
    return None


def with_tables_in(
    bits: int, net: NetDef, tables: Mapping[str, NDArray[Any]]
) -> tuple[NetDef, dict[str, NDArray[Any]]]:
    """Return a net that reads its tables in so few bits, and these tables, by their new names `<name>_<bits>bit`.

    Args:
        bits: of a code: 8, 4 or 2; width of a table is a multiple of 8 / bits.
        net: predicts; it is left as it is.
        tables: by name, float32 (rows, width).

    Raises:
        ArgumentError: another number of bits.
        NetError: an operator reads a table in another way than by sums or means of its rows.
    """
    format = FORMATS.get(bits)
    if format is None:
        raise ArgumentError(f"{bits} bits", hint=f"rows can be kept in {', '.join(map(str, FORMATS))}")
    names = {name: f"{name}_{bits}bit" for name in tables}
    made = NetDef()
    made.CopyFrom(net)
    for op in made.op:
        for position in [n for n, name in enumerate(op.input) if name in names]:
            type = lookup_in(format, op.type) if position == TABLE else None
            if type is None:
                hint = "leave that table out of `tables`"
                raise NetError(f"{op.type} reads the table {op.input[position]!r}, not sums of its rows", hint=hint)
            op.type, op.input[position] = type, names[op.input[position]]
    made.external_input[:] = [names.get(name, name) for name in made.external_input]
    return made, {names[name]: format.encode(table) for name, table in tables.items()}
