"""References made from the code: flags from their registry, commands from their own help, names from their packages."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import typer

from tazza.cli.app import app
from tazza.runtime.flag_index import index
from tazza.runtime.flags import FLAGS
from tazza.tensor.names import homes

FOLDER = "reference"
WHOLE = ("tazza", "tazza.models")
"""Packages whose modules have pages too."""


def reference_pages() -> dict[str, str]:
    """Return the pages by path on the site."""
    made = {f"{FOLDER}/flags.md": flags_page(), f"{FOLDER}/commands.md": commands_page()}
    return made | {f"{FOLDER}/{name}.md": module_page(name) for name in modules()}


def cell(text: str) -> str:
    """Return a text as it may stand in a table.

    >>> cell("<a> | b")
    '&lt;a> &#124; b'
    """
    return " ".join(text.replace("|", "&#124;").replace("<", "&lt;").split())


def table(heads: tuple[str, ...], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table, with a blank one behind."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def flags_page() -> str:
    """Return the page of flags: what each takes, its default, its meaning."""
    rows = [
        (
            f"`{one.name}`" if one.alias is None else f"`{one.name}`, `{one.alias}`",
            cell(one.takes()),
            f"`{one.default!r}`",
            f"`{one.variable}`",
            cell(one.help),
        )
        for one in (FLAGS[name] for name in sorted(index()["flags"]))
    ]
    lines = [
        "# Flags\n",
        "Made from the registry of flags. `tazza --flag NAME=VALUE COMMAND`, the variable of the environment or",
        "`tazza.global_init` set one; `tazza flags` shows the values in force, and where they come from.\n",
        *table(("flag", "takes", "default", "variable", "meaning"), rows),
    ]
    return "\n".join(lines)


def commands_page() -> str:
    """Return the page of commands: of each what it does, its words, arguments and options."""
    root: Any = typer.main.get_command(app)
    lines = ["# Commands\n", "Made from the help of the commands, which `--help` behind any of them prints too.\n"]
    for name, command in [("tazza", root), *leaves(root, "tazza")]:
        lines += [f"## {name}\n", *(line.strip() for line in (command.help or "").splitlines()), ""]
        context = command.make_context(name, [], resilient_parsing=True)
        lines += [f"    {' '.join([name, *command.collect_usage_pieces(context)])}\n"]
        records = [each.get_help_record(context) for each in command.params]
        rows = [(f"`{words}`", cell(meaning)) for words, meaning in filter(None, records)]
        lines += table(("argument or option", "meaning"), rows)
    return "\n".join(lines)


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield each command with its words, those of a group behind it."""
    for word, inner in command.commands.items():
        yield f"{name} {word}", inner
        if hasattr(inner, "commands"):
            yield from leaves(inner, f"{name} {word}")


def modules() -> list[str]:
    """Return the modules whose names are for everybody: packages that say so by `__all__`, and all of `WHOLE`."""
    root = importlib.import_module("tazza")
    found = ["tazza"]
    for each in pkgutil.walk_packages(root.__path__, "tazza."):
        last = each.name.rpartition(".")[2]
        whole = each.name.rpartition(".")[0] in WHOLE and not each.ispkg and not last.startswith("_")
        if whole or (each.ispkg and _declared(each.name)):
            found.append(each.name)
    return found


def _declared(name: str) -> bool:
    return hasattr(importlib.import_module(name), "__all__")


def names(module: str) -> list[str]:
    """Return where each public name of a module can be read, whole: those that it lends are where it says.

    >>> "tazza.array.elementwise.abs" in names("tazza.array"), "tazza.db.Cursor" in names("tazza.db")
    (True, True)
    """
    found = importlib.import_module(module)
    if module == "tazza.array":
        return [f"tazza.{home}.{name}" for name, home in sorted(homes().items()) if not home.endswith(f".{name}")]
    declared = getattr(found, "__all__", None)
    own = (
        declared if declared is not None else [name for name, value in vars(found).items() if _own(found, name, value)]
    )
    return [f"{module}.{name}" for name in sorted(own, key=str.lower)]


def _own(module: ModuleType, name: str, value: object) -> bool:
    return not name.startswith("_") and getattr(value, "__module__", None) == module.__name__


def module_page(name: str) -> str:
    """Return the page of a module: its own words, then each of its names by a directive of mkdocstrings.

    What no statement of a source binds (names that a loop makes) cannot be read there: these stand in a table.
    """
    lines = [f"# {name}\n", f"::: {name}", "    options:", "      members: false", "      show_root_heading: false\n"]
    rows: list[tuple[str, str, str]] = []
    for path in names(name):
        home, _, last = path.rpartition(".")
        if last in bound(home):
            lines += [f"::: {path}\n"]
        else:
            value = getattr(importlib.import_module(home), last)
            told = (getattr(value, "__doc__", None) or "").strip().partition("\n")[0]
            rows.append((f"`{last}`", f"`{type(value).__name__}`", cell(told)))
    return "\n".join([*lines, *(table(("name", "is", "what"), rows) if rows else [])])


@cache
def bound(module: str) -> set[str]:
    """Return the names that statements of a module's source bind, those for type checkers included."""
    path = importlib.import_module(module).__file__
    assert path is not None
    found: set[str] = set()
    left = list(ast.parse(Path(path).read_text(encoding="utf-8")).body)
    while left:
        match left.pop():
            case ast.If(body=body):
                left += body
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Import(names=several) | ast.ImportFrom(names=several):
                found |= {each.name if each.asname is None else each.asname for each in several}
            case ast.Assign(targets=targets):
                found |= {each.id for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    return found
