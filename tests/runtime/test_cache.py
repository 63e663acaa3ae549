"""Caches: each keeps its bound, what was used last stays, and the rules for flags of kernels and for forks."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tazza
from tazza.nets.plan.search import EXHAUSTIVE
from tazza.runtime.cache import Cache, CacheStatistics, Remembered, living, remembered, statistics

ROOT = Path(tazza.__file__).parent


class _Entry(list[Any]):
    """Stands for whatever a cache keeps: it has no bytes of its own, and can be closed."""

    def close(self) -> None:
        self.clear()


@pytest.fixture(scope="module")
def declared() -> dict[str, Any]:
    """Return a cache of each name that any module of the package declares."""
    for path in ROOT.rglob("*.py"):
        if "from tazza.runtime.cache import" in path.read_text(encoding="utf-8"):
            parts = path.relative_to(ROOT.parent).with_suffix("").parts
            importlib.import_module(".".join(part for part in parts if part != "__init__"))
    return {cache.name: cache for cache in living()}


@pytest.mark.slow
def test_every_cache_keeps_its_bound(declared: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, cache in declared.items():
        if hasattr(cache, "call"):
            with monkeypatch.context() as patched:
                cache.clear()
                patched.setattr(cache, "function", _Entry)
                for number in range(cache.bound + 3):
                    cache.call((number,))
                found = cache.statistics
                cache.clear()
            assert (found.held, found.evictions) == (cache.bound, 3), name
            continue
        new: Cache[Any, Any] = cache.another()
        most = new.bound_bytes
        for number in range(new.bound + 3):
            new.put(number, _Entry(), 0 if most is None else most // 5)
            assert len(new) <= new.bound, name
            assert most is None or new.nbytes <= most, name
        found = new.statistics
        assert found.held + found.evictions == new.bound + 3, name
        assert found.evictions >= 3, name


def test_bounds_are_told_by_name(declared: dict[str, Any]) -> None:
    told = {one.name: one for one in statistics()}
    assert declared.keys() <= told.keys()
    for one in told.values():
        assert one.held <= one.bound * one.caches
        assert one.bound_bytes is None or one.nbytes <= one.bound_bytes * one.caches
    own = "launches of an operator", "signatures of a plan", "programs of a plan", "prepared operators of a thread"
    assert set(own) <= told.keys(), "those of owners are listed before there is an owner"


def test_what_was_used_last_stays() -> None:
    gone: list[str] = []
    cache = Cache[str, str]("test", 2, 100, dropped=gone.append)
    cache.put("a", "A", 10)
    cache.put("b", "B", 10)
    assert cache.get("a") == "A"
    cache.put("c", "C", 90)
    assert (cache.values(), gone, cache.nbytes) == (["A", "C"], ["B"], 100)
    cache.put("c", "D", 95)
    assert (cache.values(), gone, cache.nbytes) == (["D"], ["B", "A"], 95), "what is replaced is not the bound's"
    cache.put("e", "E", 1000)
    assert (cache.values(), cache.nbytes) == (["E"], 1000), "the latest stays, however large"
    assert (cache.take("e"), cache.take("e"), cache.nbytes, len(cache)) == ("E", None, 0, 0)
    assert cache.statistics == CacheStatistics("test", 1, 0, 2, 0, 100, 2, 1, 3)
    cache.put("f", "F")
    cache.clear()
    assert gone == ["B", "A", "D", "F"]


def test_entries_of_other_flags_are_not_found_and_come_back() -> None:
    with EXHAUSTIVE.override(False):
        pass  # a change shows flags that modules declared since the last one, whatever other tests loaded
    free, bound = Cache[int, str]("test", 9), Cache[int, str]("test", 9, kernels=True)
    for cache in (free, bound):
        cache.put(1, "off")
    with EXHAUSTIVE.override(True):
        assert (free.get(1), bound.get(1)) == ("off", None)
        bound.put(1, "on")
        assert bound.get(1) == "on"
    assert bound.get(1) == "off"
    with EXHAUSTIVE.override(True):
        assert bound.get(1) == "on"


def test_results_are_remembered_for_equal_arguments() -> None:
    asked: list[int] = []

    @remembered("test", entries=2)
    def square(x: int) -> int:
        """Return x * x."""
        asked.append(x)
        return x * x

    assert [square(x) for x in (1, 2, 1, 3, 2)] == [1, 4, 1, 9, 4]
    assert asked == [1, 2, 3, 2]
    assert square.__doc__ == "Return x * x."
    (one,) = [cache.statistics for cache in living() if isinstance(cache, Remembered) and cache.name == "test"]
    assert (one.held, one.bound, one.hits, one.misses, one.evictions) == (2, 2, 1, 4, 2)


FORK = """
import os, threading
from tazza.runtime.cache import Cache, living

quiet, busy = Cache("quiet", 4), Cache("busy", 4)
for cache in (quiet, busy):
    cache.put(1, "parent's")
inside, leave = threading.Event(), threading.Event()

class Slow(str):
    def __hash__(self):
        inside.set()
        leave.wait(60)
        return 7

thread = threading.Thread(target=lambda: busy.get(Slow("x")))
thread.start()
inside.wait(60)
child = os.fork()
if child == 0:
    busy.put(2, "child's")
    os._exit(0 if (quiet.values(), busy.values()) == (["parent's"], ["child's"]) else 1)
leave.set()
thread.join()
assert busy.values() == ["parent's"]
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_has_what_nobody_was_changing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.strip(), done.stderr) == ("0", "")
