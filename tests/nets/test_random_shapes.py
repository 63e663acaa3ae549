"""Nets on one random shape after another: caches keep their bounds, and no objects of Python are left."""

from __future__ import annotations

import gc
import sys

import pytest

from tazza.runtime.cache import Cache, living, statistics
from tools.random_shapes import run_shapes

WARM, COUNT, BOUND = 40, 140, 8
OBJECTS = 0.02
"""By which part the objects of Python may differ: memory of C libraries is not seen here."""


@pytest.mark.slow
@pytest.mark.parametrize("type", ["plan", "simple"])
def test_random_shapes_leave_no_objects_of_python(type: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = 0
    for number in run_shapes(type, COUNT):
        for cache in living():
            if not isinstance(cache, Cache):
                if number in (WARM, COUNT):
                    cache.clear()
            elif cache.bound > BOUND:
                monkeypatch.setattr(cache, "_entries", BOUND)  # so that it is full long before the first count
                cache.trim()
        if number == WARM:
            gc.collect()
            before = sys.getallocatedblocks()
    gc.collect()
    assert sys.getallocatedblocks() < before * (1 + OBJECTS)
    for one in statistics():
        assert one.held <= one.bound * one.caches, one.name
