"""`tazza ops`: operators by family with the engines that have them, or all that is known of one of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tazza.cli.console import make_console, print_text
from tazza.errors import NotFoundError
from tazza.operator import ENGINES, find_schema
from tazza.operator.description import (
    ArgumentFacts,
    BlobFacts,
    Description,
    EngineFacts,
    describe,
    engines_of,
    families,
    family_doc,
)
from tazza.operator.schema import OpSchema
from tazza.runtime.near_names import did_you_mean

WIDTH = 8
"""Columns of the names of facts."""


def list_operators(*, family: str | None, engine: str | None, as_json: bool) -> None:
    """Print operator types with the engines that have a kernel, below their families; private ones are left out.

    Raises:
        NotFoundError: there is no such family or field, or no such engine.
    """
    if engine is not None:
        ENGINES[engine]
    chosen = families() if family is None else _of_family(family)
    listed = {name: rows for name, schemas in chosen.items() if (rows := list(_rows(schemas, engine)))}
    if as_json:
        found = [_entry(name, schema, engines) for name, rows in listed.items() for schema, engines in rows]
        print(json.dumps(found, indent=1))
        return
    print_text(make_console(), "\n".join(line for name, rows in listed.items() for line in _family(name, rows)))


def show_operator(type: str, *, as_json: bool = False) -> None:
    """Print what is declared of an operator type, and which engines have it.

    Raises:
        UnknownOperatorError: there is none of that name; the hint proposes near ones.
    """
    found = describe(find_schema(type))
    if as_json:
        print(json.dumps(dataclasses.asdict(found), indent=1))
    else:
        print_text(make_console(), "\n".join(_lines(found)))


def _of_family(name: str) -> dict[str, list[OpSchema]]:
    every = families()
    found = {each: schemas for each, schemas in every.items() if each == name or each.startswith(f"{name}.")}
    if not found:
        names = [*every, *dict.fromkeys(each.split(".")[0] for each in every)]
        near = did_you_mean(name, names)
        hint = "`tazza ops` lists all" if near is None else near
        raise NotFoundError(f"no family of operators is called {name!r}", hint=hint)
    return found


def _rows(schemas: Iterable[OpSchema], engine: str | None) -> Iterator[tuple[OpSchema, list[EngineFacts]]]:
    for schema in schemas:
        engines = list(engines_of(schema.type))
        if not schema.private and (engine is None or engine in [each.name for each in engines]):
            yield schema, engines


def _entry(family: str, schema: OpSchema, engines: Sequence[EngineFacts]) -> dict[str, Any]:
    return {
        "type": schema.type,
        "family": family,
        "doc": schema.doc.splitlines()[0],
        "engines": [each.name for each in engines],
        "unavailable": {each.name: each.unavailable for each in engines if each.unavailable is not None},
    }


def _family(name: str, rows: Sequence[tuple[OpSchema, Sequence[EngineFacts]]]) -> Iterator[str]:
    doc = family_doc(rows[0][0]).split("\n\n")[0]
    yield f"{name}  {' '.join(doc.split())}"
    width = max(len(schema.type) for schema, _ in rows)
    for schema, engines in rows:
        yield f"  {schema.type.ljust(width)}  {' '.join(map(_engine, engines))}"
    yield ""


def _engine(engine: EngineFacts) -> str:
    return engine.name if engine.unavailable is None else f"({engine.name})"


# -- one operator type -------------------------------------------------------------------------------------------------


def _lines(found: Description) -> Iterator[str]:
    yield from (found.type, "", *(f"  {line}".rstrip() for line in found.doc.splitlines()), "")
    yield from _block("inputs", map(_blob, found.inputs))
    yield from _block("outputs", map(_blob, found.outputs))
    yield from _block("relations", found.relations)
    yield from _block("arguments", map(_argument, found.arguments))
    told = [f"{one.error}: {one.message}" for one in found.complaints]
    yield from _block("errors", [f"{', '.join(found.refuses)}: what breaks the declaration above", *told])
    yield from (f"{name.ljust(WIDTH)}  {value}" for name, value in _facts(found) if value)


def _block(title: str, lines: Iterable[str]) -> Iterator[str]:
    listed = list(lines)
    if listed:
        yield from (title, *(f"  {line}" for line in listed), "")


def _blob(facts: BlobFacts) -> str:
    shape = "" if facts.shape is None else f"({facts.shape})"
    role = "" if facts.role in (None, "data") else facts.role
    return "  ".join(part for part in (facts.name, facts.kind, shape, role, *facts.marks, facts.doc) if part)


def _argument(facts: ArgumentFacts) -> str:
    default = "required" if facts.required else f"= {facts.default}"
    return "  ".join(part for part in (facts.name, " or ".join(facts.types), default, *facts.range, facts.doc) if part)


def _facts(found: Description) -> Iterator[tuple[str, str]]:
    reason = f": {found.gradient_reason}" if found.gradient_reason else ""
    yield "gradient", found.gradient if not reason else f"none ({found.gradient}){reason}"
    yield "private", "other operators make it, nobody else" if found.private else ""
    free = "; ".join(f"{letter} on {' or '.join(places)}" for letter, places in found.in_place.items())
    must = "; ".join(f"always {letter} on {' or '.join(places)}" for letter, places in found.must_in_place.items())
    yield "in place", "; ".join(part for part in (free, must) if part)
    yield "effects", found.effects
    yield "training", found.training
    reasons = [f" ({each.name}: {each.unavailable})" for each in found.engines if each.unavailable is not None]
    yield "engines", ", ".join(each.name for each in found.engines) + "".join(reasons)
    yield "source", found.source
    yield "family", found.module
    yield "example", f"\n{' ' * (WIDTH + 2)}".join(found.example.splitlines())
