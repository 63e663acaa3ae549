"""Scopes of what acts on parameters: optimizers, regularizers, normalizers, each under a name."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from caffe2.python import context

DEFAULT_MODIFIER = "DEFAULT"


class ModifierContext(context.DefaultManaged):
    """What is in force: the innermost of each name."""

    def __init__(self) -> None:
        """Begin with none."""
        self._modifiers: Mapping[str, Any] = {}
        self._modifiers_list: list[Mapping[str, Any]] = []

    def _rebuild_modifiers(self) -> None:
        self._modifiers = dict(ChainMap(*map(dict, reversed(self._modifiers_list))))

    def _has_modifier(self, name: str) -> bool:
        return name in self._modifiers

    def _get_modifier(self, name: str) -> Any:
        return self._modifiers.get(name)

    def push_modifiers(self, modifiers: Mapping[str, Any]) -> None:
        """Let these be in force too, before those of the same names."""
        self._modifiers_list.append(modifiers)
        self._rebuild_modifiers()

    def pop_modifiers(self) -> None:
        """Take back the last ones."""
        assert len(self._modifiers_list) > 0
        self._modifiers_list.pop()
        self._rebuild_modifiers()


class UseModifierBase:
    """`with UseOptimizer(one): ...`, or with a map from names to several."""

    def __init__(self, modifier_or_dict: Any) -> None:
        """Take one, which is the default, or a map."""
        given = modifier_or_dict
        self._modifiers: Mapping[str, Any] = given if isinstance(given, dict) else {DEFAULT_MODIFIER: given}  # pyright: ignore[reportUnknownMemberType] -- of anything

    def _context_class(self) -> Any:
        raise NotImplementedError

    def __enter__(self) -> UseModifierBase:
        self._context_class().current().push_modifiers(self._modifiers)
        return self

    def __exit__(self, *error: object) -> None:
        self._context_class().current().pop_modifiers()
