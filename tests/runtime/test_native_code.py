"""Compiled functions and their cache on disk."""

from __future__ import annotations

import ctypes
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from tazza.errors import UnavailableError
from tazza.runtime import native_code
from tazza.runtime.native_code import CACHE_DIR, cache_folder, native_function, processor, source_digest, unavailable

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

PROGRAM = """
import sys
from tazza.runtime.native_code import CACHE_DIR, native_function
CACHE_DIR.set(sys.argv[1])
def build(name):
    print("built")
    return f"define i64 @{name}(i64 %a) {{ %b = add i64 %a, 30\\n ret i64 %b }}"
import ctypes
print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(native_function("a test", build))(12))
"""


def another_process(folder: Path) -> list[str]:
    """Compile or load in a process of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.split()


def plus(number: int) -> native_code.Build:
    """Return what builds a function that adds a number."""
    return lambda name: f"define i64 @{name}(i64 %a) {{ %b = add i64 %a, {number}\n ret i64 %b }}"


def call(address: int, value: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(value)


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert another_process(tmp_path) == ["built", "42"]
    assert len(list(tmp_path.glob("*.o"))) == 1
    assert another_process(tmp_path) == ["42"]


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_entry_is_made_again(tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    with CACHE_DIR.override(str(tmp_path)):
        name = f"damage {damage}"
        assert call(native_function(name, plus(5)), 1) == 6
        (entry,) = tmp_path.glob("*.o")
        whole = entry.read_bytes()
        changed = {"cut": whole[:-7], "changed": whole[:-1] + bytes([whole[-1] ^ 1]), "empty": b""}
        entry.write_bytes(changed[damage])
        native_code._addresses.clear()  # pyright: ignore[reportPrivateUsage] -- as in a new process
        with caplog.at_level(logging.WARNING):
            assert call(native_function(f"{name}", plus(5)), 2) == 7
        assert "is damaged" in caplog.text
        assert entry.read_bytes() == whole


def test_one_description_is_compiled_once(tmp_path: Path) -> None:
    with CACHE_DIR.override(str(tmp_path)):
        first = native_function("once", plus(1))
        assert native_function("once", plus(2)) == first
        assert native_function("once", plus(2), sources="other") != first


def test_symbols_from_outside(tmp_path: Path) -> None:
    def twice(value: int) -> int:
        return 2 * value

    double = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(twice)
    address = ctypes.cast(double, ctypes.c_void_p).value
    assert address is not None

    def build(name: str) -> str:
        return (
            "declare i64 @test_double(i64)\n"
            f"define i64 @{name}(i64 %a) {{ %b = call i64 @test_double(i64 %a)\n ret i64 %b }}"
        )

    with CACHE_DIR.override(str(tmp_path)):
        assert call(native_function("outside", build, symbols={"test_double": address}), 21) == 42


def test_a_folder_that_cannot_be_written_costs_only_the_cache(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with CACHE_DIR.override(str(blocked / "below")):
        assert call(native_function("no folder", plus(3)), 4) == 7


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with CACHE_DIR.override(""):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "tazza"
        monkeypatch.delenv("XDG_CACHE_HOME")
        assert cache_folder() == Path.home() / ".cache" / "tazza"


def test_the_processor() -> None:
    found = processor()
    assert found.name
    assert found.vector_bytes in (16, 32, 64)
    assert not found.has("no such feature")


def test_a_change_of_sources_changes_their_digest(tmp_path: Path) -> None:
    one = tmp_path / "one.py"
    one.write_text("1")
    before = source_digest(one)
    one.write_text("2")
    assert source_digest(one) != before


def test_without_llvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_code, "unavailable", lambda: "the package llvmlite is missing")
    with pytest.raises(UnavailableError, match="llvmlite is missing"):
        native_function("never made", plus(1))
