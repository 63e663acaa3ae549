"""Engines: what is kept of the answers which of them have an operator type, and in which order they are asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tazza.operator import (
    ENGINES,
    KERNELS,
    engine,
    kernel_key,
    prefer_engines,
    rank_engines,
    why_unavailable,
)
from tazza.operator.choice import find_kernel

LATER, LATEST = "test_later", "test_latest"


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    """Leave nothing registered, and no preference."""
    yield
    prefer_engines([], operator="Relu")
    KERNELS.unregister(kernel_key("Relu", LATER))
    for name in (LATER, LATEST):
        ENGINES.unregister(name)


def test_what_an_engine_has_is_asked_anew_when_it_changes() -> None:
    lost: list[str] = []
    assert why_unavailable("Relu", "cpu", LATER) == "no such engine"
    engine(LATER, "for tests", priority=60, unavailable=lambda: lost[0] if lost else None)
    assert why_unavailable("Relu", "cpu", LATER) == "it has no Relu kernel for cpu"
    KERNELS.register(kernel_key("Relu", LATER), find_kernel("Relu", "cpu", "reference"))
    assert why_unavailable("Relu", "cpu", LATER) is None
    lost.append("gone")
    assert why_unavailable("Relu", "cpu", LATER) == "gone"


def test_a_ranking_holds_until_an_engine_or_a_preference_comes() -> None:
    def ranked() -> list[str]:
        return [candidate.engine for candidate in rank_engines("Relu", "cpu", "")]

    before = ranked()
    assert rank_engines("Relu", "cpu", "") is rank_engines("Relu", "cpu", "")
    engine(LATER, "for tests", priority=6000)
    assert ranked() == [LATER, *before]
    engine(LATEST, "for tests", priority=7000)
    assert ranked() == [LATEST, LATER, *before]
    prefer_engines([LATER], operator="Relu")
    assert ranked() == [LATER, LATEST, *before]
    prefer_engines([], operator="Relu")
    assert ranked() == [LATEST, LATER, *before]
