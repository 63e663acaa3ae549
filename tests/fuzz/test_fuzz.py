"""A bounded part of `make fuzz` with fixed seeds, and every input that once found something."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.kinds import KINDS, REPLAY, kind_named, stored_cases
from tests.fuzz.watch import Job, Tally, watch

FOUND = Path(__file__).parents[1] / "data" / "fuzz" / "found"
BYTES_MAX = 300_000
FAST = 60
SLOW = {"nets": 300, "bytes": 400, "files": 300, "commands": 30}


def nothing_found(tally: Tally) -> None:
    """Assert that all outcomes were right."""
    assert [(found.what, found.where, found.case.seed, found.detail[-2000:]) for found in tally.found.values()] == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_draws_are_pure(kind: str) -> None:
    for seed in (0, 7):
        assert KINDS[kind].draw(seed) == KINDS[kind].draw(seed)


@pytest.mark.slow
def test_what_once_found_something_finds_nothing() -> None:
    tally = Tally()
    count = len(stored_cases(FOUND))
    watch(Job(f"{REPLAY}{FOUND}", 0, count, hang_s=60.0), tally)
    nothing_found(tally)
    assert tally.tried == count


def test_stored_inputs_are_read_back() -> None:
    kind = kind_named(f"{REPLAY}{FOUND}")
    for seed, path in enumerate(stored_cases(FOUND)):
        assert path.stem.startswith(kind.draw(seed).kind)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in FOUND.parent.rglob("*") if path.is_file()) <= BYTES_MAX


@pytest.mark.slow
def test_a_few_nets() -> None:
    tally = Tally()
    watch(Job("nets", 2_000_000, 2_000_000 + FAST, hang_s=60.0), tally)
    nothing_found(tally)
    assert tally.tried == FAST


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(SLOW))
def test_a_bounded_part(kind: str) -> None:
    tally = Tally()
    watch(Job(kind, 1_000_000, 1_000_000 + SLOW[kind], hang_s=60.0), tally)
    nothing_found(tally)
    assert tally.tried == SLOW[kind]
