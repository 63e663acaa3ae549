"""A fixed small part of what PyTorch judges, where it is installed; and that it can find something."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.operator import SCHEMAS, OpView
from tests.judge import peer
from tests.judge.draw import draw
from tests.judge.hand import Array
from tests.judge.outcome import Outcome, Verdict
from tests.judge.peer import judge_reference, why_no_torch

SEEDS = 2


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    reason = why_no_torch()
    if reason is not None:
        pytest.skip(reason)


def judged(type: str, seed: int) -> Outcome:
    found = judge_reference(draw(type, seed))
    assert found is not None
    return found


@pytest.mark.slow
def test_reference_kernels() -> None:
    peer.judge_reference(draw("Relu", 0))  # which loads all
    types = sorted(peer.COUNTERPARTS)
    assert all(type in SCHEMAS for type in types)
    found = [judge_reference(draw(type, seed)) for type in types for seed in range(SEEDS)]
    outcomes = [one for one in found if one is not None]
    assert [f"{o.again}: {o.text}" for o in outcomes if o.verdict is Verdict.MISMATCH] == []
    assert sum(o.verdict is Verdict.RIGHT for o in outcomes) > len(types)


def test_a_wrong_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of a few millionths, as rounding to float32 somewhere within would make."""
    assert judged("Conv2D", 1).verdict is Verdict.RIGHT
    plain = peer.evaluate

    def wrong(op: OpView, inputs: list[Array]) -> list[Array]:
        return [y * (1 + 1e-6) for y in plain(op, inputs)]

    monkeypatch.setattr(peer, "evaluate", wrong)
    assert "output 0" in judged("Conv2D", 1).text


def test_a_wrong_gradient_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = peer.gradient_for_op
    swapped = {"SinGradient": "CosGradient"}

    def wrong(op: OpView, named: list[str | None]) -> object:
        emitted, gradients = plain(op, named)
        for step in emitted:
            step.type = swapped.get(step.type, step.type)
        return emitted, gradients

    monkeypatch.setattr(peer, "gradient_for_op", wrong)
    text = judged("Sin", 1).text
    assert "gradient 0" in text
    assert "output" not in text


def test_numbers_are_moved_apart() -> None:
    rng = np.random.default_rng(0)
    x = peer._apart(np.array([0.0, 0.0, 1.0, 1.0, -1.0]), rng)  # pyright: ignore[reportPrivateUsage]
    assert len(set(x.tolist())) == 5
    assert np.all(x != 0)
