"""What a beam search found: the best hypothesis, from the beams of all steps.

Letters: T steps, B hypotheses, the beam. A search leaves rows for the start and for each step, (T + 1, B): the token
that a hypothesis has there, the hypothesis of the step before that it goes on from, and its score so far.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = list[tuple[int, int]]
"""Step, from 1, and hypothesis."""


def best_hypothesis(tokens: NDArray[Any], before: NDArray[Any], scores: NDArray[Any], end: int) -> tuple[Places, Any]:
    """Return where the tokens of the best hypothesis lie, the first one first, and its score.

    All that end in the token `end`, and those of the last step, are compared by their scores; of equal ones the first
    of the last step counts, else the earliest. A score that is no number counts only as the first of the last step.

    Args:
        tokens: (T + 1, B).
        before: (T + 1, B).
        scores: (T + 1, B).
        end: the token that ends a hypothesis.

    >>> tokens, before = np.array([[1, 1], [7, 8], [9, 2]]), np.array([[0, 0], [0, 0], [0, 1]])
    >>> best_hypothesis(tokens, before, np.array([[0.0, 0.0], [-1.0, -2.0], [-4.0, -3.0]]), 2)
    ([(1, 1), (2, 1)], np.float64(-3.0))
    """
    ended = tokens == end
    ended[-1] = True
    better = ended & (scores > scores[-1, 0])
    step, hypothesis = len(tokens) - 1, 0
    if better.any():
        found = np.unravel_index(np.where(better, scores, -np.inf).argmax(), scores.shape)
        step, hypothesis = int(found[0]), int(found[1])
    score = scores[step, hypothesis]
    places: Places = []
    for t in range(step, 0, -1):
        places.append((t, hypothesis))
        hypothesis = int(before[t, hypothesis])
    return places[::-1], score
