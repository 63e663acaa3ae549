"""Rates that adapt."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.optimizer.of_rows import results, values

RATE = np.array([-0.3], np.float32)


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
