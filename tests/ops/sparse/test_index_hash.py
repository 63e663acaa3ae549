"""IndexHash: in whole numbers of any size, byte after byte; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[0, 1, -1], [5, 2**40 + 77, -(2**63)]])


def hashed(modulo: int, seed: int = 0) -> Any:
    """Return the sum of seed and bytes, each times a power of 65537, as a number with a sign."""

    def made(x: Array) -> Array:
        size = x.dtype.itemsize
        found: list[int] = []
        for value in x.reshape(-1).tolist():
            each = [(byte + 128) % 256 - 128 for byte in value.to_bytes(size, "little", signed=True)]
            terms = [byte * 65537 ** (size - 1 - i) for i, byte in enumerate(each)]
            whole = seed * 0xDEADBEEF * 65537**size + sum(terms)
            found.append(int.from_bytes((whole % 256**size).to_bytes(size, "little"), "little", signed=True) % modulo)
        return np.array(found, x.dtype).reshape(x.shape)

    return made


CASES = [
    Case("IndexHash", [X], hashed(1000), {"modulo": 1000}),
    Case("IndexHash", [X], hashed(2**62 + 1, -3), {"modulo": 2**62 + 1, "seed": -3}, id="a seed"),
    Case("IndexHash", [X[0].astype(np.int32)], hashed(97, 2**40 + 5), {"modulo": 97, "seed": 2**40 + 5}, id="int32"),
    Case("IndexHash", [X[:0]], X[:0], {"modulo": 7}, id="none"),
    Case("IndexHash", [np.array(12345, np.int32)], hashed(31), {"modulo": 31}, id="rank 0"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(
    ("x", "arguments", "error", "text"),
    [
        (X, {}, TazzaError, "modulo"),
        (X, {"modulo": 0}, TazzaError, "modulo"),
        (X.astype("i"), {"modulo": 2**31}, DTypeError, "modulo = 2147483648, an element of X is at most 2147483647"),
        (X.astype("f"), {"modulo": 7}, DTypeError, "X is float32"),
    ],
)
def test_refused(x: Array, arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("IndexHash", x, **arguments)
