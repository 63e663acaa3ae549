"""`tazza launch`: who is killed, who is left, and what goes on later."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.jobs import start, train
from tests.distributed.kills import END_S, Kills
from tests.distributed.mpi_there import MOST_S, needs_mpi

pytestmark = [needs_mpi, pytest.mark.slow]
SLOWER = 3
"""How much longer than it may the end of survivors takes on a machine that does other things too."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    return train(1, tmp_path_factory.mktemp("alone") / "out")


def test_pictures_and_texts_are_learned_on_ranks_too_and_an_early_end_is_told(tmp_path: Path) -> None:
    """The second training ends after the first test that is no better, on all ranks."""
    text, out = tmp_path / "text", tmp_path / "out"
    text.write_text("to be or not to be, that is the question. " * 40)
    small = ("--iterations", "4", "--steps", "5", "--hidden", "6", "--batch-size", "4", "--characters", "5")
    for number, words in enumerate(
        (
            ("net", "mlp", "--learning-rate", "1e-9", "--patience", "1", "--flip"),
            ("char-lstm", "--data", str(text), *small),
        )
    ):
        job = start("launch", "--ranks", "2", "train", *words, "--out", str(out / str(number)))
        told, _ = job.communicate(timeout=MOST_S)
        assert job.returncode == 0, told
        assert ("ended early" in told) == (not number)


def test_a_training_goes_on_with_other_numbers_of_ranks(undisturbed: list[float], tmp_path: Path) -> None:
    out = tmp_path / "out"
    train(1, out, "--iterations", "10")
    for ranks, steps in ((2, "20"), (4, "30")):
        train(ranks, out, "--iterations", steps, "--resume")
    assert train(1, out, "--iterations", "40", "--resume") == pytest.approx(undisturbed, rel=1e-4)


def test_who_is_killed_is_named_and_the_rest_goes_on_later(tmp_path: Path) -> None:
    """A hundred kills: `python -m tests.distributed.kills`."""
    kills = Kills(tmp_path, limit_s=END_S * SLOWER)
    kills.go(2)
    assert kills.killed == 2
