"""`tazza doctor --memory`: every cache with its bound, and the compiled code on disk."""

from __future__ import annotations

import importlib
import pkgutil

from rich.console import Console

import tazza
from tazza.cli.console import make_console, print_text
from tazza.cli.table import Column, Row, print_table
from tazza.runtime.cache import CacheStatistics, statistics
from tazza.runtime.files import status_of
from tazza.runtime.native_code import cache_folder
from tazza.runtime.units import size

COLUMNS = (
    Column("cache"),
    Column("entries", number=True),
    Column("at most", number=True),
    Column("bytes", number=True),
    Column("at most", number=True),
    Column("hits", number=True),
    Column("misses", number=True),
    Column("evictions", number=True),
)


def show_memory() -> None:
    """Print caches by name. Bounds are those of each; bytes are shown where the cache counts them."""
    declare_all()
    console = make_console()
    _print(console, statistics())
    folder = cache_folder()
    if folder is not None:
        files = [status_of(path).st_size for path in folder.glob("*.o")]
        print_text(console, f"compiled code on disk: {len(files):,} functions, {size(sum(files))}, in {folder}")


def declare_all() -> None:
    """Import all modules of tazza, since a cache is declared where it is used."""
    for found in pkgutil.walk_packages(tazza.__path__, "tazza."):
        importlib.import_module(found.name)


def _print(console: Console, rows: list[CacheStatistics]) -> None:
    print_table(console, COLUMNS, [Row(_cells(one)) for one in rows])


def _cells(one: CacheStatistics) -> tuple[str, ...]:
    """Return the cells of a cache; of several of one name it says how many there are."""
    name = one.name if one.caches == 1 else f"{one.name} ({one.caches:,} of them)"
    counted = one.bound_bytes is not None or one.nbytes > 0
    nbytes, most = size(one.nbytes) if counted else "", "" if one.bound_bytes is None else size(one.bound_bytes)
    return (name, *(f"{count:,}" for count in (one.held, one.bound)), nbytes, most, *_counts(one))


def _counts(one: CacheStatistics) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in (one.hits, one.misses, one.evictions))
