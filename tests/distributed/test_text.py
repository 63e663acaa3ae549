"""Texts side by side on several ranks: their states are one, and another number of ranks goes on from them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tazza.cli.train_text import TextLearning, TextSettings
from tazza.distributed.membership import Membership
from tests.ops.distributed.test_collective import together

STEPS = 3


def learn(settings: TextSettings, ranks: int, path: Path, begin: int, steps: int = STEPS) -> list[float]:
    """Learn some steps, from a checkpoint unless it is the beginning, and write one; return the losses of rank 0."""

    def act(rank: int, _: object) -> list[float]:
        with TextLearning(settings, Membership(rank, ranks, name=f"{path} {begin}")) as learning:
            if begin:
                learning.trainer.load(path)
            losses: list[float] = []
            for _step in range(steps):
                learning.feed()
                losses.append(learning.trainer.step().loss)
            learning.trainer.save(path)
            return losses

    found = together(ranks, act)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found[0]


@pytest.mark.slow
def test_one_two_four_and_one_rank_learn_a_text_as_one_does(tmp_path: Path) -> None:
    (tmp_path / "text").write_text(" ".join(f"{number} times {number}" for number in range(200)))
    settings = TextSettings(
        data=str(tmp_path / "text"),
        batch_size=4,
        steps=4,
        hidden=6,
        layers=1,
        dropout=0.0,
        input_dropout=0.0,
        iterations=12,
    )
    wanted = learn(settings, 1, tmp_path / "alone", 0, STEPS * 4)
    found = [learn(settings, ranks, tmp_path / "some", begin) for begin, ranks in enumerate((1, 2, 4, 1))]
    assert [loss for losses in found for loss in losses] == pytest.approx(wanted, rel=1e-5)
