"""Compiled objects that are kept: a process without a home keeps none, and no damage to one ends a process."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tazza.runtime import native_code
from tazza.runtime.native_code import MAGIC, unavailable
from tazza.runtime.object_code import unavailable as no_loader

REASON = unavailable() if no_loader() is None else no_loader()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

HEAD = len(MAGIC) + 32

NET = """
import pwd, sys
def unknown(uid):
    raise KeyError(uid)
pwd.getpwuid = unknown
import numpy as np
from tazza import Workspace
from tazza.nets import create_net
from tazza.operator import operator_def
from tazza.proto import NetDef
ws = Workspace()
ws.feed("x", np.linspace(-3, 3, 70, dtype=np.float32))
ops = [operator_def("Relu", ["x"], ["y"], engine="native"), operator_def("Sigmoid", ["y"], ["z"], engine="native")]
net = create_net(NetDef(name="n", type=sys.argv[1], op=ops, external_input=["x"],
                        external_output=["z"]), ws)
from tazza.runtime.flags import FLAGS
FLAGS["exhaustive_search"].set(sys.argv[1] == "plan")
net.run()
print(net.explain())
assert np.allclose(ws.fetch("z"), 1 / (1 + np.exp(-np.maximum(np.linspace(-3, 3, 70), 0))), atol=1e-5)
print("ran")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("home", "kind"), [(None, "simple"), (None, "plan"), ("/proc", "plan")])
def test_nets_run_without_a_home(tmp_path: Path, home: str | None, kind: str) -> None:
    """As cron and containers with any user start processes: no HOME, no entry of the user, or nowhere to write."""
    placed = ("HOME", "XDG_CACHE_HOME", "TAZZA_CACHE_DIR")
    kept = {name: value for name, value in os.environ.items() if name not in placed}
    environment = kept if home is None else {**kept, "HOME": home}
    done = subprocess.run(
        [sys.executable, "-c", NET, kind],
        env={**environment, "MPLCONFIGDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("ran\n")
    assert "native" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_user_without_home_is_told_once_and_quietly(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless(self: Path) -> Path:
        raise RuntimeError(f"Could not determine home directory of {self}")

    monkeypatch.setattr(Path, "expanduser", homeless)
    with native_code.CACHE_DIR.override("~nobody/cache"):
        assert native_code.cache_folder() is None
    with native_code.CACHE_DIR.override("~nobody/cache"):
        assert native_code.cache_folder() is None


# -- damage ------------------------------------------------------------------------------------------------------------

PROGRAM = """
import ctypes, sys
from pathlib import Path
from tazza.runtime.native_code import CACHE_DIR, native_function
def build(name):
    return (f"@table{name} = private constant [4 x i64] [i64 1, i64 2, i64 3, i64 4]\\n"
            f"declare float @expf(float)\\ndefine i64 @{name}(i64 %a) {{"
            f"%p = getelementptr [4 x i64], ptr @table{name}, i64 0, i64 %a\\n"
            f"%v = load i64, ptr %p\\n"
            f"%f = sitofp i64 %v to float\\n"
            f"%e = call float @expf(float %f)\\n%i = fptosi float %e to i64\\nret i64 %i }}")
for number, folder in enumerate(sys.argv[1:]):
    print("at", folder, flush=True)
    CACHE_DIR.set(folder)
    from tazza.runtime import native_code
    native_code.ADDRESSES.clear()
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(native_function("damage", build))
    assert [function(i) for i in range(4)] == [2, 7, 20, 54], folder
    other = lambda name: build(name).replace("i64 1, i64 2, i64 3, i64 4", "i64 4, i64 3, i64 2, i64 1")
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(native_function("other", other))
    assert [function(i) for i in range(4)] == [54, 20, 7, 2], folder
print("all right")
"""


def load_all(folders: list[Path]) -> None:
    """Load the functions of each folder in one process, and call them."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, folders)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["all right"]), done.stdout[-300:] + done.stderr


def sealed(name: str, code: bytes) -> bytes:
    """Return an entry under its right checksum."""
    return MAGIC + native_code._checksum(Path(name), code) + code  # pyright: ignore[reportPrivateUsage] -- what is judged


def structure(code: bytes) -> list[int]:
    """Return the offsets of the bytes of an object that say how it is linked: all but contents, symbols and addends.

    What is in machine code, constants, values of symbols and addends cannot be judged by whoever links it.
    """
    start, size, count = (*struct.unpack_from("<Q", code, 40), *struct.unpack_from("<HH", code, 58))
    offsets = [*range(64), *range(start, start + size * count)]
    for at in range(start, start + size * count, size):
        kind, offset, length = (
            struct.unpack_from(form, code, at + by)[0] for form, by in (("<I", 4), ("<Q", 24), ("<Q", 32))
        )
        if kind == 4:
            offsets += [byte for byte in range(offset, offset + length) if (byte - offset) % 24 in range(8, 16)]
    return offsets


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The two entries of the program: name -> content."""
    folder = tmp_path_factory.mktemp("whole")
    load_all([folder])
    found = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert len(found) == 2
    return found


def store(folder: Path, contents: dict[str, bytes]) -> Path:
    """Make a cache of these entries."""
    folder.mkdir(mode=0o700)
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    return folder


Damage = Callable[[bytes, random.Random], bytes]


def _changed(content: bytes, source: random.Random) -> bytes:
    data = bytearray(content)
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    return bytes(data)


def _cut(content: bytes, source: random.Random) -> bytes:
    return content[: source.randrange(len(content))]


def _zeroed(content: bytes, source: random.Random) -> bytes:
    at = source.randrange(len(content))
    return content[:at] + bytes(min(512, len(content) - at)) + content[at + 512 :]


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_changed, _cut, _zeroed])
def test_any_damage_is_compiled_again(tmp_path: Path, entries: dict[str, bytes], damage: Damage) -> None:
    source = random.Random(3)
    folders = [
        store(tmp_path / f"{number}", {name: damage(content, source) for name, content in entries.items()})
        for number in range(12)
    ]
    load_all(folders)
    for folder in folders:
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == entries, "what is sound replaces it"


@pytest.mark.slow
def test_an_entry_under_the_name_of_another_is_compiled_again(tmp_path: Path, entries: dict[str, bytes]) -> None:
    (first, one), (second, two) = entries.items()
    swapped = store(tmp_path / "swapped", {first: two, second: one})
    resealed = store(tmp_path / "resealed", {first: sealed(first, two[HEAD:]), second: sealed(second, one[HEAD:])})
    load_all([swapped, resealed])
    for folder in (swapped, resealed):
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == entries


LINK = """
import random, sys
from pathlib import Path
from tazza.runtime.object_code import UnsupportedObject, load_object
sys.path.insert(0, sys.argv[4])
code, name, symbols = Path(sys.argv[1]).read_bytes(), sys.argv[2], {}
offsets = [int(word) for word in Path(sys.argv[3]).read_text().split()]
source, linked = random.Random(7), 0
for number in range(int(sys.argv[5])):
    data = bytearray(code)
    for _ in range(source.choice((1, 1, 2, 4))):
        data[source.choice(offsets)] = source.choice((0, 1, 127, 255, source.randrange(256)))
    try:
        load_object(bytes(data), name, symbols)
        linked += 1
    except UnsupportedObject:
        pass
print("linked", linked)
"""


@pytest.mark.slow
@pytest.mark.parametrize("everywhere", [False, True])
def test_no_object_ends_the_process_that_links_it(tmp_path: Path, entries: dict[str, bytes], everywhere: bool) -> None:
    """Thousands of changes under a right checksum: linked or refused, whatever the numbers say."""
    name, content = next(iter(entries.items()))
    code = content[HEAD:]
    (tmp_path / "code").write_bytes(code)
    offsets = range(len(code)) if everywhere else structure(code)
    (tmp_path / "offsets").write_text(" ".join(map(str, offsets)))
    arguments = [str(tmp_path / "code"), f"tazza_{name[:32]}", str(tmp_path / "offsets"), "", "2000"]
    done = subprocess.run([sys.executable, "-c", LINK, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout[:6]) == (0, "linked"), done.stderr


@pytest.mark.slow
def test_what_the_linker_refuses_is_compiled_again(tmp_path: Path, entries: dict[str, bytes]) -> None:
    """Damaged inside, under a right checksum: LLVM's linker, which would end the process, never sees it."""
    source, folders = random.Random(11), list[Path]()
    for number in range(30):
        made: dict[str, bytes] = {}
        for name, content in entries.items():
            code = bytearray(content[HEAD:])
            start = struct.unpack_from("<Q", code, 40)[0]
            at = source.choice(
                [*range(0, 20), *range(40, 48), *range(58, 64), *range(start + 64 + 24, start + 64 + 40)]
            )
            code[at] ^= 0x80 | source.randrange(128)
            made[name] = sealed(name, bytes(code))
        folders.append(store(tmp_path / f"{number}", made))
    load_all(folders)
