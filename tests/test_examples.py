"""The programs of `examples` run at a small size, and come to what they promise."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise

import numpy as np
import pytest

from examples import autoencoder, ctc_reader, wide_clicks
from tazza.models.task import learn

needs_digits = pytest.mark.skipif(find_spec("sklearn") is None, reason="the digits come with scikit-learn")


@needs_digits
@pytest.mark.slow
def test_an_autoencoder_draws_what_it_never_saw() -> None:
    figures = learn(autoencoder.Autoencoder(epochs=12, hidden=128))
    assert 0 < figures["lost_by_components"] < figures["lost"] < 0.4 * figures["lost_by_mean_picture"]


def test_principal_components_of_rows_on_a_line() -> None:
    """Rows that lie on a line lose nothing by one component."""
    along = np.random.default_rng(1).normal(0, 1, (20, 1)).astype(np.float32)
    rows = along * np.linspace(-1, 1, 5, dtype=np.float32) + 3
    assert autoencoder.by_components(rows, rows, 1) < 1e-10


@pytest.mark.slow
def test_both_updates_come_near_to_who_knows_the_weights() -> None:
    whole, by_row = (
        learn(wide_clicks.Clicks(update=update, examples=40_000, rows=2000))
        for update in ("SparseAdagrad", wide_clicks.BY_ROW)
    )
    for figures in (whole, by_row):
        best, mean = figures["log_loss_of_hidden_weights"], figures["log_loss_of_mean_rate"]
        assert best < figures["log_loss"] < best + 0.5 * (mean - best)
    assert abs(whole["log_loss"] - by_row["log_loss"]) < 0.01
    assert whole["bytes_beside_table"] == wide_clicks.WIDTH * by_row["bytes_beside_table"]


def test_a_part_of_a_log() -> None:
    log = wide_clicks.draw(50, 30)
    parts = [log.part(0, 20), log.part(20, 50)]
    np.testing.assert_array_equal(np.concatenate([part.ids for part in parts]), log.ids)
    assert [part.lengths.sum() for part in parts] == [len(part.ids) for part in parts]


@pytest.mark.slow
def test_a_reader_learns_where_digits_stand() -> None:
    assert learn(ctc_reader.Reader(tested=60), 400)["wrong_digits"] < 0.6


@pytest.mark.slow
def test_a_reader_takes_lines_and_says_something() -> None:
    assert 0 <= learn(ctc_reader.Reader(lines=4, tested=5), 2)["right_lines"] <= 1


def test_lines_have_the_digits_that_they_say() -> None:
    """Every line has room for its digits, and CTC for its labels."""
    lines = ctc_reader.draw(50, np.random.default_rng(3))
    labels, lengths = lines.labels()
    assert labels.min() >= 1
    assert labels.max() <= 10
    assert lengths.tolist() == [len(text) for text in lines.texts]
    repeats = [sum(a == b for a, b in pairwise(text)) for text in lines.texts]
    assert max(length + more for length, more in zip(lengths.tolist(), repeats, strict=True)) <= ctc_reader.STEPS
