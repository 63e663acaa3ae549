"""Places along dimensions and in operands, computed by a kernel that is run on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tazza.codegen.nvptx import GridKernel, place
from tazza.codegen.term import Lines
from tazza.engines.cuda.coordinate import coordinates, place_in
from tests.cuda_grid import Grid

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@pytest.mark.parametrize("bits", [32, 64])
def test_places(bits: int) -> None:
    """Each thread writes which element of a matrix its own of the transposed one is."""

    def write(lines: Lines) -> None:
        i, _ = place(lines)
        _, found = place_in(i, coordinates(i, 2, bits), 3)
        pointer, where = place_in(i, [], 6)
        pointer.of("i64")[where] = found

    found = np.zeros(6, np.int64)
    Grid(GridKernel(7, write).text("places"), "places")(1, 6, [6, 3, 2, 0, 1, 3, found.ctypes.data])
    np.testing.assert_array_equal(found, np.arange(6).reshape(2, 3).T.ravel())
