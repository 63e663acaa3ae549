"""What the losses of a detector share: the number that their sums are divided by, and the label that counts nothing."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Role, blob

IGNORED = -1
"""The label of a place that counts nothing."""

NORMALIZER = blob("normalizer", FLOAT, role=Role.DATA, doc="one element: what the sum is divided by, at least 1")
D_LOSS = blob("dloss", FLOAT, role=Role.DATA, doc="one element")


def divisor(normalizer: Array) -> Array:
    """Return what a sum is divided by, of rank 0; of a normalizer that is no number 1."""
    return np.fmax(normalizer.reshape(()), 1)
