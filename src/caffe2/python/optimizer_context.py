"""The optimizers that parameters get when they are made."""

from __future__ import annotations

from typing import Any

from caffe2.python.modifier_context import DEFAULT_MODIFIER, ModifierContext, UseModifierBase

DEFAULT_OPTIM = DEFAULT_MODIFIER


class OptimizerContext(ModifierContext):
    """The optimizers in force."""

    def has_optimizer(self, name: str) -> bool:
        """Whether there is one of a name."""
        return self._has_modifier(name)

    def get_optimizer(self, name: str) -> Any:
        """Return the one of a name."""
        assert self.has_optimizer(name), f"{name} optimizer is not provided!"
        return self._get_modifier(name)


class UseOptimizer(UseModifierBase):
    """`with UseOptimizer(one): ...`: parameters made inside get it."""

    def _context_class(self) -> type[OptimizerContext]:
        return OptimizerContext
