"""Parts joined to one file of results, in order: lines of JSON, CSV, Parquet, or an LMDB of outputs.

The ending of its name says which. Each appears whole, or not at all.
"""

from __future__ import annotations

import csv
import importlib
import io
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tazza.bulk.job import Form
from tazza.bulk.part import OUTPUTS, PartFiles
from tazza.db.base import Mode, open_db
from tazza.errors import ArgumentError, DBError, FileError, UnavailableError
from tazza.runtime.files import atomic_write, kind_of, shown, temporary_beside

COMMIT_EVERY = 10_000
"""Records of one transaction."""
CSV_TITLES = ("image", "row", "rank", "class", "label", "score", "error")


@dataclass(frozen=True, slots=True)
class ResultForm:
    """A kind of file: what parts have to hold for it, what joins them, and what has to be there for that."""

    form: Form
    join: Callable[[Sequence[PartFiles], Path], None]
    check: Callable[[], object] = lambda: None


def result_form(out: Path) -> ResultForm:
    """Return what makes a file of this name.

    Raises:
        ArgumentError: its ending says nothing.
        UnavailableError: the library that writes it is not installed.
    """
    found = FORMS.get(out.suffix.lower())
    if found is None:
        raise ArgumentError(f"{shown(out)} ends in no kind of results", hint=f"kinds: {', '.join(FORMS)}")
    found.check()
    return found


def _join_json(parts: Sequence[PartFiles], out: Path) -> None:
    with atomic_write(out) as file:
        for part in parts:
            for line in part.read():
                file.write(json.dumps(line).encode() + b"\n")


def _join_csv(parts: Sequence[PartFiles], out: Path) -> None:
    with atomic_write(out) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(CSV_TITLES)
        for part in parts:
            writer.writerows(cells for line in part.read() for cells in _cells(line))
        text.detach()


def _cells(line: dict[str, Any]) -> Iterator[tuple[object, ...]]:
    """Give a row for each class of an image, or one that says why there is none."""
    place = line["image"], line.get("row", "")
    if "error" in line:
        yield *place, "", "", "", "", line["error"]
        return
    for rank, guess in enumerate(line["classes"], 1):
        score = "nan" if guess["score"] is None else f"{guess['score']:.9g}"
        yield *place, rank, guess["class"], guess.get("label", ""), score, ""


def _arrow() -> Any:
    """Return the library that writes Parquet.

    Raises:
        UnavailableError: it is not there.
    """
    try:
        importlib.import_module("pyarrow.parquet")
        return importlib.import_module("pyarrow")
    except ImportError as error:
        raise UnavailableError(f"Parquet is not available: {error}", hint="pip install 'tazza[parquet]'") from error


def _join_parquet(parts: Sequence[PartFiles], out: Path) -> None:
    arrow = _arrow()
    schema = arrow.schema(
        [
            ("image", arrow.string()),
            ("row", arrow.int64()),
            ("classes", arrow.list_(arrow.int64())),
            ("labels", arrow.list_(arrow.string())),
            ("scores", arrow.list_(arrow.float64())),
            ("error", arrow.string()),
        ]
    )
    with atomic_write(out) as file, arrow.parquet.ParquetWriter(file, schema) as writer:
        for part in parts:
            rows = [_columns(line) for line in part.read()]
            writer.write_table(arrow.Table.from_pylist(rows, schema=schema))


def _columns(line: dict[str, Any]) -> dict[str, Any]:
    guesses: list[dict[str, Any]] | None = line.get("classes")
    found = {name: line.get(name) for name in ("image", "row", "error")}
    if guesses is None:
        return found
    named = [guess["label"] for guess in guesses] if all("label" in guess for guess in guesses) else None
    return found | {
        "classes": [guess["class"] for guess in guesses],
        "labels": named,
        "scores": [guess["score"] for guess in guesses],
    }


def _join_lmdb(parts: Sequence[PartFiles], out: Path) -> None:
    made = temporary_beside(out)
    try:
        _write_lmdb(parts, made)
        if kind_of(out) is not None:
            remove_results(out)
        made.rename(out)
    except OSError as error:
        if isinstance(error, DBError | FileError):
            raise
        raise FileError(f"cannot write {shown(out)}: {error.strerror}", hint="check the permissions") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(made)


def _write_lmdb(parts: Sequence[PartFiles], made: Path) -> None:
    with open_db("lmdb", made, Mode.NEW) as db, db.transaction() as transaction:
        for part in parts:
            kept = sum("error" not in line for line in part.read())
            with open_db(OUTPUTS, part.outputs) as outputs, outputs.cursor() as cursor:
                for key, value in cursor:
                    kept -= 1
                    transaction.put(key, value)
                    if transaction.pending == COMMIT_EVERY:
                        transaction.commit()
            if kept:
                raise DBError(f"{shown(part.outputs)} lacks {kept} outputs", hint="remove the part, and predict again")


def remove_results(out: Path) -> None:
    """Remove results that shall be replaced: a file, or the two files of an LMDB and their folder.

    Raises:
        FileError: it is something else, or cannot be removed.
    """
    try:
        if kind_of(out) == "folder":
            for name in ("data.mdb", "lock.mdb"):
                (out / name).unlink(missing_ok=True)
            out.rmdir()
        else:
            out.unlink()
    except OSError as error:
        raise FileError(f"cannot replace {shown(out)}: {error.strerror}", hint="name another with --out") from error


FORMS: dict[str, ResultForm] = {
    ".jsonl": ResultForm("classes", _join_json),
    ".csv": ResultForm("classes", _join_csv),
    ".parquet": ResultForm("classes", _join_parquet, _arrow),
    ".lmdb": ResultForm("tensors", _join_lmdb),
}
