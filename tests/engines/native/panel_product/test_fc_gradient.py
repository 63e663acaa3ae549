"""FCGradient by tile registers: against float64, in blocks and chunks that are not full, and what is left to others."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.engines.native.panel_product import fc_gradient
from tazza.engines.native.panel_product.fc import VECTORS
from tazza.engines.native.panel_product.panels import ENGINE
from tazza.engines.native.panel_product.tile_product import tiled
from tazza.operator import LaunchChain, operator_def
from tazza.tensor import Tensor
from tests.check import assert_ran, run
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(not tiled(64, VECTORS, 32), reason="this processor has no tile registers")
GRADIENT = operator_def("FCGradient", ["X", "W", "dY"], ["dW", "db", "dX"])


@pytest.mark.slow
@pytest.mark.parametrize(("N", "K", "M"), [(32, 5, 64), (64, 70, 96), (544, 33, 288), (1056, 18, 544)])
def test_it_is_the_product_to_the_last_bits_of_float32(N: int, K: int, M: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fc_gradient, "LEAST_FLOPS", 0)
    random = np.random.default_rng(N)
    X, W, dY = (random.standard_normal(shape, np.float32) for shape in ((N, K), (M, K), (N, M)))
    found, operator = run(GRADIENT, [X, W, dY], ENGINE, refusable=True)
    assert_ran(operator, ENGINE)
    x, w, dy = (value.astype(np.float64) for value in (X, W, dY))
    sizes = np.abs(dy.T) @ np.abs(x), np.abs(dy).sum(axis=0), np.abs(dy) @ np.abs(w)
    for value, wanted, size in zip(found, (dy.T @ x, dy.sum(axis=0), dy @ w), sizes, strict=True):
        assert (np.abs(value - wanted) <= 5 * 2.0**-24 * size).all()
    data, _ = run(operator_def("FCGradient", ["X", "W", "dY"], ["dW", "db"]), [X, W, dY], ENGINE, refusable=True)
    for value, same in zip(data, found[:2], strict=True):
        np.testing.assert_array_equal(value, same)


@pytest.mark.parametrize(("N", "K", "M"), [(544, 33, 1056), (32, 40, 1056)])
def test_it_needs_no_more_memory_than_it_says(N: int, K: int, M: int) -> None:
    shapes = {"X": (N, K), "W": (M, K), "dY": (N, M), "dW": (M, K), "db": (M,), "dX": (N, K)}
    tensors = {name: Tensor.from_numpy(np.ones(shape, np.float32)) for name, shape in shapes.items()}
    for one in fc_gradient.products(N, M, K, data=True):
        call_alone(LaunchChain(tuple(one.launches)), tensors)
    found = {name: set(tensors[name].numpy().ravel().tolist()) for name in ("dW", "db", "dX")}
    assert found == {"dW": {N}, "db": {N}, "dX": {M}}


def test_what_is_not_finite_is_what_float32_makes_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fc_gradient, "LEAST_FLOPS", 0)
    X, W, dY = np.ones((64, 40), np.float32), np.ones((64, 40), np.float32), np.ones((64, 64), np.float32)
    dY[[0, 1], [3, 5]] = np.inf, np.nan
    X[[0, 7], [2, 9]] = 0, -np.inf
    (dW, db, dX), _ = run(GRADIENT, [X, W, dY], ENGINE, refusable=True)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(dW, (dY.T[:, :, None] * X).sum(axis=1))
        np.testing.assert_array_equal(db, dY.sum(axis=0))
        np.testing.assert_array_equal(dX, (dY[:, :, None] * W).sum(axis=1))


def test_few_products_and_rows_that_fill_no_tile_are_left_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def reason(N: int, M: int) -> str:
        X, W, dY = (np.ones(shape, np.float32) for shape in ((N, 8), (M, 8), (N, M)))
        _, operator = run(operator_def("FCGradient", ["X", "W", "dY"], ["dW", "db", "dX"], engine=ENGINE), [X, W, dY])
        return {choice.engine: str(choice.reason) for choice in operator.choices}[ENGINE]

    assert "too few" in reason(64, 64)
    monkeypatch.setattr(fc_gradient, "LEAST_FLOPS", 0)
    assert "no 64 rows of 33 elements" in reason(33, 64)
