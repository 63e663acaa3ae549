"""Parts joined to one file of results, in order: lines of JSON, CSV, Parquet, or an LMDB of outputs.

The ending of its name says which. Each appears whole, or not at all.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from tazza.bulk.job import Form
from tazza.bulk.part import OUTPUTS, PartFiles
from tazza.data_class import dataclass
from tazza.db.base import Mode, open_db
from tazza.errors import ArgumentError, DBError, FileError, UnavailableError
from tazza.runtime.csv_lines import csv_lines
from tazza.runtime.files import atomic_write, encodable, kind_of, names_in, resolved, shown, temporary_beside

COMMIT_EVERY = 10_000
"""Records of one transaction."""
LMDB_NAMES = frozenset({"data.mdb", "lock.mdb"})
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
        rows = (cells for part in parts for line in part.read() for cells in _cells(line))
        file.writelines(line.encode() for line in csv_lines(chain([CSV_TITLES], rows)))


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
    found = {"image": encodable(line["image"]), "row": line.get("row"), "error": None}
    if "error" in line:
        return found | {"error": encodable(line["error"])}
    if guesses is None:
        return found
    named = [guess["label"] for guess in guesses] if all("label" in guess for guess in guesses) else None
    return found | {
        "classes": [guess["class"] for guess in guesses],
        "labels": named,
        "scores": [guess["score"] for guess in guesses],
    }


def _join_lmdb(parts: Sequence[PartFiles], out: Path) -> None:
    target = resolved(out)
    made, old = temporary_beside(target), temporary_beside(target)
    try:
        _write_lmdb(parts, made)
        check_replaceable(target, "tensors")
        if kind_of(target) is not None:
            target.rename(old)
        try:
            made.rename(target)
        except OSError:
            old.rename(target)
            raise
    except OSError as error:
        if isinstance(error, DBError | FileError):
            raise
        raise FileError(f"cannot write {shown(out)}: {error.strerror}", hint="check the permissions") from error
    finally:
        for folder in made, old:
            _remove_lmdb(folder)


def _remove_lmdb(folder: Path) -> None:
    with suppress(OSError):
        for name in LMDB_NAMES:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


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


def check_replaceable(out: Path, form: Form) -> None:
    """See that what new results would replace are results of that kind: a file, or an LMDB and nothing beside it.

    Raises:
        FileError: it is something else.
    """
    kind = kind_of(out)
    if kind is None:
        return
    wanted = "folder" if form == "tensors" else "file"
    foreign = sorted(set(names_in(out)) - LMDB_NAMES) if kind == wanted == "folder" else []
    if kind != wanted or foreign:
        reason = f"it holds {shown(foreign[0])}" if foreign else f"it is a {kind}"
        raise FileError(f"cannot replace {shown(out)}: {reason}", hint="name another with --out")


FORMS: dict[str, ResultForm] = {
    ".jsonl": ResultForm("classes", _join_json),
    ".csv": ResultForm("classes", _join_csv),
    ".parquet": ResultForm("classes", _join_parquet, _arrow),
    ".lmdb": ResultForm("tensors", _join_lmdb),
}
