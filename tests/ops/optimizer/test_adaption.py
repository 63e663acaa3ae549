"""Rates that adapt, and weights that shrink."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.optimizer.of_rows import results, values

RATE, TABLE = np.array([-0.3], np.float32), values(7, 2)


def test_a_rate_that_adapts() -> None:
    g, e = values(4, 3), values(4, 3, seed=1)
    cosine = float((g * e).sum() / np.sqrt((g * g).sum() * (e * e).sum()))
    (rate,) = results("LearningRateAdaption", {"lr": RATE, "g": g, "e": e}, ["lr"], lr_alpha=0.5)
    assert rate.item() == pytest.approx(-0.3 * (1 - 0.5 * cosine), rel=1e-5)
    plain = {"normalized_lr_adaption": 0, "lr_alpha": 0.5}
    (rate,) = results("LearningRateAdaption", {"lr": RATE, "g": g, "e": e}, ["lr"], **plain)
    assert rate.item() == pytest.approx(-0.3 - 0.5 * float((g * e).sum()), rel=1e-5)
    (rate,) = results("LearningRateAdaption", {"lr": RATE, "g": 0 * g, "e": e}, ["lr"])
    assert rate.item() == RATE.item()


@pytest.mark.parametrize(("iter", "factor"), [(0, 1), (1, 0.5), (2, 1), (3, 0.5), (4, 1), (5, 1), (7, 1)])
def test_weights_shrink_at_some_steps(iter: int, factor: float) -> None:
    arguments = {"stepsize": 2, "upper_bound_iter": 5, "scale": 0.5}
    (scaled,) = results("WeightScale", {"X": TABLE, "iter": np.array([iter])}, ["X"], **arguments)
    np.testing.assert_array_equal(scaled, np.float32(factor) * TABLE)
