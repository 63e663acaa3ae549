"""The model of the machine: measured once, kept, and replaced where it cannot be kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from tazza.runtime import machine as module
from tazza.runtime.machine import LEAST_RELATION, MODEL, NOMINAL, Machine, machine, measure, stored, undisturbed
from tazza.runtime.native_code import CACHE_DIR


@pytest.fixture(autouse=True)
def measured(tmp_path: Path) -> Iterator[None]:
    """Let each test begin on a machine that nobody measured."""
    module._measured_once.cache_clear()  # pyright: ignore[reportPrivateUsage] -- as in a new process
    with MODEL.override("measured"), CACHE_DIR.override(str(tmp_path / "kept")):
        yield
    module._measured_once.cache_clear()  # pyright: ignore[reportPrivateUsage]


def rates(value: float) -> Machine:
    return Machine(value, value, value)


def test_it_is_measured_once_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure", lambda: rates(7.0))
    assert machine() == rates(7.0)
    monkeypatch.setattr(module, "measure", lambda: rates(8.0))
    module._measured_once.cache_clear()  # pyright: ignore[reportPrivateUsage] -- as in a second process
    assert machine() == rates(7.0)


def test_another_processor_is_measured_beside_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of users are shared between machines."""
    file = tmp_path / "kept" / "machine.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"another": dict.fromkeys(Machine.__slots__, 3)}))
    monkeypatch.setattr(module, "measure", lambda: rates(7.0))
    assert machine() == rates(7.0)
    assert sorted(stored().values(), key=lambda one: one.flops_per_ns) == [rates(3.0), rates(7.0)]


@pytest.mark.parametrize("text", ["{", "[1]", '{"a": 1}', '{"a": {"flops_per_ns": 1}}', "3"])
def test_a_broken_file_is_told_and_measured_anew(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "machine.json").write_text(text)
    monkeypatch.setattr(module, "measure", lambda: rates(7.0))
    with caplog.at_level(logging.WARNING, "tazza"):
        assert machine() == rates(7.0)
    assert "models of machines are not used" in caplog.text or "measured anew" in caplog.text


@pytest.mark.parametrize("value", [0, -1])
def test_rates_are_positive(value: int, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "machine.json").write_text(json.dumps({"a": dict.fromkeys(Machine.__slots__, value)}))
    assert stored() == {}


def test_processes_agree_where_nothing_can_be_kept(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "kept").write_text("a file where the folder should be")
    with caplog.at_level(logging.INFO, "tazza"):
        assert machine() == NOMINAL
    assert "cannot be kept" in caplog.text


@pytest.mark.parametrize("memory", [0.01, 2.7])
def test_a_busy_moment_is_not_taken_for_the_machine(memory: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was kept then would choose for ever; a fast memory, or few operations, are believed."""
    monkeypatch.setattr(module, "measure", lambda: Machine(204.0, memory, 21.0))
    found = machine()
    assert (found.flops_per_ns, found.cache_bytes_per_ns) == (204.0, 21.0)
    nominal = NOMINAL.memory_bytes_per_ns / NOMINAL.flops_per_ns
    assert found.memory_bytes_per_ns / found.flops_per_ns == pytest.approx(LEAST_RELATION * nominal)
    assert undisturbed(found) == found
    assert undisturbed(Machine(2.0, 50.0, 60.0)) == Machine(2.0, 50.0, 60.0)


def test_the_sums_that_are_measured_are_computed() -> None:
    """A loop that a compiler leaves out would measure nothing: no core computes a thousand numbers in a nanosecond."""
    found = measure()
    assert min(found.flops_per_ns, found.memory_bytes_per_ns, found.cache_bytes_per_ns) > 0
    assert found.flops_per_ns < 10_000
