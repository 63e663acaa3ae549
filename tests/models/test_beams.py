"""The best hypothesis of a beam search: recorded choices of Caffe2, and what follows from the definition."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.models.beams import best_hypothesis

END = 2
RECORDED: list[Any] = json.loads(
    gzip.decompress((Path(__file__).parents[1] / "data" / "seq2seq" / "runs.json.gz").read_bytes())
)["hypotheses"]


def test_choices_are_those_of_caffe2() -> None:
    for tokens, before, scores, wanted, cost in RECORDED:
        places, score = best_hypothesis(np.array(tokens), np.array(before), np.array(scores, np.float32), END)
        assert [tokens[step][hypothesis] for step, hypothesis in places] == wanted
        np.testing.assert_equal(-score, np.float32(cost))


@given(st.integers(0, 2**32 - 1), st.integers(0, 5), st.integers(1, 4))
def test_no_hypothesis_that_ended_is_better(seed: int, steps: int, beam: int) -> None:
    random = np.random.default_rng(seed)
    shape = steps + 1, beam
    tokens, before = random.integers(1, 5, shape), random.integers(0, beam, shape)
    scores = random.integers(-9, 1, shape).astype(np.float32)
    places, score = best_hypothesis(tokens, before, scores, END)
    ended = tokens == END
    ended[-1] = True
    assert score == scores[ended].max()
    assert [step for step, _ in places] == list(range(1, len(places) + 1))
    for (step, hypothesis), (_, previous) in zip(places[1:], places, strict=False):
        assert before[step, hypothesis] == previous
    assert (tokens[places[-1]] == END or len(places) == steps) if places else ended[0].any()


@pytest.mark.parametrize("last", [-np.inf, np.nan])
def test_scores_that_are_no_numbers_lose(last: float) -> None:
    tokens, before = np.array([[1, 1], [END, 4], [5, 6]]), np.zeros((3, 2), np.int32)
    scores = np.array([[0, 0], [np.nan, -1], [-3, last]], np.float32)
    assert best_hypothesis(tokens, before, scores, END) == ([(1, 0), (2, 0)], np.float32(-3))
