"""Updates of rows: each is the dense operator on the row, whatever the order and number of indices."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tazza.ops.optimizer.rows import occurrences


@given(st.lists(st.integers(0, 5), max_size=20))
def test_occurrences(indices: list[int]) -> None:
    """Every place once; in one turn no index twice; later turns hold later places of the same index."""
    rows = np.array(indices, np.int64)
    turns = [list(places) for places in occurrences(rows)]
    assert sorted(place for turn in turns for place in turn) == list(range(rows.size))
    assert all(len(set(rows[turn])) == len(turn) for turn in turns)
    for index in set(indices):
        assert [place for turn in turns for place in turn if rows[place] == index] == [
            place for place, each in enumerate(indices) if each == index
        ]
