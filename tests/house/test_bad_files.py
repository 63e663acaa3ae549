"""Laws over everything that reads a file: whatever lies at a path, the error is typed and comes at once."""

from __future__ import annotations

import ast
import itertools
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from tazza.cli.app import app
from tazza.errors import TazzaError, UnavailableError
from tazza.images import Preprocessing, read_images
from tests.house.bad_files import BAD, CONTENTS
from tests.house.readers import READERS, Reader
from tests.house.trees import nodes

GREY, COLORED = Preprocessing(scale=1.0, colors="grey"), Preprocessing(scale=1.0)
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
    "runtime/flag_index.py": "a file of the package",
    "graph/transform_index.py": "a file of the package",
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
LOOKERS = {"exists", "is_file", "is_dir", "is_symlink", "resolve", "iterdir", "samefile", "readlink", "listdir"}
LIBRARIES = {"np", "numpy", "Image", "json", "os", "io", "tarfile", "zipfile", "gzip", "mmap", "lmdb"}
ALLOWED = {
    ("db/picture.py", "Image.open"): "a file that is open already",
    ("db/environment.py", "lmdb.open"): "a folder whose files were looked at",
    ("db/environment.py", "stat"): "a file that was looked at",
    ("db/minidb.py", "os.stat"): "the file that is open, looked for again",
    ("db/minidb.py", "open"): "a descriptor that is open already",
    ("db/place.py", "os.readlink"): "a link that leads nowhere",
    ("ops/control/print.py", "open"): "by the one opener",
    ("ops/data/video_clip.py", "open"): "a file that is open already",
    ("engines/onednn/copies.py", "is_file"): "the library's own folder",
    ("engines/onednn/copies.py", "is_symlink"): "the library's own folder",
    ("observers/event_file.py", "open"): "a new file, under a name of its own",
    ("observers/view/page.py", "read_text"): "the parts of the page",
    ("fitting/source.py", "np.load"): "a file that is open already",
    ("distributed/watch.py", "read_bytes"): "the system's word of a process",
    ("operator/operator.py", "self.open"): "no file",
    ("operator/operator.py", "kernel.open"): "no file",
}


def _calls(path: Path) -> list[str]:
    """Return the calls in a module by which files are opened or looked at, as far as their names tell."""
    found: list[str] = []
    for node in nodes(path):
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


@pytest.mark.slow
def test_one_module_opens_the_files_that_people_name() -> None:
    others = {path: path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    found = {(name, call) for path, name in others.items() if name not in OWN_FILES for call in _calls(path)}
    assert found - set(ALLOWED) == set(), "go through tazza.runtime.files, or say why not"
    assert set(ALLOWED) - found == set(), "an exception that is not needed any more"


def test_every_module_that_reads_files_has_a_reader_in_the_table() -> None:
    """The readers are found to run through each module that uses the functions that open."""
    names = {"open_regular", "read_text", "read_json", "read_bytes", "open_descriptor"}
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in nodes(path)
        if isinstance(node, ast.ImportFrom) and node.module == "tazza.runtime.files"
        if names & {alias.name for alias in node.names}
    }
    assert users - set(READ_BY) == set(), "name the reader that goes through this module"
    assert {name for named in READ_BY.values() for name in named} - {one.name for one in READERS} == set()


READ_BY: dict[str, list[str]] = {
    "bulk/part.py": ["part of predictions"],
    "bulk/run.py": ["manifest of parts"],
    "runtime/alone.py": ["training to resume"],
    "proto/message.py": ["message", "text of a message"],
    "fitting/source.py": ["arrays to learn from"],
    "db/idx.py": ["idx", "images"],
    "db/place.py": ["minidb, read", "lmdb, read"],
    "db/minidb.py": ["minidb, read", "minidb, write"],
    "db/protodb.py": ["protodb, read"],
    "db/lmdb_pages.py": ["lmdb, read"],
    "db/image_source.py": ["data of a training"],
    "cli/history.py": ["history"],
    "cli/recorded_training.py": ["history that is compared", "settings that are compared"],
    "images/files.py": ["array", "picture"],
    "images/preprocessing.py": ["preprocessing"],
    "images/labels.py": ["labels"],
    "interop/model_folder.py": ["table of inputs"],
    "cli/train_settings.py": ["settings", "training to resume", "settings of a text"],
    "db/text.py": ["text to learn from"],
    "db/sentences.py": ["corpus"],
    "ops/data/text_file.py": ["rows of text"],
    "ops/data/video_input.py": ["video"],
    "ops/distributed/store.py": ["entry of a store"],
    "interop/migration/source.py": ["old program"],
    "array/safetensors.py": ["safetensors"],
    "runtime/kept_table.py": ["models of machines", "table of a search", "table of cuDNN's engines"],
    "runtime/native_code.py": ["folder of compiled kernels"],
    "runtime/native.py": ["module"],
    "ops/control/print.py": [],
}
"""Modules that open files, and which readers of the table go through them; Print only writes (see its own tests)."""


# -- whatever lies at a path -------------------------------------------------------------------------------------------


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


WAIT_S = 60
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
    assert np.array_equal(read_images(tmp_path / "a.npy", GREY), array[:, np.newaxis].astype(np.float32))


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
        shape = read_images(path, GREY if channels == 1 else COLORED).shape
    except TazzaError:
        return "refused"
    return "read" if shape == (1, channels, 3, 5) else f"{path}: {shape}"


def test_an_animated_picture_gives_its_first(tmp_path: Path) -> None:
    library = pytest.importorskip("PIL.Image")
    frames = [library.new("L", (4, 4), level) for level in (50, 200)]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert set(read_images(tmp_path / "a.gif", GREY).ravel()) == {50.0}


# -- the command line --------------------------------------------------------------------------------------------------

COMMANDS = (
    ["show", "{}"],
    ["predict", "{}", "{}"],
    ["predict", "MODEL", "{}"],
    ["profile", "{}", "--runs", "1"],
    ["train", "lenet", "--data", "{}", "--out", "out"],
    ["train", "lenet", "--out", "{}", "--iterations", "1"],
    ["train", "lenet", "--net", "{}", "--init-net", "{}", "--out", "out"],
    ["train", "char-lstm", "--data", "{}", "--out", "out"],
    ["train", "char-lstm", "--out", "{}", "--iterations", "1"],
)
MODEL = Path(__file__).parent.parent / "data" / "interop" / "small"


@pytest.mark.usefixtures("alarmed")
@pytest.mark.parametrize(
    "command",
    [pytest.param(one, marks=pytest.mark.slow if one[0] == "train" else (), id=" ".join(one)) for one in COMMANDS],
)
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
