"""Planes of bytes, compiled: on several threads as on one, and not beyond their ends."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.array.quantized.planes import BYTE_PLANES, plane_bytes
from tazza.codegen.kernel import unavailable

REASON = unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.mark.parametrize("size", [64, 200, 1_000_003])
def test_nothing_else_is_written(size: int) -> None:
    octets = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    around = np.full(5 * plane_bytes(size) + 2, 0x5A, np.uint8)
    planes = around[1:-1].reshape(5, -1)
    BYTE_PLANES["native"].split(octets, planes)
    wanted = np.empty_like(planes)
    BYTE_PLANES["numpy"].split(octets, wanted)
    np.testing.assert_array_equal(planes, wanted)
    again = np.full(size + 2, 0x5A, np.uint8)
    BYTE_PLANES["native"].join(planes, again[1:-1])
    np.testing.assert_array_equal(again[1:-1], octets & 31)
    assert {*around[[0, -1]], *again[[0, -1]]} == {0x5A}
