"""`tazza flags`: every flag of the process, with what it takes, its value and where that comes from."""

from __future__ import annotations

from rich.table import Table

from tazza.cli.console import make_console
from tazza.runtime.flags import all_flags


def show_flags() -> None:
    """Print a table of all flags; `tazza --flag NAME=VALUE ...` and the environment variable `TAZZA_<NAME>` set one."""
    table = Table(box=None, title_justify="left", title_style="bold")
    for title in ("flag", "takes", "value", "from"):
        table.add_column(title, no_wrap=True)
    table.add_column("meaning", overflow="fold")
    for one in all_flags():
        name = one.name if one.alias is None else f"{one.name}, {one.alias}"
        table.add_row(name, one.takes(), repr(one.value), one.source, one.help)
    make_console().print(table, highlight=False, markup=False)
