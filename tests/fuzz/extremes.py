"""Values at the edges of what types can hold, and names that nobody expects."""

from __future__ import annotations

import math
from random import Random
from typing import Any

INTS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    255,
    256,
    2**15,
    2**16,
    2**24,
    2**30,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**62,
    2**63 - 1,
    -2,
    -(2**31),
    -(2**31) - 1,
    -(2**63),
)
FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-45, 1e-38, 3.4e38, -3.4e38, 1e10, math.inf, -math.inf, math.nan)
TEXTS = (
    "",
    "x",
    "\0",
    "a\0b",
    "ü",
    "\u202e",
    "x" * 3000,
    "NCHW",
    "NHWC",
    "nchw",
    "%s%n%d",
    "{}",
    "{0}",
    "[bold]",
    "[/x]",
    "a#%0",
    "CUDNN",
    "gemm,onednn,",
    "../trap/x",
    "in/side",
    ".",
    "..",
    "minidb",
    "lmdb",
    "mean",
    "sum",
    "linear",
    "\n",
    " ",
    "-1",
    "nan",
)
SMALL = (0, 1, 2, 3, 4, 5, 7)


def integer(draw: Random) -> int:
    """Draw a whole number: small ones half of the time."""
    return draw.choice(SMALL) if draw.random() < 0.5 else draw.choice(INTS)


def real(draw: Random) -> float:
    """Draw a number."""
    return draw.choice(FLOATS) if draw.random() < 0.6 else draw.uniform(-3, 3)


def text(draw: Random) -> str:
    """Draw a text."""
    return draw.choice(TEXTS)


def several(draw: Random, one: Any) -> list[Any]:
    """Draw a list of what `one` draws: empty, short, rarely long."""
    length = draw.choice((0, 1, 1, 2, 2, 3, 4, 5, 8)) if draw.random() < 0.97 else 3000
    if length > 10:
        return [one(draw)] * length
    return [one(draw) for _ in range(length)]
