"""Numbers of 16 bits: the bits by hand, and the gradient, which is the other operator."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.operator import HALVES as HALF_TYPES
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.ops.quantized.half import conversions, narrowing_to
from tazza.tensor import DataType
from tests.check import Case, check_op, on_all_engines

NUMBERS = np.array([[1.0, -2.0, 65504.0], [65520.0, 2.0**-24, 1.00048828125]], np.float32)
BITS = np.array([[0x3C00, 0xC000, 0x7BFF], [0x7C00, 0x0001, 0x3C00]], np.uint16)
HALVES = BITS.view(np.float16)
WIDE = np.array([[1, -2, 65504], [np.inf, 2.0**-24, 1]], np.float32)
BRAIN_NUMBERS = np.array([[1.0, -2.0, 3.4e38], [1 + 2.0**-8, 1 + 3 * 2.0**-8, 2.0**-133]], np.float32)
BRAIN_BITS = np.array([[0x3F80, 0xC000, 0x7F80], [0x3F80, 0x3F82, 0x0001]], np.uint16)
BRAIN = BRAIN_BITS.view(DataType.BFLOAT16.numpy)
BRAIN_WIDE = np.array([[1, -2, np.inf], [1, 1 + 2.0**-6, 2.0**-133]], np.float32)
CASES = [
    # Sums of differences in float64 do not see half precision: the gradient is tested below.
    Case("FloatToHalf", (NUMBERS,), HALVES, batched=(0,), gradient=False),
    Case("HalfToFloat", (HALVES,), WIDE, batched=(0,), gradient=False),
    Case("FloatToBFloat16", (BRAIN_NUMBERS,), BRAIN, batched=(0,), gradient=False),
    Case("BFloat16ToFloat", (BRAIN,), BRAIN_WIDE, batched=(0,), gradient=False),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("dtype", sorted(HALF_TYPES, key=str), ids=str)
def test_there_and_back(dtype: DataType) -> None:
    narrow, widen = narrowing_to(dtype)
    bits = np.arange(2**16, dtype=np.uint16)
    every = bits.view(dtype.numpy)
    wide = run_op(widen, every)
    back = run_op(narrow, wide)
    same = (back.view(np.uint16) == bits) | np.isnan(wide)
    assert same.all()


def test_the_gradient_is_the_other_one() -> None:
    for type, row in conversions.rows.items():
        other = row.back
        view = find_schema(type).view(operator_def(type, ["x"], ["y"]))
        (emitted,), names = gradient_for_op(view, ["y_grad"])
        assert (emitted.type, list(emitted.input), names) == (other, ["y_grad"], ["x_grad"])
