"""Half precision: the bits by hand, and the gradient, which is the other operator."""

from __future__ import annotations

import numpy as np

from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

NUMBERS = np.array([[1.0, -2.0, 65504.0], [65520.0, 2.0**-24, 1.00048828125]], np.float32)
BITS = np.array([[0x3C00, 0xC000, 0x7BFF], [0x7C00, 0x0001, 0x3C00]], np.uint16)
HALVES = BITS.view(np.float16)
WIDE = np.array([[1, -2, 65504], [np.inf, 2.0**-24, 1]], np.float32)
CASES = [
    # Sums of differences in float64 do not see half precision: the gradient is tested below.
    Case("FloatToHalf", (NUMBERS,), HALVES, batched=(0,), gradient=False),
    Case("HalfToFloat", (HALVES,), WIDE, batched=(0,), gradient=False),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_there_and_back() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    every = bits.view(np.float16)
    back = run_op("FloatToHalf", run_op("HalfToFloat", every))
    same = (back.view(np.uint16) == bits) | np.isnan(every)
    assert same.all()


def test_the_gradient_is_the_other_one() -> None:
    for type, other in (("FloatToHalf", "HalfToFloat"), ("HalfToFloat", "FloatToHalf")):
        view = find_schema(type).view(operator_def(type, ["x"], ["y"]))
        (emitted,), names = gradient_for_op(view, ["y_grad"])
        assert (emitted.type, list(emitted.input), names) == (other, ["y_grad"], ["x_grad"])
