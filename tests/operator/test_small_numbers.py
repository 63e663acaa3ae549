"""Numbers smaller than normal ones: an operator gives what it gives for them, or for 0 of their sign."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import TazzaError
from tazza.operator import SCHEMAS, Effects, run_op
from tests.check import engines_of

Array = NDArray[Any]
SIGN = np.uint32(1 << 31)
BITS = np.array([1, 1 + SIGN, 900, 900 + SIGN] * 8, np.uint32)
"""Made of bits, since operations on what is so small may flush it too."""


def is_small(x: Array) -> Array:
    """Return where numbers are 0, or smaller than normal ones, by their bits."""
    return x.view(np.uint32) << 1 < 1 << 24 if x.dtype == np.float32 else np.zeros(x.shape, bool)


def unary() -> list[str]:
    """Return the operators of one tensor that native code computes from it alone, and that keep its shape."""
    found: list[str] = []
    for type in sorted(SCHEMAS.keys()):
        schema = SCHEMAS[type]
        if (
            schema.effects == Effects.PURE
            and len(schema.inputs) == 1 == len(schema.outputs)
            and "native" in engines_of(type)
        ):
            try:
                if run_op(type, np.ones(3, np.float32)).shape == (3,):
                    found.append(type)
            except (TazzaError, AttributeError):
                continue  # of other tensors
    return found


@pytest.mark.slow
def test_they_count_as_they_are_or_as_zero() -> None:
    types, wrong = unary(), list[str]()
    assert {"Sign", "Abs", "Sqrt", "Exp"} <= set(types)
    for type in types:
        with np.errstate(all="ignore"):
            found = run_op(type, BITS.view(np.float32), engine="native")
            told = [run_op(type, bits.view(np.float32), engine="reference") for bits in (BITS, BITS & SIGN)]
        fits = [
            np.isclose(found, one, rtol=1e-5, atol=0, equal_nan=True) & (is_small(found) == is_small(one))
            | (is_small(found) & is_small(one))
            for one in told
        ]
        if not (fits[0] | fits[1]).all():
            wrong.append(f"{type}: {found[:2]}, {told[0][:2]} or {told[1][:2]}")
    assert wrong == []


@pytest.mark.parametrize("engine", engines_of("Sign"))
def test_the_sign_of_one_is_a_sign(engine: str) -> None:
    signs = run_op("Sign", BITS.view(np.float32), engine=engine)
    assert set(np.abs(signs).tolist()) <= {0.0, 1.0}
