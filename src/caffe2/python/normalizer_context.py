"""The normalizers that parameters get when they are made."""

from __future__ import annotations

from typing import Any

from caffe2.python.modifier_context import ModifierContext, UseModifierBase


class NormalizerContext(ModifierContext):
    """The normalizers in force."""

    def has_normalizer(self, name: str) -> bool:
        """Whether there is one of a name."""
        return self._has_modifier(name)

    def get_normalizer(self, name: str) -> Any:
        """Return the one of a name."""
        assert self.has_normalizer(name), f"{name} normalizer is not provided!"
        return self._get_modifier(name)


class UseNormalizer(UseModifierBase):
    """`with UseNormalizer(one): ...`: parameters made inside get it."""

    def _context_class(self) -> type[NormalizerContext]:
        return NormalizerContext
