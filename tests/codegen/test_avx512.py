"""Instructions of AVX-512 in vectors of one register and of several."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import avx512
from tazza.codegen.kernel import OWN, unavailable
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.runtime.native_code import processor
from tazza.tensor import DataType
from tests.launching import pointer_at

pytestmark = [
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
    pytest.mark.skipif(processor().vector_bytes < 64, reason="the processor has no AVX-512"),
]

Array = NDArray[Any]
TABLE = tuple(0.5 * k for k in range(16))
CASES: dict[str, tuple[Callable[[Term], Term], Callable[[Array], Array]]] = {
    "scaled": (lambda x: avx512.scaled(x.like(3.0), x), lambda x: np.ldexp(np.float32(3), x.astype(int))),
    "exponent": (avx512.exponent, lambda x: np.floor(np.log2(x))),
    "mantissa": (avx512.mantissa, lambda x: x / 2 ** np.floor(np.log2(x / np.float32(0.75)))),
    "reciprocal": (avx512.reciprocal, lambda x: 1 / x),
    "chosen": (lambda x: avx512.chosen(TABLE, x.as_bits()), lambda x: x.view(np.int32) % 16 / 2),
}


@pytest.mark.parametrize("count", [16, 64])
@pytest.mark.parametrize("name", CASES)
def test_instruction(name: str, count: int) -> None:
    function, wanted = CASES[name]

    def work(lines: Lines) -> None:
        v = Vector(lines, count)
        given = v.load(pointer_at(lines, 1), 0, None)
        assert avx512.fits(given)
        v.store(function(given), pointer_at(lines, 2), 0, None)

    x = np.arange(1, count + 1, dtype=np.float32)
    y = np.empty_like(x)
    block = np.array([1, x.ctypes.data, y.ctypes.data], np.int64)
    ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(OWN.compiled(f"{name} of {count}", work))(block.ctypes.data, 0, 0, 0)
    np.testing.assert_allclose(y, wanted(x), rtol=1e-7)


def test_other_vectors_do_not_fit() -> None:
    others = Vector(Lines(), 8), Vector(Lines(), 24), Vector(Lines(), 16, DataType.DOUBLE)
    assert not any(avx512.fits(v.constant(1)) for v in others)
