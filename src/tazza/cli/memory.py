"""`tazza doctor --memory`: every cache with its bound, and the compiled code on disk."""

from __future__ import annotations

import importlib
import pkgutil

from rich.console import Console
from rich.table import Table

import tazza
from tazza.cli.console import make_console
from tazza.runtime.cache import CacheStatistics, statistics
from tazza.runtime.native_code import cache_folder

COLUMNS = ("cache", "caches", "entries", "at most", "bytes", "at most", "hits", "misses", "evictions")


def show_memory() -> None:
    """Print caches by name. Bounds are those of each; bytes are shown where the cache counts them."""
    declare_all()
    console = make_console()
    _print(console, statistics())
    folder = cache_folder()
    if folder is not None:
        console.print(f"compiled code on disk: {len(list(folder.glob('*.o')))} functions in {folder}", soft_wrap=True)


def declare_all() -> None:
    """Import all modules of tazza, since a cache is declared where it is used."""
    for found in pkgutil.walk_packages(tazza.__path__, "tazza."):
        importlib.import_module(found.name)


def _print(console: Console, rows: list[CacheStatistics]) -> None:
    table = Table(box=None)
    for number, title in enumerate(COLUMNS):
        table.add_column(title, justify="right" if number else "left", overflow="fold")
    for one in rows:
        counted = one.bound_bytes is not None or one.nbytes > 0
        nbytes = str(one.nbytes) if counted else "-"
        most = "-" if one.bound_bytes is None else str(one.bound_bytes)
        counts = map(str, (one.hits, one.misses, one.evictions))
        table.add_row(one.name, str(one.caches), str(one.held), str(one.bound), nbytes, most, *counts)
    console.print(table, highlight=False, markup=False)
