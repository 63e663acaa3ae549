"""Products of rows with weights: how long a row is, and what the weights begin with."""

from __future__ import annotations

import math
from typing import Any

from caffe2.python import schema


def row_extents(record: Any, axis: int) -> tuple[tuple[int, ...], int]:
    """Return the extents of a column's elements before `axis`, and how many elements a row has from it on."""
    assert isinstance(record, schema.Scalar), f"Incorrect input type {record}"
    shape = record.field_types()[0].shape
    assert len(shape) > 0, f"FC expects limited dimensions of the input tensor, not {record}"
    assert axis >= 1, f"axis {axis} should >= 1."
    inputs = math.prod(shape[axis - 1 :])
    assert inputs > 0, f"FC expects input dimensions > 0, got {shape}"
    return tuple(shape[: axis - 1]), inputs


def drawn_weights(inputs: int, numerator: float = 1.0) -> tuple[str, dict[str, float]]:
    """Return the operator that fills weights, and its arguments: from +-sqrt(numerator / inputs)."""
    scale = math.sqrt(numerator / inputs)
    return "UniformFill", {"min": -scale, "max": scale}
