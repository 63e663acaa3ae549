"""The regularizers that parameters get when they are made."""

from __future__ import annotations

from typing import Any

from caffe2.python.modifier_context import ModifierContext, UseModifierBase


class RegularizerContext(ModifierContext):
    """The regularizers in force."""

    def has_regularizer(self, name: str) -> bool:
        """Whether there is one of a name."""
        return self._has_modifier(name)

    def get_regularizer(self, name: str) -> Any:
        """Return the one of a name."""
        assert self.has_regularizer(name), f"{name} regularizer is not provided!"
        return self._get_modifier(name)


class UseRegularizer(UseModifierBase):
    """`with UseRegularizer(one): ...`: parameters made inside get it."""

    def _context_class(self) -> type[RegularizerContext]:
        return RegularizerContext
