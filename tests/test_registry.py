"""The one registry class: priorities, duplicates, loader, fallback, near names, threads."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import DuplicateError, NotFoundError
from tazza.registry import MISSING_MOST, Registry, note_change


def colours(**values: int) -> Registry[str, int]:
    made: Registry[str, int] = Registry("colour")
    for key, value in values.items():
        made.register(key, value, help=f"{key} it is")
    return made


def test_a_decorator_binds_and_returns_what_it_decorates() -> None:
    made: Registry[str, object] = Registry("function")

    @made.registering("f", help="does nothing")
    def function() -> None: ...

    assert made["f"] is function
    assert made.help("f") == "does nothing"
    assert made.help("g") == ""


def test_the_same_priority_is_a_duplicate_and_changes_nothing() -> None:
    made = colours(red=1)
    with pytest.raises(DuplicateError, match="colour 'red' is registered already, with the same priority 0"):
        made.register("red", 2)
    assert made["red"] == 1


@given(st.lists(st.integers(-5, 5), min_size=1, unique=True))
def test_the_highest_priority_wins_in_any_order(priorities: list[int]) -> None:
    made: Registry[str, int] = Registry("colour")
    for priority in priorities:
        made.register("red", priority, priority=priority)
    entry = made.entry("red")
    assert entry is not None
    assert entry.value == entry.priority == max(priorities)


def test_a_default_is_taken_where_nothing_is_bound() -> None:
    made: Registry[str, int] = Registry("thing")
    made.setdefault("a", 1, help="first")
    made.setdefault("a", 2)
    assert (made["a"], made.help("a")) == (1, "first")


def test_unregister_forgets_and_ignores_the_unknown() -> None:
    made = colours(red=1)
    made.unregister("red")
    made.unregister("red")
    assert "red" not in made
    assert made.get("red") is None
    assert len(made) == 0


def test_keys_are_sorted_and_counted() -> None:
    made = colours(red=1, blue=2, green=3)
    assert list(made) == made.keys() == ["blue", "green", "red"]
    assert len(made) == 3


def test_the_loader_brings_what_is_missing_and_known_lists_it() -> None:
    asked: list[str] = []

    def load(key: str) -> None:
        asked.append(key)
        if key == "pink":
            made.register("pink", 7)

    made: Registry[str, int] = Registry("colour", loader=load, listed=lambda: frozenset({"pink"}))
    assert made.keys() == ["pink"]
    assert made["pink"] == 7
    assert made["pink"] == 7
    assert asked == ["pink"]
    assert made.get("grey") is None


def test_the_loader_is_asked_again_once_something_was_registered() -> None:
    """What a loader can bring may depend on what is in other registries."""
    asked: list[str] = []
    made: Registry[str, int] = Registry("colour", loader=asked.append)
    other: Registry[str, int] = Registry("shape")
    assert [made.get("grey") for _ in range(3)] == [None] * 3
    assert asked == ["grey"]
    other.register("round", 1)
    assert made.get("grey") is None
    assert asked == ["grey"] * 2
    note_change()
    assert made.get("grey") is None
    assert asked == ["grey"] * 3
    made.register("grey", 3)
    assert made["grey"] == 3


def test_the_fallback_is_asked_last_and_hidden_by_own_keys() -> None:
    lower = colours(red=1, blue=2)
    upper: Registry[str, int] = Registry("colour", fallback=lower)
    upper.register("red", 10)
    assert (upper["red"], upper["blue"], lower["red"]) == (10, 2, 1)
    assert upper.keys() == ["blue", "red"]
    assert upper.help("blue") == "blue it is"


@pytest.mark.parametrize(
    ("made", "key", "hint"),
    [
        (colours(crimson=1, purple=2), "crimsom", "did you mean crimson?"),
        (colours(crimson=1, purple=2), "xyz", "known: crimson, purple"),
        (colours(**{f"c{i:02}": i for i in range(21)}), "xyz", "21 are known, none has a name like it"),
        (colours(), "xyz", "none is registered"),
    ],
    ids=["near", "all", "many", "none"],
)
def test_a_missing_key_names_near_ones(made: Registry[str, int], key: str, hint: str) -> None:
    with pytest.raises(NotFoundError, match=f"^unknown colour '{key}'\n  hint: {hint}"):
        _ = made[key]


def test_keys_that_nobody_knows_are_not_remembered_without_end() -> None:
    asked: list[int] = []
    made: Registry[int, str] = Registry("number", loader=asked.append)
    for key in range(3 * MISSING_MOST):
        assert made.get(key) is None
        assert key not in made
    assert len(made._missing) <= MISSING_MOST  # pyright: ignore[reportPrivateUsage] -- nothing else tells
    assert asked == list(range(3 * MISSING_MOST)), "once each, as long as it is remembered"


def test_of_many_threads_exactly_one_registers_a_key() -> None:
    made: Registry[int, int] = Registry("number")
    threads, keys = 8, 200
    start = threading.Barrier(threads)

    def work(thread: int) -> int:
        start.wait()
        won = 0
        for key in range(keys):
            try:
                made.register(key, thread)
                won += 1
            except DuplicateError:
                assert made[key] != thread
        return won

    with ThreadPoolExecutor(threads) as pool:
        assert sum(pool.map(work, range(threads))) == keys
    assert len(made) == keys


HALF: Registry[str, Callable[[], int]] = Registry("half of a module")


def test_who_finds_an_entry_while_its_module_is_imported_waits_for_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "import time\nfrom tests.test_registry import HALF\nHALF.register('half', lambda: below)\ntime.sleep(0.05)"
    (tmp_path / "half_of_a_module.py").write_text(f"{text}\nassert HALF['half']\nbelow = 7\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with ThreadPoolExecutor(1) as pool:
        imported = pool.submit(importlib.import_module, "half_of_a_module")
        while not HALF.registered() and not imported.done():
            time.sleep(0.001)
        assert HALF["half"]() == 7
        imported.result()


def test_threads_that_wait_for_the_modules_of_each_other_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for own, other in (("one", "two"), ("two", "one")):
        text = f"import time\nfrom tests.test_registry import HALF\nHALF.register('{own}', lambda: 7)\n"
        wait = f"while '{other}' not in HALF.registered(): time.sleep(0.001)\nassert HALF['{other}']() == 7\n"
        (tmp_path / f"{own}_of_two.py").write_text(text + wait)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with ThreadPoolExecutor(2) as pool:
        for imported in [pool.submit(importlib.import_module, f"{own}_of_two") for own in ("one", "two")]:
            imported.result()
