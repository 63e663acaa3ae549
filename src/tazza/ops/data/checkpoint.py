"""Blobs to and from databases: Save, Checkpoint, Snapshot, Load, DBExists.

A tensor is stored in chunks under the keys `name#%0`, `name#%1` ..., which may come back in any order; any other blob
under its name. Databases that Caffe2 wrote are read, and it reads those that are written here.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tazza.data_class import dataclass
from tazza.db import Cursor, DBReader, Mode, Transaction, open_db
from tazza.db.place import check_parent, holds_something, kind_at
from tazza.errors import ArgumentError, DBError, DuplicateError, FileError, NotFoundError, TazzaError
from tazza.operator import (
    BlobOwner,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    forbidden,
    host_kernel,
    schema,
)
from tazza.ops.data.db import READER
from tazza.runtime.files import resolved, shown, temporary_beside
from tazza.runtime.near_names import did_you_mean
from tazza.tensor import Blob, DataType
from tazza.tensor.serialization import BlobAssembler, blob_name_of_key, serialize_blob

ABSOLUTE_PATH = arg("absolute_path", bool, False, doc="paths count from the process's folder, not from the workspace's")
DB_TYPE = arg("db_type", str, "", doc="minidb, protodb, lmdb, leveldb")
DEFAULT_CHUNK = -1


def _place(op: OpView, path: str, workspace: BlobOwner) -> Path:
    return Path(path) if op.absolute_path else workspace.root / path


def _stripped(name: str, prefix: str) -> str:
    """Return what stands behind the first `prefix` in a name, or all of it where there is none."""
    before, found, after = name.partition(prefix) if prefix else (name, "", "")
    return after if found else before


@contextmanager
def _telling(line: str) -> Generator[None, None, None]:
    """Add a line to the errors of the block."""
    try:
        yield
    except TazzaError as error:
        error.add_context(line)
        raise


SAVE_ARGS = (
    ABSOLUTE_PATH,
    arg("strip_prefix", str, "", doc="names are stored without what they have up to the first occurrence of it"),
    arg("blob_name_overrides", list[str], [], doc="names under which the blobs are stored"),
    DB_TYPE,
    arg("chunk_size", int, DEFAULT_CHUNK, minimum=DEFAULT_CHUNK, doc="elements; 0 one, -1 caffe2_tensor_chunk_size"),
)


# -- Save --------------------------------------------------------------------------------------------------------------

SAVE = schema(
    "Save",
    """Writes the blobs X to a new database.

    The database is written beside its place and moved there at the end: whatever interrupts a Save, the file that was
    there before stays as it was. A database that is a folder (lmdb, leveldb) is not overwritten.""",
    inputs=[blob("X", type_name="*", variadic=True)],
    args=[arg("db", str, doc="path"), *SAVE_ARGS],
    effects=Effects.IO,
    no_gradient=forbidden("it has no output"),
    source="Caffe2",
    example="""
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = run("Save", [1.0, 2.0], db=f"{folder}/x.minidb", db_type="minidb", absolute_path=1)
    ...     os.listdir(folder)
    ['x.minidb']
    """,
)


def saved_names(op: OpView) -> list[str]:
    """Return the name under which each input is stored."""
    if op.blob_name_overrides:
        return op.blob_name_overrides
    return [_stripped(name, op.strip_prefix) for name in op.definition.input]


@SAVE.validate
def save_validate(op: OpView) -> None:
    _check_db(op, [op.db])
    overrides, inputs = len(op.blob_name_overrides), len(op.definition.input)
    if overrides not in (0, inputs):
        raise op.error(ArgumentError, f"blob_name_overrides has {overrides} names, there are {inputs} blobs")
    if overrides and op.strip_prefix:
        raise op.error(ArgumentError, "blob_name_overrides and strip_prefix exclude each other", hint="drop one")
    _check_distinct(op, saved_names(op), "two blobs would be stored under the name")


def _check_db(op: OpView, paths: list[str]) -> None:
    if not paths or "" in paths:
        raise op.error(ArgumentError, "no path of a database is given", hint="set db")
    if not op.db_type:
        raise op.error(ArgumentError, "no type of the database is given", hint="set db_type, such as 'minidb'")


def _check_distinct(op: OpView, names: list[str], relation: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise op.error(ArgumentError, f"{relation} {name!r}", hint="names must differ")


@host_kernel(SAVE)
def save(op: OpView, workspace: BlobOwner, X: tuple[Blob, ...]) -> None:
    write_blobs(op, _place(op, op.db, workspace), X)


COMMIT_BYTES = 32 * 2**20
"""So many bytes of records wait in memory for a commit. Nobody sees the database before the last one."""


def write_blobs(op: OpView, target: Path, X: Sequence[Blob]) -> None:
    """Write blobs to a new database, under the names that arguments give them."""
    chunk_size = None if op.chunk_size == DEFAULT_CHUNK else op.chunk_size
    with replacing(op.db_type, target) as beside, open_db(op.db_type, beside, Mode.NEW) as db:
        with db.transaction() as transaction:
            portions = _Portions(transaction)
            for name, source in zip(saved_names(op), X, strict=True):
                with _telling(f"saving blob {source.name!r} to {op.db_type} '{target}'"):
                    for key, record in serialize_blob(source, name, chunk_size):
                        portions.put(key, record)


class _Portions:
    """Puts records into a transaction, and commits by `COMMIT_BYTES`: so a large table is never in memory twice."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction, self._waiting_bytes = transaction, 0

    def put(self, key: str, record: bytes) -> None:
        self._transaction.put(key, record)
        self._waiting_bytes += len(record)
        if self._waiting_bytes >= COMMIT_BYTES:
            self._transaction.commit()
            self._waiting_bytes = 0


@contextmanager
def replacing(db_type: str, target: Path) -> Generator[Path, None, None]:
    """Give a path beside `target`; what is there when the block ends takes the place of `target`, in one step.

    If the block raises, it is removed and `target` stays as it was. A process that is killed can leave behind what it
    wrote, under a name that starts with a dot and ends in `.tmp`; nothing ever reads it.

    Raises:
        DBError: `target` is a folder that is not empty, its own folder is missing, or the move fails.
    """
    target = _resolved(db_type, target)
    check_parent(db_type, str(target))
    kind = kind_at(db_type, str(target))
    if kind not in (None, "file", "folder"):
        raise DBError(f"{db_type} {shown(target)} is a {kind}", hint="save elsewhere")
    if kind == "folder" and holds_something(db_type, str(target)):
        raise DBError(f"{db_type} '{target}' is a folder that holds something", hint="remove it, or save elsewhere")
    beside = temporary_beside(target)
    try:
        yield beside
        if kind == "file":
            shutil.copymode(target, beside)
        beside.replace(target)
    except BaseException as error:
        if os.path.isdir(beside):
            shutil.rmtree(beside, ignore_errors=True)
        else:
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, TazzaError):
            raise DBError(f"{db_type} '{target}' cannot be written: {error.strerror}") from error
        raise


def _resolved(db_type: str, target: Path) -> Path:
    try:
        return resolved(target)
    except FileError as error:
        raise DBError(f"{db_type} {shown(target)}: {error.message}", hint=error.hint) from error


# -- Checkpoint, Snapshot ----------------------------------------------------------------------------------------------

CONVERSION = re.compile(r"%(?:%|[-+ #0]{0,5}\d{0,3}(?:\.\d{0,3})?(?:hh?|ll?|[jztq])?([diuoxX]))")
"""What C replaces in a pattern: `%%`, or a whole number."""


def checkpoint_validate(op: OpView) -> None:
    save_validate(op)
    places = [found[1] for found in CONVERSION.finditer(op.db) if found[1] is not None]
    if len(places) > 1 or "%" in CONVERSION.sub("", op.db):
        raise op.error(
            ArgumentError,
            f"db = {op.db!r} has {len(places)} places for a number, and there is one",
            hint="write %d where the number stands, and %% for a percent sign",
        )


@family("Checkpoint", "Snapshot")
def checkpoints(type: str) -> OpSchema:
    """Two names of one operator."""
    made = schema(
        type,
        """Writes the blobs to a new database in each run whose `iter` is a multiple of `every`.

        `db` is a path in which a `%d`, as C has it, stands for that number. Otherwise it is a Save.""",
        inputs=[
            blob("iter", DataType.INT64, role=Role.STATE, doc="how far the training is; it is written too"),
            blob("X", type_name="*", variadic=True, optional=True, role=Role.DATA),
        ],
        args=[
            arg("db", str, doc="path, with a `%d` for the number"),
            arg("every", int, 1, minimum=1, doc="runs from one database to the next"),
            *SAVE_ARGS,
        ],
        effects=Effects.IO,
        no_gradient=forbidden("it has no output"),
        source="Caffe2",
        example=f"""
        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     place = {{"db": f"{{folder}}/%03d.minidb", "db_type": "minidb", "absolute_path": 1}}
        ...     _ = run("{type}", np.array([6]), [1.0, 2.0], every=3, **place)
        ...     os.listdir(folder)
        ['006.minidb']
        """,
    )
    made.validate(checkpoint_validate)

    @host_kernel(made)
    def checkpoint(op: OpView, workspace: BlobOwner, iter: Blob, X: tuple[Blob, ...]) -> None:
        numbers = iter.tensor().plain().reshape(-1)
        op.require(numbers.size > 0, "iter has no element, it has one")
        if numbers[0] % op.every == 0:
            write_blobs(op, _place(op, numbered(op.db, int(numbers[0])), workspace), (iter, *X))

    return made


def numbered(pattern: str, number: int) -> str:
    """Return a path with a number in it.

    >>> numbered("step_%05d.db", 42), numbered("100%%", 7)
    ('step_00042.db', '100%')
    """
    return CONVERSION.sub(
        lambda found: re.sub("[hljztq]", "", found[0]) % (() if found[1] is None else number), pattern
    )


# -- DBExists ----------------------------------------------------------------------------------------------------------

DB_EXISTS = schema(
    "DBExists",
    "exists = whether a file or folder lies at the path of a database.",
    outputs=[blob("exists", DataType.BOOL, "", host=True)],
    args=[ABSOLUTE_PATH, arg("db_name", str, "", doc="path"), DB_TYPE],
    effects=Effects.IO,
    no_gradient=forbidden("a file has no derivative"),
    source="Caffe2",
    example="""
    >>> run("DBExists", db_name="/no/such/file", db_type="minidb", absolute_path=1)
    array(False)
    """,
)


@host_kernel(DB_EXISTS)
def db_exists(op: OpView, workspace: BlobOwner, exists: Blob) -> None:
    found = op.db_name != "" and kind_at(op.db_type, str(_place(op, op.db_name, workspace))) is not None
    exists.tensor().assign(np.array(found))


# -- Load --------------------------------------------------------------------------------------------------------------

LOAD = schema(
    "Load",
    """Reads the blobs X from databases, or all that there are with `load_all`.

    No blob is written before all records of all blobs were seen. A tensor keeps its memory where that is large enough.
    Tensors come to the CPU, whatever `keep_device` says.""",
    inputs=[
        blob(
            "reader",
            type_name=READER,
            variadic=True,
            optional=True,
            role=Role.STATE,
            doc="read from the first record, in place of db",
        )
    ],
    outputs=[blob("X", type_name="*", variadic=True, optional=True)],
    args=[
        ABSOLUTE_PATH,
        arg("add_prefix", str, "", doc="what the names of blobs begin with, and stored names do not"),
        arg("strip_prefix", str, "", doc="stored names count without what they have up to the first occurrence of it"),
        arg("db", str, "", doc="path"),
        arg("dbs", list[str], [], doc="paths of several databases, each with some of the blobs"),
        DB_TYPE,
        arg(
            "keep_device",
            bool,
            False,
            doc="has no effect: Caffe2 loads to the device that a tensor was saved from",
        ),
        arg("load_all", bool, False, doc="load every blob, under its own name"),
        arg("allow_incomplete", bool, False, doc="leave blobs alone that are in no database"),
        arg("source_blob_names", list[str], [], doc="stored names of the outputs, where they differ"),
    ],
    effects=Effects.IO,
    no_gradient=ends("it reads from a file"),
    source="Caffe2",
    example="""
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = {"db": f"{folder}/x.minidb", "db_type": "minidb", "absolute_path": 1}
    ...     _ = run("Save", [1.0, 2.0], blob_name_overrides=["x"], **place)
    ...     run("Load", source_blob_names=["x"], outputs=1, **place)
    array([1., 2.], dtype=float32)
    """,
)


LOAD.reads_through("reader", when=lambda op: not op.db and not op.dbs)


@LOAD.validate
def load_validate(op: OpView) -> None:
    paths = [name for name in ("db", "dbs") if op.arguments[name]]
    if op.definition.input and paths:
        raise op.error(ArgumentError, f"{' and '.join(paths)} and a reader are given", hint="drop one")
    if len(paths) > 1:
        raise op.error(ArgumentError, "db and dbs are both given", hint="put all paths into dbs")
    if not op.definition.input:
        _check_db(op, op.dbs if op.dbs else [op.db])
    sources, outputs = len(op.source_blob_names), len(op.definition.output)
    if sources not in (0, outputs):
        raise op.error(ArgumentError, f"source_blob_names has {sources} names, there are {outputs} outputs")
    for name in ("strip_prefix", "load_all"):
        if sources and op.arguments[name]:
            raise op.error(ArgumentError, f"source_blob_names and {name} exclude each other", hint="drop one")
    _check_distinct(op, op.source_blob_names, "source_blob_names lists twice the name")


@host_kernel(LOAD)
def load(op: OpView, workspace: BlobOwner, reader: tuple[Blob, ...], X: tuple[Blob, ...]) -> None:
    names = op.source_blob_names if op.source_blob_names else list(op.definition.output)
    outputs = dict(zip(names, X, strict=True))
    stored = Stored(op, None if op.load_all else outputs.keys())
    for place, cursor in _cursors(op, workspace, reader):
        stored.collect(place, cursor)
    stored.check(() if op.allow_incomplete else names)
    for name, found in stored.blobs.items():
        target = outputs[name] if name in outputs else workspace.create_blob(name)
        if not target.is_tensor:
            target.reset()
        with _telling(f"loading blob {name!r} from {found.place}"):
            found.assembler.write(target)


def _cursors(op: OpView, workspace: BlobOwner, reader: tuple[Blob, ...]) -> Iterator[tuple[str, Cursor]]:
    """Yield each source with its name, at its first record."""
    for source in reader:
        opened = source.get(DBReader)
        with opened.cursor() as cursor:
            yield repr(opened), cursor
    for path in [] if reader else op.dbs if op.dbs else [op.db]:
        with open_db(op.db_type, _place(op, path, workspace)) as db, db.cursor() as cursor:
            yield str(db), cursor


@dataclass(slots=True)
class Found:
    """A blob of which some record was seen, and where that was."""

    place: str
    assembler: BlobAssembler


class Stored:
    """The records of the wanted blobs, by the name under which they are loaded."""

    def __init__(self, op: OpView, wanted: Collection[str] | None) -> None:
        """Start without records; with None every blob is wanted."""
        self.blobs: dict[str, Found] = {}
        self._op = op
        self._wanted = wanted
        self._others: set[str] = set()
        self._places: list[str] = []

    def collect(self, place: str, cursor: Cursor) -> None:
        """Take all records of a database.

        Raises:
            DuplicateError: a blob is in another database too.
            FormatError, DBError: a record is corrupt.
        """
        self._places.append(place)
        while cursor.valid:
            key = cursor.key.decode(errors="surrogateescape")
            original = blob_name_of_key(key)
            name = self._op.add_prefix + _stripped(original, self._op.strip_prefix)
            if self._wanted is None or name in self._wanted:
                found = self.blobs.setdefault(name, Found(place, BlobAssembler(original)))
                if found.place != place:
                    raise DuplicateError(f"blob {name!r} is in {found.place} and in {place}", hint="drop one of them")
                with _telling(f"in record {key!r} of {place}"):
                    found.assembler.add(cursor.value)
            else:
                self._others.add(name)
            cursor.next()

    def check(self, needed: Iterable[str]) -> None:
        """Check that every needed blob was seen, and of every blob that was seen all records.

        Raises:
            NotFoundError: blobs that are nowhere.
            FormatError: a blob of which chunks are missing.
        """
        missing = [name for name in needed if name not in self.blobs]
        if missing:
            near = did_you_mean(missing[0], self._others, show=repr)
            raise NotFoundError(
                f"{', '.join(self._places)} has no blob {', '.join(map(repr, missing))}",
                hint="allow_incomplete leaves them out" if near is None else near,
            )
        for name, found in self.blobs.items():
            if not found.assembler.complete:
                with _telling(f"loading blob {name!r} from {found.place}"):
                    found.assembler.write(Blob(name))  # says which chunks are missing
