"""Constants of modules and classes are those of the genuine Caffe2, which `tools/record_values.py` has recorded."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tools.record_values import values

PREFIX = "caffe2.python."
RECORDED: dict[str, dict[str, dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "caffe2_values.json").read_text(encoding="utf-8")
)
OTHER = {
    "nomnigraph..PIPE": "of Python's own `subprocess`",
}
"""`module.class.name` (no class for what a module holds) -> why it is not there, or not the same."""


def unlike(module: str) -> dict[str, tuple[Any, Any]]:
    """Return by path what a module has otherwise: what it has, and what was recorded."""
    imported = import_module(module)
    ours: Any = vars(imported).get("wrapped", imported)
    found: dict[str, tuple[Any, Any]] = {}
    for owner, recorded in RECORDED[module].items():
        holder = getattr(ours, owner) if owner else ours
        for name, wanted in recorded.items():
            given = values({name: getattr(holder, name, NotImplemented)}).get(name, "no such value")
            if given != wanted:
                found[f"{module.removeprefix(PREFIX)}.{owner}.{name}"] = (given, wanted)
    return found


@pytest.mark.parametrize("module", RECORDED)
def test_values_are_those_of_caffe2(module: str) -> None:
    other = {path for path in OTHER if path.startswith(f"{module.removeprefix(PREFIX)}..")}
    found = unlike(module)
    assert {path: pair for path, pair in found.items() if path not in other} == {}
    assert other <= found.keys(), "it is the same now"
