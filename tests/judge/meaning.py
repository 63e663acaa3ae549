"""What the integers of drawn inputs stand for: one scale, or one for each channel where the schema takes that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from tazza.operator import PLAIN, OpSchema
from tazza.tensor import PerChannel, PerTensor
from tazza.testing.value import STEPS
from tests.judge.hand import Array, Hand

Meaning: TypeAlias = PerTensor | PerChannel
POINTS = (0, 128, 128, 77)
"""Zero points; filters of 128 are those that engines take."""


def has_meaning(schema: OpSchema) -> bool:
    """Whether integers with a scale go into an operator, or come out of it."""
    return any(one.quantization != PLAIN for one in (*schema.inputs, *schema.outputs))


def meanings(hand: Hand, schema: OpSchema, inputs: Mapping[str, Array]) -> dict[str, Meaning]:
    """Return a quantization for each input that must have one; int32 behind two is in units of their products."""
    found: dict[str, Meaning] = {}
    for name, array in inputs.items():
        letter = name if name in schema.inputs_by_letter else name.rpartition("_")[0]  # X_0 of a variadic X
        declared = schema.inputs_by_letter.get(letter)
        if declared is None or declared.quantization == PLAIN or array.dtype == np.float32:
            continue
        before = list(found.values())
        if array.dtype == np.int32:
            found[name] = _of_products(*before[:2]) if len(before) > 1 else PerTensor(hand.real(0.0001, 0.01))
        elif PerChannel in declared.quantization and array.ndim > 1 and len(array) and hand.chance(0.5):
            scales = tuple(hand.real(0.01, 0.05) for _ in range(len(array)))
            found[name] = PerChannel(0, scales, (128,) * len(array))
        else:
            found[name] = PerTensor(hand.real(0.01, 0.1), hand.pick(POINTS))
    return found


def _of_products(X: Meaning, W: Meaning) -> Meaning:
    assert isinstance(X, PerTensor), "only filters have several scales"
    if isinstance(W, PerTensor):
        return PerTensor(X.scale * W.scale)
    return PerChannel(0, tuple(X.scale * scale for scale in W.scales), (0,) * len(W.scales))


def steps_of(schema: OpSchema) -> int:
    """Return how far apart integers may be that an operator gives."""
    return STEPS if has_meaning(schema) else 0
