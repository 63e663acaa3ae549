"""Nets on one random shape after another: caches keep their bounds, and neither Python nor the C library keeps more."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from tazza.engines.onednn.primitive import UNFREED
from tazza.runtime.cache import Cache, living, statistics
from tests.heap import heap_bytes
from tools.random_shapes import run_shapes

COUNT, BOUND = 40, 8
OBJECTS = 0.02
"""By which part the objects of Python may differ."""
SHAPE_BYTES = 4096
"""What each new shape may leave in the heap of C: less than a primitive or a kernel takes."""


@pytest.fixture
def trimmed() -> Generator[Callable[[], None]]:
    """Return what gives all caches that live a small bound, so that they are full soon; they get theirs back."""
    bounds: WeakKeyDictionary[Cache[Any, Any], Any] = WeakKeyDictionary()  # a net's die with it

    def trim() -> None:
        for cache in living():
            if isinstance(cache, Cache) and cache.bound > BOUND:
                bounds[cache] = cache._entries  # pyright: ignore[reportPrivateUsage]
                cache._entries = BOUND  # pyright: ignore[reportPrivateUsage]
                cache.trim()

    yield trim
    for cache, bound in bounds.items():
        cache._entries = bound  # pyright: ignore[reportPrivateUsage]


def _run(type: str, trim: Callable[[], None]) -> None:
    """Run all shapes; nothing lives on but what caches keep."""
    for _ in run_shapes(type, COUNT):
        trim()
    for cache in living():
        if not isinstance(cache, Cache):
            cache.clear()
    gc.collect()


@pytest.mark.slow
@pytest.mark.parametrize("type", ["plan", "simple"])
def test_random_shapes_leave_nothing_behind(type: str, trimmed: Callable[[], None]) -> None:
    """The same shapes once more, when nothing is left of the first time but what bounds allow.

    oneDNN has made as many primitives as it may that are never freed: with them a plan leaves 17 KB of each shape.
    """
    with UNFREED.override(0):
        _run(type, trimmed)
        objects, heap = sys.getallocatedblocks(), heap_bytes()
        _run(type, trimmed)
    assert sys.getallocatedblocks() < objects * (1 + OBJECTS)
    assert (heap_bytes() - heap) / COUNT < SHAPE_BYTES
    for one in statistics():
        assert one.held <= one.bound * one.caches, one.name
