"""Laws over everything that reads a file: whatever lies at a path, the error is typed and comes at once."""

from __future__ import annotations

import ast
import functools
import itertools
import json
import os
import random
import resource
import signal
import socket
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from tazza.cli.app import app
from tazza.cli.pictures import Pixels, read_images
from tazza.errors import TazzaError, UnavailableError
from tests.house.readers import READERS, Reader

PACKAGE = Path(__file__).parent.parent.parent / "src" / "tazza"


# -- one function opens files ------------------------------------------------------------------------------------------

OWN_FILES = {
    "runtime/files.py": "it is the one that opens",
    "runtime/threads.py": "files of the kernel",
    "runtime/cgroup.py": "files of the kernel",
    "runtime/imports.py": "files of the kernel",
    "device/cpu.py": "files of the kernel",
    "runtime/native_code.py": "files of the kernel, and sources of the package",
    "operator/index.py": "a file of the package",
    "tensor/names.py": "a file of the package",
    "engines/onednn/library.py": "lists that an installer wrote",
}
"""Modules that open files themselves, and why these are none that a person named."""

OPENERS = {
    "open",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
    "load",
    "fromfile",
    "memmap",
    "loadtxt",
    "stat",
}
LOOKERS = {"exists", "is_file", "is_dir", "is_symlink", "resolve", "iterdir", "readlink", "listdir"}
LIBRARIES = {"np", "numpy", "Image", "json", "os", "io", "tarfile", "zipfile", "gzip", "mmap", "lmdb"}
ALLOWED = {
    ("cli/pictures.py", "Image.open"): "a file that is open already",
    ("db/environment.py", "lmdb.open"): "a folder whose files were looked at",
    ("db/environment.py", "stat"): "a file that was looked at",
    ("db/minidb.py", "os.stat"): "the file that is open, looked for again",
    ("db/minidb.py", "open"): "a descriptor that is open already",
    ("db/place.py", "os.readlink"): "a link that leads nowhere",
    ("ops/print.py", "open"): "by the one opener",
    ("operator/operator.py", "self.open"): "no file",
    ("operator/operator.py", "kernel.open"): "no file",
}


@functools.cache
def _nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def _calls(path: Path) -> list[str]:
    """Return the calls in a module by which files are opened or looked at, as far as their names tell."""
    found: list[str] = []
    for node in _nodes(path):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if isinstance(function, ast.Name) and function.id == "open":
            found.append("open")
        elif isinstance(function, ast.Attribute) and function.attr in OPENERS | LOOKERS:
            owner = function.value.id if isinstance(function.value, ast.Name) else ""
            if function.attr == "load" and owner not in LIBRARIES:
                continue
            found.append(f"{owner}.{function.attr}" if owner in LIBRARIES | {"self", "kernel"} else function.attr)
    return found


def test_one_module_opens_the_files_that_people_name() -> None:
    others = {path: path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    found = {(name, call) for path, name in others.items() if name not in OWN_FILES for call in _calls(path)}
    assert found - set(ALLOWED) == set(), "go through tazza.runtime.files, or say why not"
    assert set(ALLOWED) - found == set(), "an exception that is not needed any more"


def test_every_module_that_reads_files_has_a_reader_in_the_table() -> None:
    """The readers are found to run through each module that uses the functions that open."""
    names = {"open_regular", "read_text", "read_json", "read_bytes", "regular_opener"}
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in _nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "tazza.runtime.files"
        if names & {alias.name for alias in node.names}
    }
    assert users - set(READ_BY) == set(), "name the reader that goes through this module"
    assert {name for named in READ_BY.values() for name in named} - {one.name for one in READERS} == set()


READ_BY: dict[str, list[str]] = {
    "proto/message.py": ["message", "text of a message"],
    "db/idx.py": ["idx", "images"],
    "db/place.py": ["minidb, read", "lmdb, read"],
    "db/minidb.py": ["minidb, read", "minidb, write"],
    "db/protodb.py": ["protodb, read"],
    "db/lmdb_pages.py": ["lmdb, read"],
    "db/image_source.py": ["data of a training"],
    "cli/history.py": ["history"],
    "cli/pictures.py": ["array", "picture"],
    "cli/train_settings.py": ["settings", "training to resume"],
    "tensor/safetensors.py": ["safetensors"],
    "nets/plan/search.py": ["table of a search"],
    "runtime/native_code.py": ["folder of compiled kernels"],
    "runtime/native.py": ["module"],
    "ops/print.py": [],
}
"""Modules that open files, and which readers of the table go through them; Print only writes (see its own tests)."""


# -- whatever lies at a path -------------------------------------------------------------------------------------------


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _socket(path: Path) -> Path:
    with socket.socket(socket.AF_UNIX) as made:
        here = os.getcwd()
        os.chdir(path.parent)  # its path has a length of at most 107
        try:
            made.bind(path.name)
        finally:
            os.chdir(here)
    return path


def _loop(path: Path) -> Path:
    path.symlink_to(path)
    return path


def _link_to(target: str) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.symlink_to(target)
        return path

    return make


def _folder_of_pipes(path: Path) -> Path:
    path.mkdir()
    for name in NAMES:
        os.mkfifo(path / name)
    return path


def _folder_of_loops(path: Path) -> Path:
    path.mkdir()
    for name in NAMES:
        (path / name).symlink_to(name)
    return path


def _folder_of_folders(path: Path) -> Path:
    for name in NAMES:
        (path / name).mkdir(parents=True)
    return path


def _below_a_file(path: Path) -> Path:
    path.write_bytes(b"a file")
    return path / path.name


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def _holding(data: bytes, *, length: int | None = None) -> Callable[[Path], Path]:
    def make(path: Path) -> Path:
        path.write_bytes(data)
        if length is not None:
            os.truncate(path, length)
        return path

    return make


NAMES = (
    "data.mdb",
    "lock.mdb",
    "CURRENT",
    "MANIFEST-000001",
    "init_net.pb",
    "predict_net.pb",
    "train-images-idx3-ubyte",
    "checkpoint.minidb",
    "settings.json",
    "history.csv",
    "search.json",
)
"""What folders are known by."""


def _png(width: int, height: int, *, depth: int = 8, colour: int = 2, pixels: bytes = b"") -> bytes:
    """Return a picture that declares a size, with whatever pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(pixels)) + chunk(b"IEND", b"")


def _npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def _safetensors(header: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header.encode() + data


CONTENTS: dict[str, bytes] = {
    "nothing": b"",
    "a zero": b"\0",
    "noise": random.Random(5).randbytes(3000),
    "letters": b"x" * 400_000,
    "no UTF-8": b"iteration,loss\n1,\xff\xfe",
    "deep JSON": b"[" * 200_000,
    "deep object": b'{"a":' * 100_000,
    "JSON of NaN": b'{"batch_size": NaN, "epochs": 1e999}',
    "JSON of another kind": b'[1, "a", null]',
    "JSON of wrong types": b'{"batch_size": "many", "seed": [1], "data": {}}',
    "a number of 10,000 digits": b'{"seed": ' + b"9" * 10_000 + b"}",
    "counters that are NaN": b"iteration,loss,accuracy,learning_rate,test_accuracy\nnan,nan,,,\n",
    "counters that are too long": b"iteration,loss,accuracy,learning_rate,test_accuracy\n"
    + b"9" * 9000
    + b",1,1,1,1\n",
    "a cell of 200,000 letters": b"a,b,c,d,e\n" + b"1" * 200_000 + b",1,1,1,1\n",
    "NUL in a table": b"a,b,c,d,e\n1,\0,,,\n",
    "deep text of a net": b"arg { nets { " * 20_000,
    "text of a net with a number of 10,000 digits": b"num_workers: " + b"9" * 10_000,
    "deep net": b"".join(bytes([0x12, 0]) for _ in range(10_000)),
    "IDX of rank 255": b"\0\0\x08\xff" + struct.pack(">255I", *[1] * 255) + b"\1",
    "IDX of rank 40 without elements": b"\0\0\x08\x28" + struct.pack(">40I", *[2**32 - 1] * 39, 0),
    "IDX without elements": b"\0\0\x08\3" + struct.pack(">3I", 0, 2**32 - 1, 2**32 - 1),
    "IDX of petabytes": b"\0\0\x0e\4" + struct.pack(">4I", *[2**20] * 4),
    "IDX of no elements of petabytes": b"\0\0\x0e\4" + struct.pack(">4I", 2**32 - 1, 2**32 - 1, 2**32 - 1, 0),
    "cut gzip": b"\x1f\x8b\x08\0\0\0\0\0\0\3\1",
    "picture of 67 gigapixels": _png(2**18, 2**18),
    "picture of 300 bytes and 100 megapixels": _png(10_000, 10_000, pixels=bytes(1000)),
    "picture of many pixels, one bit each": _png(30_000, 30_000, depth=1, colour=0),
    "picture without size": _png(0, 0),
    "picture that is cut": _png(64, 64, pixels=bytes(64 * 193))[:60],
    "picture with a bad filter": _png(3, 3, pixels=bytes([9] * 30)),
    "picture of colours that are not there": _png(3, 3, colour=7, pixels=bytes(100)),
    "picture in PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\n",
    "picture in TIFF with odd tags": b"II*\0"
    + struct.pack("<IHHHIIHHIII", 8, 2, 0x100, 4, 1, 2**31 - 1, 0x101, 4, 1, 2**31 - 1, 0),
    "picture in GIF of 4 gigapixels": b"GIF89a\xff\xff\xff\xff\x80\0\0\0\0\0\xff\xff\xff,"
    b"\0\0\0\0\xff\xff\xff\xff\0\2\2D\1\0;",
    "picture in BMP of a negative height": b"BM"
    + struct.pack("<IHHIIiiHHIIiiII", 60, 0, 0, 54, 40, 9, -(2**31), 1, 24, *[0] * 6),
    "picture in PPM of many digits": b"P6 " + b"9" * 500 + b" 9 255\n",
    "array of objects": _npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", b"\x80\4N."),
    "array of records": _npy(
        "{'descr': [('a', '<f4'), ('b', '|O')], 'fortran_order': False, 'shape': (1, 1)}", bytes(12)
    ),
    "array of petabytes": _npy("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 1000000, 1000)}"),
    "array of petabytes by columns": _npy("{'descr': '<f8', 'fortran_order': True, 'shape': (1000000, 1000000)}"),
    "array of a negative shape": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}", bytes(16)),
    "array of rank 100": _npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({'1, ' * 100})}}", bytes(4)),
    "array of text": _npy("{'descr': '<U3', 'fortran_order': False, 'shape': (2, 2)}", bytes(48)),
    "array of no bytes": _npy("{'descr': '|V0', 'fortran_order': False, 'shape': (99999999999, 2)}"),
    "array of deep text": _npy("(" * 9000),
    "array of a long header": b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b"{",
    "array of version 9": b"\x93NUMPY\x09\x00" + bytes(100),
    "array with a shape of floats": _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1.5, 2)}", bytes(12)),
    "arrays in a zip file": b"PK\x03\x04" + bytes(200),
    "safetensors of a deep header": _safetensors("[" * 100_000),
    "safetensors of a deep object": _safetensors('{"a":' * 50_000),
    "safetensors of NaN": _safetensors('{"a":{"dtype":"F32","shape":[NaN],"data_offsets":[0,4]}}', bytes(4)),
    "safetensors of petabytes": _safetensors(
        '{"a":{"dtype":"F32","shape":[4611686018427387903],"data_offsets":[0,4]}}'
    ),
    "safetensors of rank 100": _safetensors(
        json.dumps({"a": {"dtype": "U8", "shape": [1] * 100, "data_offsets": [0, 1]}}), b"1"
    ),
    "safetensors of a number of 10,000 digits": _safetensors(
        '{"a":{"dtype":"U8","shape":[' + "9" * 10_000 + '],"data_offsets":[0,1]}}'
    ),
    "minidb of negative lengths": struct.pack("=ii", -1, -1) + bytes(100),
    "minidb of gigabytes": struct.pack("=ii", 2**31 - 1, 2**31 - 1) + bytes(100),
    "LMDB's data file": b"\0" * 16 + struct.pack("=II", 0xBEEFC0DE, 1) + bytes(8168),
}


def _array_of(dtype: str, *, order: bool) -> bytes:
    array = np.arange(24).reshape(2, 3, 4).astype(dtype)
    return _npy(f"{{'descr': {dtype!r}, 'fortran_order': {order}, 'shape': (2, 3, 4)}}", array.tobytes())


for _name, _dtype in (
    ("halves", "<f2"),
    ("big-endian numbers", ">i4"),
    ("complex numbers", "<c8"),
    ("dates", "<M8[s]"),
):
    CONTENTS[f"array of {_name} by columns"] = _array_of(_dtype, order=True)

BAD: dict[str, Callable[[Path], Path]] = {
    "nothing there": lambda path: path,
    "a folder": _folder,
    "a pipe": _pipe,
    "a socket": _socket,
    "a link to itself": _loop,
    "a link to nothing": _link_to("/no/such/file"),
    "a device without end": _link_to("/dev/zero"),
    "a device without content": _link_to("/dev/null"),
    "a terminal": _link_to("/dev/tty"),
    "below a file": _below_a_file,
    "5,000 letters": lambda path: path.parent / ("x" * 5000 + path.name),
    "250 letters": lambda path: path.parent / ("x" * 250 + path.name),
    "a path of 4,080 letters": lambda path: path.parent.joinpath(*["x" * 200] * 21) / path.name,
    "a NUL": lambda path: path.parent / f"a\0b{path.name}",
    "half of a letter": lambda path: path.parent / f"\ud800{path.name}",
    "a folder of pipes": _folder_of_pipes,
    "a folder of links to themselves": _folder_of_loops,
    "a folder of folders": _folder_of_folders,
    "a terabyte of nothing": _holding(b"", length=2**40),
    **{name: _holding(data) for name, data in CONTENTS.items()},
}


def _outcome(reader: Reader, path: Path) -> str:
    try:
        reader.read(path)
    except UnavailableError:
        return "unavailable"
    except TazzaError as error:
        lines = str(error).splitlines()
        return "typed" if len(lines[0]) < 1000 and "\0" not in lines[0] else f"message: {lines[0][:2000]!r}"
    except _TooSlow:
        return f"waits for more than {WAIT_S} s"
    except (Exception, SystemExit) as error:
        return f"plain {type(error).__name__}: {error}"[:300]
    return "fine"


class _TooSlow(BaseException):
    """Raised in a reader that waits."""


def _raise(*unused: object) -> None:
    raise _TooSlow


@pytest.fixture
def alarmed() -> Iterator[None]:
    """Interrupt a test that waits for something; so generous that it tells waiting from working."""
    former = signal.signal(signal.SIGALRM, _raise)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, former)


WAIT_S = 10
MEMORY_KIB_MAX = 512 * 1024


@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_whatever_lies_at_a_path_the_error_is_typed(
    reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    found: dict[str, str] = {}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, (kind, make) in enumerate(BAD.items()):
        if kind in CONTENTS and not reader.reads_content:
            continue
        place = tmp_path / f"{number}"
        place.mkdir()
        path = make(place / f"{reader.prefix}{reader.suffix}")
        signal.alarm(WAIT_S)
        found[kind] = _outcome(reader, path)
        signal.alarm(0)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    bad = {kind: said for kind, said in found.items() if said not in ("typed", "unavailable", "fine")}
    assert bad == {}
    accepted = {kind for kind, said in found.items() if said == "fine"} - set(CONTENTS)
    assert accepted <= (
        set(BAD) if reader.is_cache else NOTHING_THERE | reader.also_fine if reader.missing_is_fine else set()
    )
    assert grown < MEMORY_KIB_MAX, "memory was taken that the file does not justify"
    caplog.clear()


NOTHING_THERE = {"nothing there", "a link to nothing", "250 letters", "below a file"}
"""And a folder that is empty, where a database is one."""


def test_files_without_permission(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may read everything")
    for reader in READERS:
        path = tmp_path / f"{reader.prefix}{reader.suffix}"
        path.write_bytes(b"x")
        path.chmod(0)
        assert _outcome(reader, path) in ("typed", "unavailable", "fine" if reader.is_cache else "typed")
        path.unlink()


# -- pictures and arrays -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<f2", ">f4", "<f8", "|u1", "|i1", ">i8", "<u4"])
def test_arrays_of_all_numbers_and_orders_are_read(tmp_path: Path, dtype: str, order: Literal["C", "F"]) -> None:
    array = np.asarray(np.arange(24).reshape(2, 3, 4), dtype, order=order)
    np.save(tmp_path / "a.npy", array)
    assert np.array_equal(read_images(tmp_path / "a.npy", None, Pixels(1.0)), array[:, np.newaxis].astype(np.float32))


MODES = ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16")
SUFFIXES = (".png", ".tif", ".jpg", ".gif", ".webp", ".bmp", ".ppm")


def test_pictures_of_every_mode_are_read_or_refused(tmp_path: Path) -> None:
    library, found = pytest.importorskip("PIL.Image"), list[str]()
    for number, (mode, suffix) in enumerate(itertools.product(MODES, SUFFIXES)):
        path = tmp_path / f"{number}{suffix}"
        try:
            library.new(mode, (5, 3)).save(path)
        except (OSError, ValueError, KeyError):
            continue  # there are none of this mode
        found += [_outcome_of_picture(path, channels) for channels in (1, 3)]
    assert set(found) <= {"read", "refused"}, found
    assert found.count("read") > 50


def _outcome_of_picture(path: Path, channels: int) -> str:
    try:
        shape = read_images(path, channels, Pixels(1.0)).shape
    except TazzaError:
        return "refused"
    return "read" if shape == (1, channels, 3, 5) else f"{path}: {shape}"


def test_an_animated_picture_gives_its_first(tmp_path: Path) -> None:
    library = pytest.importorskip("PIL.Image")
    frames = [library.new("L", (4, 4), level) for level in (50, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert set(read_images(tmp_path / "a.gif", 1, Pixels(1.0)).ravel()) == {50.0}


# -- the command line --------------------------------------------------------------------------------------------------

COMMANDS = (
    ["show", "{}"],
    ["predict", "{}", "{}"],
    ["predict", "MODEL", "{}"],
    ["profile", "{}", "--runs", "1"],
    ["train", "lenet", "--data", "{}", "--out", "out"],
    ["train", "lenet", "--out", "{}", "--iterations", "1"],
    ["train", "lenet", "--net", "{}", "--init-net", "{}", "--out", "out"],
)
MODEL = Path(__file__).parent.parent / "data" / "interop" / "small"


@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_commands_tell_what_is_wrong_in_a_line(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = str(next(MODEL.glob("*.minidb")))
    for number, kind in enumerate(
        ("a pipe", "a link to itself", "a device without content", "5,000 letters", "a NUL", "noise")
    ):
        (tmp_path / f"{number}").mkdir()
        path = str(BAD[kind](tmp_path / f"{number}" / "f"))
        words = [model if word == "MODEL" else word.format(path) for word in command]
        signal.alarm(WAIT_S)
        with pytest.raises(SystemExit) as ended:
            app(words)
        signal.alarm(0)
        told = capsys.readouterr().err
        assert ended.value.code in (1, 2), (kind, told)
        assert "Traceback" not in told, kind
        assert told.startswith(("error: ", "Usage: ")), (kind, told)
