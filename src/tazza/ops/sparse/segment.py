"""Segments of rows: where they begin, by their lengths, and which rows they take; what is wrong names its position."""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
from tazza.operator import Array, OpView


def starts_of(op: OpView, lengths: Array, rows: int, noun: str) -> Array:
    """Return where each of M segments begins among `rows` rows, and behind them where the last one ends: M + 1.

    Args:
        op: the operator, for messages.
        lengths: how many rows each takes, one behind the other.
        rows: how many there are; each belongs to a segment.
        noun: what the rows are, for messages.

    Raises:
        NumericError: a length is negative, reaches beyond the rows, or some rows are left.
    """
    starts = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    negative = lengths < 0
    if negative.any():
        m = int(negative.argmax())
        raise op.error(NumericError, f"LENGTHS[{m}] is {lengths[m]}, it cannot be negative", "an empty segment has 0")
    beyond = starts[1:] > rows
    if beyond.any():
        m = int(beyond.argmax())
        message = f"LENGTHS[{m}] = {lengths[m]} ends at {starts[m + 1]}, and there are {rows} {noun}"
        raise op.error(NumericError, message, f"the lengths must add up to the number of {noun}")
    if starts[-1] != rows:
        message = f"the {lengths.size} LENGTHS add up to {starts[-1]}, and there are {rows} {noun}"
        raise op.error(NumericError, message, f"the lengths must add up to the number of {noun}")
    return starts


def check_rows(op: OpView, indices: Array, rows: int, letter: str = "INDICES") -> None:
    """Check that every index is one of `rows` rows.

    Raises:
        NumericError: one is not.
    """
    wrong = (indices < 0) | (indices >= rows)
    if wrong.any():
        place = int(wrong.reshape(-1).argmax())
        message = f"{letter}[{place}] is {indices.reshape(-1)[place]}, not in [0, {rows})"
        raise op.error(NumericError, message, "indices count rows from 0")
