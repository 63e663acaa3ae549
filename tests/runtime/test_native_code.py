"""Compiled functions and their cache on disk."""

from __future__ import annotations

import ctypes
import importlib
import importlib.machinery
import importlib.util
import logging
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tazza.errors import KernelError, UnavailableError
from tazza.runtime import native_code
from tazza.runtime.native_code import (
    CACHE_DIR,
    OWN_LINKER,
    cache_folder,
    llvm_version,
    native_function,
    processor,
    source_digest,
    unavailable,
)
from tazza.runtime.object_code import UnsupportedObject

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


@pytest.mark.slow
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
        native_code.ADDRESSES.clear()  # as in a new process
        with caplog.at_level(logging.WARNING):
            assert call(native_function(f"{name}", plus(5)), 2) == 7
        assert "is damaged" in caplog.text
        assert entry.read_bytes() == whole


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_an_entry_that_others_can_write_is_made_again(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    with CACHE_DIR.override(str(tmp_path)):
        name = f"mode {mode}"
        assert call(native_function(name, plus(8)), 1) == 9
        (entry,) = tmp_path.glob("*.o")
        assert entry.stat().st_mode & 0o777 == 0o600
        entry.chmod(mode)
        native_code.ADDRESSES.clear()  # as in a new process
        with caplog.at_level(logging.WARNING):
            assert call(native_function(name, plus(8)), 2) == 10
        assert "could be written by other users" in caplog.text
        assert entry.stat().st_mode & 0o777 == 0o600


def test_an_entry_of_another_user_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with CACHE_DIR.override(str(tmp_path)):
        assert call(native_function("owner", plus(4)), 1) == 5
        native_code.ADDRESSES.clear()  # as in a new process
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
        with caplog.at_level(logging.WARNING):
            assert call(native_function("owner", plus(4)), 2) == 6
        assert "could be written by other users" in caplog.text


def test_llvm_links_what_the_loader_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*unused: object) -> int:
        raise UnsupportedObject("a test refuses it")

    monkeypatch.setattr(native_code, "no_loader", lambda: None)
    monkeypatch.setattr(native_code, "load_object", refuse)
    with CACHE_DIR.override(str(tmp_path)), caplog.at_level(logging.WARNING):
        assert call(native_function("refused", plus(6)), 1) == 7
    assert "is linked by LLVM, which takes longer: a test refuses it" in caplog.text


def test_llvm_links_where_there_is_no_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(native_code, "no_loader", lambda: "another processor")
    with CACHE_DIR.override(str(tmp_path)), caplog.at_level(logging.WARNING):
        assert call(native_function("elsewhere", plus(7)), 1) == 8
    assert not caplog.text


def test_an_object_without_its_function(tmp_path: Path) -> None:
    with CACHE_DIR.override(str(tmp_path)), pytest.raises(KernelError, match="has no function"):
        native_function("nameless", lambda name: plus(1)(f"other_{name}"))


@pytest.mark.parametrize("own", [False, True])
def test_code_that_calls_what_nobody_has(own: bool, tmp_path: Path) -> None:
    """LLVM puts in such calls itself, for what a processor cannot, and would let them go to address 0."""

    def build(name: str) -> str:
        calls = "declare i64 @nobody_has_this(i64)\n"
        return calls + f"define i64 @{name}(i64 %a) {{ %b = call i64 @nobody_has_this(i64 %a)\n ret i64 %b }}"

    with CACHE_DIR.override(str(tmp_path)), OWN_LINKER.override(own):
        with pytest.raises(KernelError, match=r"compiled code calls nobody_has_this, which is not there on \w+"):
            native_function("nobody", build)


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


def test_the_processor_is_as_llvm_sees_it() -> None:
    """Names of the features that decide on vectors are those of Linux and of LLVM."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    features = llvm.get_host_cpu_features()
    for name in ("avx2", "avx512f", "fma"):
        assert processor().has(name) == features.get(name, False)


def test_a_processor_that_linux_does_not_describe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = processor.__wrapped__
    monkeypatch.setattr(native_code, "CPU_INFO", tmp_path / "none")
    assert told().vector_bytes == processor().vector_bytes
    monkeypatch.setattr(native_code, "unavailable", lambda: "the package llvmlite is missing")
    assert told().name.startswith(platform.machine())
    assert told().vector_bytes == 16


def test_what_linux_says_of_a_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "cpuinfo"
    info.write_text("processor\t: 0\nmodel name\t: Cup 3: big\nflags\t\t: fpu avx2\npower:\n\nflags\t: avx512f\n")
    monkeypatch.setattr(native_code, "CPU_INFO", info)
    found = processor.__wrapped__()
    assert "Cup 3: big" in found.name
    assert found.features == "+avx2,+fpu"


def test_the_version_of_llvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    version = importlib.import_module("llvmlite").__version__
    assert llvm_version() == version
    empty = importlib.machinery.ModuleSpec("llvmlite", None, origin=str(tmp_path / "llvmlite" / "__init__.py"))

    def find(name: str) -> importlib.machinery.ModuleSpec:
        assert name == "llvmlite"
        return empty

    monkeypatch.setattr(importlib.util, "find_spec", find)
    assert llvm_version.__wrapped__() == version


def test_a_version_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    for version in ("0.44.1", "0+unknown"):
        monkeypatch.setattr(native_code, "llvm_version", lambda version=version: version)
        assert f"llvmlite {version} is older than 0.45" in str(unavailable.__wrapped__())
    monkeypatch.setattr(native_code, "llvm_version", lambda: "0.45rc1")
    assert unavailable.__wrapped__() is None


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
