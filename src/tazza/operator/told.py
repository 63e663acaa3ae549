"""Values of outputs that follow from the shapes of inputs: extents that an operator tells.

Who compiles operators together knows these before anything runs, and so the shapes of what is cut or reshaped by them.

    tells(RESHAPE, lambda op, specs: {"old_shape": specs["X"].dims})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from tazza.operator.kernel import Array
from tazza.operator.schema import OpSchema, Spec
from tazza.operator.view import OpView
from tazza.tensor import TensorSpec

Values: TypeAlias = "Mapping[str, Sequence[int]]"
Rule: TypeAlias = "Callable[[OpView, Sequence[TensorSpec]], Values]"
"""Returns by letter what outputs hold, of inputs of shapes that are known."""

TOLD: dict[str, Rule] = {}
"""Of each operator type that tells something, the rule."""


def tells(schema: OpSchema, rule: Rule) -> None:
    """State which values of outputs follow from the specs of all inputs, in their order."""
    TOLD[schema.type] = rule


def told_by(op: OpView, inputs: Sequence[Spec], outputs: Sequence[TensorSpec]) -> dict[str, Array]:
    """Return by the names of blobs what outputs hold whatever the inputs do."""
    rule = TOLD.get(op.type)
    if rule is None:
        return {}
    found = rule(op, cast("Sequence[TensorSpec]", inputs))
    names = zip(op.output_letters, op.definition.output, outputs, strict=True)
    return {name: np.array(found[letter], spec.dtype.numpy) for letter, name, spec in names if letter in found}
