"""Looking bytes up: every one of the 256, in any place, over threads, and onto itself."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.native.quantized.byte_table import UNIT, table_launch
from tazza.operator import Array
from tazza.tensor import Tensor
from tests.launching import call_alone


def squared(x: Array, y: Array) -> None:
    y[...] = (x.astype(int) ** 2 + 7) % 256


@pytest.mark.parametrize("size", [1, UNIT - 1, UNIT + 1, 256, 100_003])
@pytest.mark.parametrize("in_place", [False, True])
def test_every_byte_becomes_what_the_definition_says(size: int, *, in_place: bool) -> None:
    x = np.random.default_rng(size).integers(0, 256, size).astype(np.uint8)
    wanted = np.empty_like(x)
    squared(x, wanted)
    X = Tensor.from_numpy(x.copy())
    Y = X if in_place else Tensor.from_numpy(np.zeros(size, np.uint8))
    call_alone(table_launch(squared, size), {"X": X, "Y": Y})
    np.testing.assert_array_equal(Y.array, wanted)
    if not in_place:
        np.testing.assert_array_equal(X.array, x)
