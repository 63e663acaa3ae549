"""What holds for every update of parameters."""

from __future__ import annotations

from tazza.operator import FLOAT, Role, blob, forbidden
from tazza.tensor import DataType

NO_GRADIENT = forbidden("an update of parameters is no function of the net")

LR = blob("lr", FLOAT, role=Role.PARAMETER, doc="of one element, negative to descend")
"""The learning rate of updates that add."""

ITER = blob("iter", DataType.INT64, host=True, role=Role.STATE, doc="of one element: steps before this one")
