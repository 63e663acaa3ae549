"""`tazza flags`: every flag of the process, with what it takes, its value and where that comes from."""

from __future__ import annotations

from tazza.cli.console import make_console
from tazza.cli.table import Column, Row, print_table
from tazza.runtime.flags import all_flags

COLUMNS = (Column("flag"), Column("value"), Column("from"), Column("takes", below=True), Column("meaning", below=True))
SET = "bold"
"""Style of flags that somebody set."""


def show_flags() -> None:
    """Print a table of all flags; `tazza --flag NAME=VALUE ...` and the environment variable `TAZZA_<NAME>` set one."""
    rows: list[Row] = []
    for one in all_flags():
        name = one.name if one.alias is None else f"{one.name}, {one.alias}"
        rows.append(Row((name, repr(one.value), one.source, one.takes(), one.help), SET if one.given else ""))
    print_table(make_console(), COLUMNS, rows)
