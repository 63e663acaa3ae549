"""Weights in panels against NumPy, of parts and of strides of any kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tazza.codegen.kernel import lane_count
from tazza.codegen.tiles import DEPTH, PIECES, ROW_BYTES
from tazza.engines.native.panel_product.panels import ENGINE, Panels, pack_launch
from tazza.operator.engine import why_unavailable
from tazza.tensor import Tensor
from tests.launching import call_alone, copied_into

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


@pytest.mark.skipif(lane_count() * 4 != ROW_BYTES, reason="a row of a tile is no vector here")
@pytest.mark.parametrize(("M", "parts"), [(70, 1), (4 * 19, 4)])
def test_split_panels_hold_pieces_of_pairs(M: int, parts: int) -> None:
    K, form = 2 * DEPTH, Panels(M, 2 * DEPTH, 2, parts, split=True)
    W = np.random.default_rng(M).standard_normal((M, K), np.float32)
    plain = copied_into(Tensor.from_numpy(W), replace(form, split=False).layout())
    for weights, steps in ((W, (K, 1)), (np.ascontiguousarray(W.T), (1, M))):
        found = Tensor.from_numpy(np.zeros(form.nbytes // 4, np.float32))
        call_alone(pack_launch(form, steps), {"X": Tensor.from_numpy(weights), "Y": found})
        each = found.numpy().view(np.uint16).reshape(form.count, K // DEPTH, PIECES, 2, DEPTH // 2, lane_count(), 2)
        values = (each.astype(np.uint32) << 16).view(np.float32).sum(axis=2, dtype=np.float32)
        np.testing.assert_array_equal(values.transpose(0, 1, 5, 3, 2, 4).ravel(), plain)
