"""The linker of compiled objects: what it links runs, and what it does not know is refused and never crashes."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.runtime import native_code
from tazza.runtime.object_code import UnsupportedObject, load_object, unavailable
from tazza.runtime.openmp import openmp_address, openmp_unavailable

REASON = native_code.unavailable() if unavailable() is None else unavailable()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

MODELS = {
    "jit": {"jit": True},
    "near": {"codemodel": "small", "reloc": "pic"},
    "low": {"codemodel": "small", "reloc": "static"},
}
"""How far code may lie from data and other code: anywhere, within 2 GiB, in the lowest 2 GiB."""

SQUARES = """
@squares = private constant [4 x i64] [i64 0, i64 1, i64 4, i64 9]
define i64 @kernel(i64 %i) {
  %at = getelementptr [4 x i64], ptr @squares, i64 0, i64 %i
  %value = load i64, ptr %at
  ret i64 %value
}
"""
CHOICE = """
@functions = private constant [2 x ptr] [ptr @one, ptr @two]
define internal i64 @one(i64 %a) noinline { %b = add i64 %a, 1
  ret i64 %b }
define internal i64 @two(i64 %a) noinline { %b = add i64 %a, 2
  ret i64 %b }
define i64 @kernel(i64 %i) {
  %at = getelementptr [2 x ptr], ptr @functions, i64 0, i64 %i
  %f = load ptr, ptr %at
  %first = call i64 %f(i64 %i)
  %second = call i64 @two(i64 %first)
  ret i64 %second
}
"""
POWER = """
declare float @expf(float)
declare i64 @labs(i64)
define i64 @kernel(i64 %i) {
  %positive = call i64 @labs(i64 %i)
  %x = sitofp i64 %positive to float
  %y = call float @expf(float %x)
  %scaled = fmul float %y, 1000.0
  %z = fptosi float %scaled to i64
  ret i64 %z
}
"""
TEAM = """
declare void @GOMP_parallel(ptr, ptr, i32, i32)
define internal void @part(ptr %sum) { %old = atomicrmw add ptr %sum, i64 5 seq_cst
  ret void }
define i64 @kernel(i64 %n) {
  %sum = alloca i64
  store i64 0, ptr %sum
  %threads = trunc i64 %n to i32
  call void @GOMP_parallel(ptr @part, ptr %sum, i32 %threads, i32 0)
  %value = load i64, ptr %sum
  ret i64 %value
}
"""
ADDRESS = """
declare i64 @labs(i64)
define i64 @kernel(i64 %unused) { ret i64 ptrtoint (ptr @labs to i64) }
"""
FAR = """
declare i64 @far_away(i64)
define i64 @kernel(i64 %a) { %b = call i64 @far_away(i64 %a)
  %c = add i64 %b, 1
  ret i64 %c }
"""
COUNTER = """
@count = internal global i64 7
define i64 @kernel(i64 %a) { %old = load i64, ptr @count
  store i64 %a, ptr @count
  ret i64 %old }
"""
ZEROED = COUNTER.replace("7", "0")
OWN = COUNTER.replace("global", "thread_local global")


@functools.cache
def compile_text(text: str, model: str = "jit") -> bytes:
    """Return the object of a module of LLVM; none of its functions are inlined."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(opt=2, **MODELS[model])
    return bytes(machine.emit_object(llvm.parse_assembly(text)))


def run(data: bytes, value: int, **symbols: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(load_object(data, "kernel", symbols))(value)


@pytest.mark.parametrize("model", ["jit", "near"])
@pytest.mark.parametrize(
    ("text", "value", "wanted"),
    [(SQUARES, 3, 9), (CHOICE, 0, 3), (CHOICE, 1, 5), (POWER, -2, 7389)],
    ids=["constants", "internal", "internal-2", "libm"],
)
def test_what_is_linked_runs(model: str, text: str, value: int, wanted: int) -> None:
    assert run(compile_text(text, model), value) == wanted


@pytest.mark.parametrize("model", ["jit", "near"])
@pytest.mark.skipif(openmp_unavailable() is not None, reason=str(openmp_unavailable()))
def test_a_team_of_threads(model: str) -> None:
    assert run(compile_text(TEAM, model), 3, GOMP_parallel=openmp_address("GOMP_parallel")) == 15


@pytest.mark.parametrize("model", ["jit", "near"])
def test_an_address_is_the_real_one(model: str) -> None:
    """Not the one of a jump in our mapping."""
    wanted = ctypes.cast(ctypes.CDLL(None).labs, ctypes.c_void_p).value
    assert run(compile_text(ADDRESS, model), 0) == wanted


@pytest.mark.parametrize("model", ["jit", "near"])
def test_given_symbols_come_first_and_may_be_far_away(model: str) -> None:
    def twice(value: int) -> int:
        return 2 * value

    double = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(twice)
    address = ctypes.cast(double, ctypes.c_void_p).value
    assert address is not None
    assert run(compile_text(FAR, model), 21, far_away=address) == 43
    assert run(compile_text(FAR.replace("far_away", "labs"), model), -4, labs=address) == -7


@pytest.mark.parametrize("text", [SQUARES, FAR])
def test_memory_is_never_writable_and_executable(text: str) -> None:
    address = load_object(compile_text(text), "kernel", {"far_away": 1 << 40})
    found: list[str] = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        extent, mode, *_ = line.split()
        begin, end = (int(one, 16) for one in extent.split("-"))
        if begin <= address < end:
            found.append(mode)
    assert found == ["r-xp"]


@pytest.mark.parametrize(
    ("text", "model", "message"),
    [
        (FAR, "jit", "the symbol 'far_away' is unknown"),
        (FAR, "near", "the symbol 'far_away' is unknown"),
        (COUNTER, "near", "section '.data'"),
        (ZEROED, "near", "section '.bss'"),
        (OWN, "near", "section '.tdata'"),
        (SQUARES, "low", "in 32 bits"),
        (SQUARES.replace("@kernel", "@other"), "jit", "no function 'kernel'"),
        (SQUARES.replace("define", "define internal") + "@used = constant ptr @kernel", "jit", "no function 'kernel'"),
    ],
    ids=["unknown", "unknown-near", "data", "bss", "thread", "far", "no-function", "local"],
)
def test_what_is_refused(text: str, model: str, message: str) -> None:
    before = len(Path("/proc/self/maps").read_text().splitlines())
    with pytest.raises(UnsupportedObject, match=message):
        load_object(compile_text(text, model), "kernel", {})
    assert len(Path("/proc/self/maps").read_text().splitlines()) <= before + 4  # the heap may grow, nothing is left


SECTIONS_AT, SECTION_BYTES = 40, 64


def section(data: bytes, type: int, flags: int = 0) -> int:
    """Return where the header of the first section of a type is that has some flags and any bytes."""
    (start,) = struct.unpack_from("<Q", data, SECTIONS_AT)
    for at in range(start, len(data), SECTION_BYTES):
        _, kind, has, _, _, size = struct.unpack_from("<IIQQQQ", data, at)
        if kind == type and has & flags == flags and size:
            return at
    raise AssertionError(f"no section of type {type}")


def changed(data: bytes, at: int, layout: str, value: int) -> bytes:
    copy = bytearray(data)
    struct.pack_into(layout, copy, at, value)
    return bytes(copy)


PROGBITS, SYMTAB, STRTAB, RELA, EXECUTE = 1, 2, 3, 4, 4
HEADER_DAMAGE = {
    "magic": (0, "<B", 0, "no relocatable ELF"),
    "class": (4, "<B", 1, "no relocatable ELF"),
    "byte order": (5, "<B", 2, "no relocatable ELF"),
    "executable": (16, "<H", 2, "no relocatable ELF"),
    "machine": (18, "<H", 183, "no relocatable ELF"),
    "table": (SECTIONS_AT, "<Q", 1 << 63, "section headers end"),
    "header size": (58, "<H", 63, "section headers have 63"),
    "count": (60, "<H", 0xFFFF, "section headers end"),
    "names": (62, "<H", 0xFFFF, "names are in section"),
}
SECTION_DAMAGE = {
    "flag": (PROGBITS, EXECUTE, 8, "<Q", 0x806, "flags 0x806"),
    "writable": (PROGBITS, EXECUTE, 8, "<Q", 7, "flags 0x7"),
    "type": (PROGBITS, EXECUTE, 4, "<I", 14, "type 0xe"),
    "offset": (PROGBITS, EXECUTE, 24, "<Q", 1 << 62, "contents of a section end"),
    "size": (PROGBITS, EXECUTE, 32, "<Q", 1 << 62, "overlap"),
    "alignment": (PROGBITS, EXECUTE, 48, "<Q", 24, "is aligned to 24"),
    "wide alignment": (PROGBITS, EXECUTE, 48, "<Q", 1 << 40, "is aligned to"),
    "name": (PROGBITS, EXECUTE, 0, "<I", 1 << 30, "has no end"),
    "symbol size": (SYMTAB, 0, 56, "<Q", 25, "entries of 25"),
    "symbol names": (SYMTAB, 0, 40, "<I", 0, "holds no names"),
    "no symbols": (SYMTAB, 0, 4, "<I", PROGBITS, "0 symbol tables"),
    "unknown": (RELA, 0, 4, "<I", 17, "unknown type 0x11"),
    "relocation size": (RELA, 0, 56, "<Q", 0, "entries of 0"),
    "relocation symbols": (RELA, 0, 40, "<I", 1, "has no symbols"),
    "relocation end": (RELA, 0, 24, "<Q", 1 << 62, "contents of a section end"),
}


@pytest.mark.parametrize(("at", "layout", "value", "message"), HEADER_DAMAGE.values(), ids=HEADER_DAMAGE.keys())
def test_a_damaged_header(at: int, layout: str, value: int, message: str) -> None:
    with pytest.raises(UnsupportedObject, match=message):
        load_object(changed(compile_text(SQUARES), at, layout, value), "kernel", {})


@pytest.mark.parametrize(
    ("type", "flags", "at", "layout", "value", "message"), SECTION_DAMAGE.values(), ids=SECTION_DAMAGE.keys()
)
def test_a_damaged_section(type: int, flags: int, at: int, layout: str, value: int, message: str) -> None:
    data = compile_text(SQUARES)
    with pytest.raises(UnsupportedObject, match=message):
        load_object(changed(data, section(data, type, flags) + at, layout, value), "kernel", {})


@pytest.mark.parametrize(
    ("at", "layout", "value", "message"),
    [
        (0, "<Q", 1 << 62, "in a section of"),
        (0, "<Q", 10_000, "in a section of"),
        (8, "<I", 37, "relocation 37 is unknown"),
        (12, "<I", 999, "symbol 999 of"),
        (12, "<I", 1, "a symbol"),  # the one that names the file
        (12, "<I", 0, "the symbol '' is unknown"),
    ],
)
def test_a_damaged_relocation(at: int, layout: str, value: int, message: str) -> None:
    data = compile_text(SQUARES)
    (first,) = struct.unpack_from("<Q", data, section(data, RELA) + 24)
    with pytest.raises(UnsupportedObject, match=message):
        load_object(changed(data, first + at, layout, value), "kernel", {})


def test_every_truncation_is_refused() -> None:
    data = compile_text(CHOICE)
    for size in range(len(data)):
        with pytest.raises(UnsupportedObject):
            load_object(data[:size], "kernel", {})


@given(st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=4), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_damage_crashes(changes: list[tuple[int, int]], near: bool) -> None:
    """An object is linked or refused; nothing of it is run here."""
    data = bytearray(compile_text(POWER if near else CHOICE, "near" if near else "jit"))
    for at, value in changes:
        data[at % len(data)] = value
    try:
        address = load_object(bytes(data), "kernel", {})
    except UnsupportedObject:
        return
    assert address > 0


BOTH_WAYS = """
import hashlib, sys
import numpy as np
from tazza.operator import run_op
from tazza.runtime.native_code import describe_code
x = np.random.default_rng(1).standard_normal((3, 4, 17, 19)).astype(np.float32)
results = [run_op(type, x, engine="native") for type in ("Tanh", "Exp", "Gelu", "Softsign", "Elu", "Softplus")]
results += [run_op("Softmax", x, axis=1, engine="native"), run_op("Mul", x, x[0], broadcast=1, engine="native")]
for one in results:
    print(hashlib.sha256(np.ascontiguousarray(one).tobytes()).hexdigest())
print(describe_code().split(",")[0], "llvmlite" in sys.modules, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.skipif(openmp_unavailable() is not None, reason=str(openmp_unavailable()))
def test_llvm_links_the_same_kernels_to_the_same_bits(tmp_path: Path) -> None:
    """The flag `own_linker` on, with a cold and a warm cache, and off: then nothing is kept."""

    def another_process(own: int) -> tuple[list[str], str]:
        environment = {**os.environ, "TAZZA_CACHE_DIR": str(tmp_path / str(own)), "TAZZA_OWN_LINKER": str(own)}
        command = [sys.executable, "-c", BOTH_WAYS]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120, env=environment)
        return done.stdout.split(), done.stderr.strip()

    cold, warm, by_llvm = another_process(1), another_process(1), another_process(0)
    assert len(set(cold[0])) == 8
    assert cold == (by_llvm[0], "linked by tazza True")
    assert warm == (by_llvm[0], "linked by tazza False")
    assert by_llvm[1] == "linked by LLVM True"
    assert len(list((tmp_path / "1").glob("*.o"))) >= 8
    assert not (tmp_path / "0").exists()


@pytest.mark.parametrize(("text", "value", "wanted"), [(CHOICE, 1, 5), (POWER, -2, 7389)], ids=["internal", "libm"])
def test_with_the_flag_off_llvm_links(
    text: str, value: int, wanted: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*unused: object) -> int:
        raise AssertionError("our own linker was asked")

    monkeypatch.setattr(native_code, "load_object", never)
    with native_code.OWN_LINKER.override(False), native_code.CACHE_DIR.override(str(tmp_path)):
        address = native_code.native_function(f"both ways {text}", lambda name: text.replace("@kernel", f"@{name}"))
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(value) == wanted
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import sys
import numpy as np
from tazza.operator import run_op
from tazza.runtime.native_code import processor
from tazza.runtime.segment import Segment
run_op("Tanh", np.ones(5, np.float32), engine="native")
print(Segment([]).run(), "tanh", processor().vector_bytes > 0, "llvmlite" in sys.modules)
"""


@pytest.mark.slow
def test_a_warm_cache_needs_no_llvm(tmp_path: Path) -> None:
    if openmp_unavailable() is not None:
        pytest.skip(str(openmp_unavailable()))

    def another_process() -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env={**os.environ, "TAZZA_CACHE_DIR": str(tmp_path)},
        )
        return done.stdout.strip()

    assert another_process() == "(0, 0) tanh True True"
    assert another_process() == "(0, 0) tanh True False"
