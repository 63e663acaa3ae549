"""Products by tile registers: against float64, each row the same in every batch of theirs, with what is not finite."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.engines.native.panel_product import code, fc
from tazza.engines.native.panel_product.panels import ENGINE
from tazza.engines.native.panel_product.tile_product import tiled
from tazza.operator import operator_def
from tazza.runtime.threads import NUM_THREADS
from tests.check import run

pytestmark = pytest.mark.skipif(not tiled(64, fc.VECTORS, 32), reason="this processor has no tile registers")
FC = operator_def("FC", ["X", "W", "b"], ["Y"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("N", "K", "M"), [(50, 32, 5), (64, 64, 70), (77, 512, 33), (700, 288, 18), (30, 2080, 34), (290, 1056, 70)]
)
def test_it_is_the_product_to_the_last_bits_of_float32(N: int, K: int, M: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fc, "LEAST_WEIGHTS", 0)
    random = np.random.default_rng(N)
    X, W, b = (random.standard_normal(shape, np.float32) for shape in ((N, K), (M, K), (M,)))
    (Y,), _ = run(FC, [X, W, b], ENGINE, refusable=True)
    x, w = X.astype(np.float64), W.astype(np.float64)
    size = np.abs(x) @ np.abs(w).T + np.abs(b)
    assert (np.abs(Y - (x @ w.T + b)) <= 5 * 2.0**-24 * size).all()
    (last,), _ = run(FC, [X[-50:], W, b], ENGINE, refusable=True)
    np.testing.assert_array_equal(Y[-50:], last)


@pytest.mark.parametrize(("N", "K", "M"), [(32, 512, 300), (700, 64, 70), (290, 1056, 70)])
def test_who_takes_what_changes_nothing(N: int, K: int, M: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fc, "LEAST_WEIGHTS", 0)
    monkeypatch.setattr(code, "THREAD_NS", 1)
    random = np.random.default_rng(N)
    given = [random.standard_normal(shape, np.float32) for shape in ((N, K), (M, K), (M,))]
    found: list[NDArray[np.float32]] = []
    for threads in (1, 2, 3):
        with NUM_THREADS.override(threads):
            (Y,), _ = run(FC, given, ENGINE, refusable=True)
        found.append(Y)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize(
    ("rows", "wanted"), [(16, False), (24, False), (25, True), (33, False), (50, True), (65, True), (1600, True)]
)
def test_registers_that_are_nearly_full_are_worth_it(rows: int, wanted: bool) -> None:
    assert tiled(rows, fc.VECTORS, 64) == wanted
    assert not tiled(rows, fc.VECTORS, 65)


def test_what_is_not_finite_is_what_float32_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fc, "LEAST_WEIGHTS", 0)
    X, W, b = np.ones((60, 64), np.float32), np.ones((40, 64), np.float32), np.zeros(40, np.float32)
    hidden_nan = np.array(0x7F800001, np.uint32).view(np.float32)
    X[[0, 1, 2, 3], [3, 5, 7, 9]] = np.inf, -np.inf, hidden_nan, 3e38
    W[[2, 4, 5, 6], [3, 9, 1, 11]] = 0, 2, np.inf, np.nan
    (Y,), _ = run(FC, [X, W, b], ENGINE, refusable=True)
    with np.errstate(all="ignore"):
        wanted = (X[:, None] * W).sum(axis=2)
    np.testing.assert_allclose(Y, wanted, rtol=1e-6)
