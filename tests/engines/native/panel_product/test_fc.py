"""FC and FusedFC in panels: against float64, each row the same in every batch, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.engines.native.panel_product import fc
from tazza.engines.native.panel_product.panels import ENGINE
from tazza.operator import operator_def
from tazza.operator.engine import why_unavailable
from tests.check import assert_ran, run

pytestmark = pytest.mark.skipif(why_unavailable("FC", "cpu", ENGINE) is not None, reason="nothing can be compiled here")


def made(N: int, K: int, M: int) -> list[NDArray[Any]]:
    """Return X, W and b."""
    random = np.random.default_rng(N)
    return [random.standard_normal(shape, np.float32) for shape in ((N, K), (M, K), (M,))]


@pytest.mark.slow
@pytest.mark.parametrize(("N", "K", "M"), [(1, 7, 5), (13, 40, 33), (29, 3, 100), (700, 301, 18)])
def test_it_is_the_product_and_rows_know_nothing_of_each_other(
    N: int, K: int, M: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fc, "LEAST_WEIGHTS", 0)
    X, W, b = made(N, K, M)
    (Y,), operator = run(operator_def("FC", ["X", "W", "b"], ["Y"]), [X, W, b], ENGINE)
    assert_ran(operator, ENGINE)
    x, w = X.astype(np.float64), W.astype(np.float64)
    assert (np.abs(Y - (x @ w.T + b)) <= 2e-7 * K**0.5 * (np.abs(x) @ np.abs(w).T + np.abs(b))).all()
    (last,), _ = run(operator_def("FC", ["X", "W", "b"], ["Y"]), [X[-1:], W, b], ENGINE)
    np.testing.assert_array_equal(Y[-1:], last)
    definition = operator_def("FusedFC", ["X", "W", "b", "S"], ["S"], operands=1, epilogue="max(y - s0, 0)")
    (fused,), operator = run(definition, [X, W, b, Y[::-1].copy()], ENGINE)
    assert_ran(operator, ENGINE)
    np.testing.assert_array_equal(fused, np.maximum(Y - Y[::-1], 0))


def test_small_weights_are_left_to_others() -> None:
    _, operator = run(operator_def("FC", ["X", "W", "b"], ["Y"], engine=ENGINE), made(2, 3, 5))
    reasons = {choice.engine: str(choice.reason) for choice in operator.choices}
    assert "stay in the cache" in reasons[ENGINE]
