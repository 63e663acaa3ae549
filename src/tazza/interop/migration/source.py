"""Programs as files: which of them a path stands for, and their trees."""

from __future__ import annotations

import ast
import io
import os
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from tazza.data_class import dataclass
from tazza.errors import FileError, FormatError
from tazza.interop.migration.python2 import Remark, parsed
from tazza.interop.migration.remark import remarks_on
from tazza.runtime.files import TEXT_BYTES_MAX, AnyPath, kind_of, read_bytes, shown

SUFFIX = ".py"
WHAT = "program"


@dataclass(frozen=True, slots=True)
class Script:
    """A program that was read: the nodes of its tree, and what has to be changed in it beside the names of Caffe2."""

    path: Path
    nodes: tuple[ast.AST, ...]
    """Of its tree: outer ones before inner ones."""
    remarks: tuple[Remark, ...]

    @property
    def is_python2(self) -> bool:
        """Whether Python 3 does not run it."""
        return any(remark.python2 for remark in self.remarks)


def find_scripts(paths: Iterable[AnyPath]) -> list[Path]:
    """Return the files that paths stand for: a file itself, of a folder all that end in `.py`, in order.

    Raises:
        FileError: a path leads to nothing, or to a folder without programs.
    """
    found: dict[Path, None] = {}
    for path in paths:
        inside = list(_inside(Path(path))) if kind_of(path) == "folder" else [Path(path)]
        if kind_of(path) is None:
            raise FileError(f"{shown(path)} does not exist", hint="name a program, or a folder of programs")
        if not inside:
            raise FileError(f"folder {shown(path)} has no programs", hint=f"they end in {SUFFIX}")
        found.update(dict.fromkeys(inside))
    return list(found)


def _inside(folder: Path) -> Iterator[Path]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(root, name) for name in sorted(files) if name.endswith(SUFFIX))


def read_script(path: AnyPath) -> Script:
    """Read a program of Python 3 or 2; nothing of it is executed.

    Raises:
        FileError: there is no such file, or it cannot be opened.
        FormatError: it is no program, or a longer one than anybody writes.
    """
    data = read_bytes(path, WHAT, TEXT_BYTES_MAX)
    try:
        tree, forms = parsed(_text(data))
        nodes = tuple(ast.walk(tree))
        return Script(Path(path), nodes, tuple(sorted({*forms, *remarks_on(nodes)})))
    except FormatError as error:
        raise FormatError(f"{shown(path)} is no {WHAT}: {error}") from error
    except RecursionError as error:
        raise FormatError(f"{shown(path)} is no {WHAT}: it is nested too deeply") from error


def _text(data: bytes) -> str:
    """Return the text of a program by the encoding that it declares; what is not of that one is read byte by byte."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError):
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")
