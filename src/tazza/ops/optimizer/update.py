"""What holds for every update of parameters."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import FLOAT, OpView, Role, Spec, blob, forbidden
from tazza.tensor import DataType

NO_GRADIENT = forbidden("an update of parameters is no function of the net")

LR = blob("lr", FLOAT, role=Role.PARAMETER, doc="of one element, negative to descend")
"""The learning rate of updates that add."""


def complement(share: float) -> float:
    """Return 1 - share as Caffe2 has it: of numbers of float32, in float32.

    >>> complement(0.999)
    0.0009999871253967285
    """
    return float(np.float32(1) - np.float32(share))


def one_rate(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    """Say how operands lie under a formula: the learning rate is one number, whatever its rank."""
    del op, specs
    return {"lr": ()}


ITER = blob("iter", DataType.INT64, host=True, role=Role.STATE, doc="of one element: steps before this one")
