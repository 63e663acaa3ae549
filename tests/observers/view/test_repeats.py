"""Repeated blocks: the same keys one behind the other, cut where least leads across."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.observers.view.repeats import OPERATORS_MIN, Repeat, find_repeats


def flat(keys: str) -> list[Repeat]:
    return find_repeats(keys, [1] * (len(keys) + 1))


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("abcd", []),
        ("abab", []),  # short ones are as easily seen whole
        ("ababab", [Repeat(0, 2, 3)]),
        ("aaaaaaa", [Repeat(0, 1, 7)]),
        ("xabcabcabcy", [Repeat(1, 3, 3)]),
        ("abcabcxyzwxyzw", [Repeat(0, 3, 2), Repeat(6, 4, 2)]),
        ("aabaabaab", [Repeat(0, 3, 3)]),  # not the two letters that are alike in each
    ],
)
def test_what_repeats_is_found(keys: str, found: list[Repeat]) -> None:
    assert flat(keys) == found


def test_a_block_is_cut_where_least_leads_across() -> None:
    """Residual blocks `r c c s`: at `s` two values are under way, before `r` one."""
    keys = "srccsrccsrccx"
    crossing = [1 if key == "r" else 2 for key in keys] + [1]
    assert find_repeats(keys, crossing) == [Repeat(1, 4, 2)]


@settings(max_examples=40)
@given(st.text("ab", max_size=40) | st.text("abc", max_size=60))
def test_every_repetition_is_one_and_none_overlaps(keys: str) -> None:
    end = 0
    for found in flat(keys):
        assert found.first >= end
        end = found.end
        assert end <= len(keys)
        blocks = [keys[at : at + found.length] for at in range(found.first, end, found.length)]
        assert set(blocks) == {blocks[0]}
        assert len(blocks) == found.count >= 2
        assert found.length * found.count >= OPERATORS_MIN
