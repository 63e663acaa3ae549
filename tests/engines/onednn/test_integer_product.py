"""Products of bytes by oneDNN: what saturates elsewhere, and what a processor without VNNI is not asked."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.array.quantized import INTEGER_PRODUCTS, QTensor, integer_matmul
from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import ProductTask
from tazza.engines.onednn import integer_product
from tazza.engines.onednn.library import unavailable
from tazza.runtime.native_code import Processor
from tazza.tensor.offer import Unsupported

REASON = unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))
WITHOUT_VNNI = Processor("a processor", "+avx2,+avx512f,+avx512bw")


def refusal(a: np.ndarray | QTensor, b: np.ndarray | QTensor) -> str | None:
    answer = INTEGER_PRODUCTS.ask("onednn", ProductTask(Factor(a), Factor(b)))
    return answer.reason if isinstance(answer, Unsupported) else None


def full(value: int, rows: int, dtype: type[np.int8 | np.uint8]) -> np.ndarray:
    return np.full((rows, 70), value, dtype)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (full(255, 3, np.uint8), full(127, 5, np.int8)),
        (full(255, 3, np.uint8), full(-128, 5, np.int8)),
        (full(-128, 3, np.int8), full(-128, 5, np.int8)),
        (full(255, 3, np.uint8), full(255, 5, np.uint8)),
        (full(-128, 3, np.int8), full(255, 5, np.uint8)),
    ],
    ids=["u8 s8", "u8 s8 low", "s8 s8", "u8 u8", "s8 u8"],
)
def test_extremes_do_not_saturate(a: np.ndarray, b: np.ndarray) -> None:
    if refusal(a, b) is not None:
        pytest.skip(str(refusal(a, b)))
    found = integer_matmul(a, b, transpose_b=True, engine="onednn")
    np.testing.assert_array_equal(found.plain(), a.astype(int) @ b.astype(int).T)


def test_small_factors_without_vnni(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_product, "processor", lambda: WITHOUT_VNNI)
    small = QTensor.of_integers(np.ones((2, 3), np.int8), 6, signed=False)
    assert refusal(full(1, 2, np.uint8)[:, :3], small) is None
    assert refusal(full(1, 2, np.uint8), full(1, 2, np.int8)) == (
        "this processor sums pairs in 16 bits, and 65280 > 32767"
    )


def test_no_bytes() -> None:
    wide = QTensor.of_integers(np.ones((2, 70), np.int8), 8, signed=True)
    assert refusal(full(1, 2, np.int8), wide) == "b has integers from -255 to 255, which are no bytes"
