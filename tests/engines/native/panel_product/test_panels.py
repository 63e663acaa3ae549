"""Weights in panels against NumPy, of parts and of strides of any kind."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.kernel import lane_count
from tazza.engines.native.panel_product.panels import ENGINE, Panels
from tazza.operator.engine import why_unavailable
from tazza.tensor import Tensor
from tests.launching import copied_into

pytestmark = pytest.mark.skipif(
    why_unavailable("Copy", "cpu", ENGINE) is not None, reason="nothing can be compiled here"
)


@pytest.mark.parametrize(("M", "K", "parts"), [(3, 5, 1), (70, 3, 1), (4 * 19, 7, 4), (4 * 33, 2, 4)])
def test_panels_hold_the_same_rows_of_each_part_in_turn(M: int, K: int, parts: int) -> None:
    width, part, form = 2 * lane_count(), M // parts, Panels(M, K, 2, parts)
    W = np.random.default_rng(M).standard_normal((M, K), np.float32)
    wanted = np.zeros((form.count, K, width), np.float32)
    for panel in range(form.count):
        first, begin = panel // parts * width, panel % parts * part
        rows = W[begin + first : begin + min(first + width, part)]
        wanted[panel, :, : len(rows)] = rows.T
    found = copied_into(Tensor.from_numpy(W), form.layout())
    np.testing.assert_array_equal(found, wanted.ravel())
