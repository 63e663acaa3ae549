"""Instructions of AVX-512 in vectors of one register and of several."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import avx512
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.kernel import OWN, unavailable
from tazza.runtime.native_code import processor
from tazza.tensor import DataType

pytestmark = [
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
    pytest.mark.skipif(processor().vector_bytes < 64, reason="the processor has no AVX-512"),
]

Array = NDArray[Any]
TABLE = tuple(0.5 * k for k in range(16))
CASES: dict[str, tuple[Callable[[Vector, str], str], Callable[[Array], Array]]] = {
    "scaled": (lambda v, x: avx512.scaled(v, v.constant(3.0), x), lambda x: np.ldexp(np.float32(3), x.astype(int))),
    "exponent": (avx512.exponent, lambda x: np.floor(np.log2(x))),
    "mantissa": (avx512.mantissa, lambda x: x / 2 ** np.floor(np.log2(x / np.float32(0.75)))),
    "reciprocal": (avx512.reciprocal, lambda x: 1 / x),
    "chosen": (lambda v, x: avx512.chosen(v, TABLE, v.bits_of(x)), lambda x: x.view(np.int32) % 16 / 2),
}


@pytest.mark.parametrize("count", [16, 64])
@pytest.mark.parametrize("name", CASES)
def test_instruction(name: str, count: int) -> None:
    function, wanted = CASES[name]

    def work(lines: Lines) -> None:
        v = Vector(lines, count)
        assert avx512.fits(v)
        given = v.load(lines.load_pointer("%block", 1), "0", None)
        v.store(function(v, given), lines.load_pointer("%block", 2), "0", None)

    x = np.arange(1, count + 1, dtype=np.float32)
    y = np.empty_like(x)
    block = np.array([1, x.ctypes.data, y.ctypes.data], np.int64)
    ctypes.CFUNCTYPE(*[ctypes.c_int64] * 5)(OWN.compiled(f"{name} of {count}", work))(block.ctypes.data, 0, 0, 0)
    np.testing.assert_allclose(y, wanted(x), rtol=1e-7)


def test_other_vectors_do_not_fit() -> None:
    assert not any(
        avx512.fits(v) for v in (Vector(Lines(), 8), Vector(Lines(), 24), Vector(Lines(), 16, DataType.DOUBLE))
    )
