"""Rows of text files: CreateTextFileReader, TextFileReaderRead.

A row is a line, its fields stand between tabs. A NUL takes from the byte behind it what that means: behind one, a tab
or an end of line is part of a field.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from tazza.errors import FileError, FormatError, TazzaError
from tazza.operator import Array, BlobOwner, Effects, OpView, Role, arg, blob, ends, host_kernel, schema
from tazza.runtime.files import open_regular, reading, shown
from tazza.runtime.holding import Held
from tazza.tensor import Blob, DataType, TensorSpec
from tazza.tensor.blob import blob_type

READER = "std::unique_ptr<caffe2::TextFileReaderInstance>"
NO_GRADIENT = ends("data has no gradient")
TAKEN = {DataType.STRING.proto: DataType.STRING, DataType.FLOAT.proto: DataType.FLOAT}
TOKEN = re.compile(rb"\0.|[^\0\t]+|\t|\0", re.DOTALL)
NUMBER = re.compile(
    rb"\s*([+-]?)(?:(inf|nan)|(0x(?:[0-9a-f]+\.?[0-9a-f]*|\.[0-9a-f]+)(?:p[+-]?\d+)?)|((?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?))",
    re.IGNORECASE,
)
"""What `strtof` reads of a text; the rest of it does not count."""
DECIMAL = b"0123456789+-.eE"
"""Bytes of which `float` takes nothing but what `strtof` takes whole."""
BLOCK_BYTES = 2**18
ROW_BYTES_MAX = 2**26
"""A longer row is taken for a file of another kind."""


@blob_type(READER)
class TextFileReader(Held):
    """Rows of a file, `passes` times one behind the other; each goes to one thread."""

    __slots__ = ("_ended", "_rows", "_taken", "dtypes", "path")

    def __init__(self, path: Path, dtypes: Sequence[DataType], passes: int) -> None:
        """Stand at the first row.

        Raises:
            FileError: there is no such file, or it cannot be opened.
        """
        super().__init__()
        open_regular(path, "table").close()
        self.path = path
        self.dtypes = tuple(dtypes)
        self._taken = 0
        self._ended: Exception | None = None
        self._rows = self._read(passes)

    def next(self, count: int) -> tuple[int, list[bytes]]:
        """Return how many rows were read before, in all passes, and the next `count`, or all others, without ends.

        Raises:
            FileError, FormatError: the file is not there any more, cannot be read, or has a row that is too long; from
                then on no row comes, but that error.
        """
        with self:
            if self._ended is not None:
                raise self._ended
            try:
                rows = list(islice(self._rows, count))
            except BaseException as error:
                why = f"{shown(self.path)} was not read on behind row {self._taken}: {type(error).__name__}"
                self._ended = error if isinstance(error, TazzaError) else FileError(why)
                raise
            before = self._taken
            self._taken += len(rows)
            return before, rows

    def _read(self, passes: int) -> Iterator[bytes]:
        for _ in range(passes):
            with open_regular(self.path, "table") as file, reading(self.path):
                empty = True
                for rows in self._blocks(file):
                    empty = empty and not rows
                    yield from rows
            if empty:  # as it will be
                return

    def _blocks(self, file: BinaryIO) -> Iterator[list[bytes]]:
        """Yield the rows of a file, those that end in one block together."""
        begun: list[bytes] = []  # of a row whose end has not come yet
        length = 0
        while block := file.read(BLOCK_BYTES):
            if b"\n" in block:
                *rows, last = _rows(b"".join([*begun, block]))
                self._check(max(map(len, rows), default=0))
                yield rows
                begun, length = [last], len(last)
            else:
                begun.append(block)
                length += len(block)
            self._check(length)
        if length:
            yield [b"".join(begun).removesuffix(b"\n")]

    def _check(self, length: int) -> None:
        if length >= ROW_BYTES_MAX:
            raise FormatError(f"{shown(self.path)} has a row of {ROW_BYTES_MAX} bytes or more: is it text?")


def _rows(block: bytes) -> list[bytes]:
    """Return what stands between the ends of rows; what stands behind the last one comes last."""
    lines = block.split(b"\n")
    if b"\0" not in block:
        return lines
    rows: list[bytes] = []
    begun: list[bytes] = []
    for line in lines:
        begun.append(line)
        if (len(line) - len(line.rstrip(b"\0"))) % 2 == 0:
            rows.append(b"\n".join(begun))
            begun = []
    return [*rows, b"\n".join(begun)] if begun else rows


def _fields(row: bytes) -> list[bytes]:
    if b"\0" not in row:
        return row.split(b"\t")
    found = [bytearray()]
    for token in TOKEN.findall(row):
        if token == b"\t":
            found.append(bytearray())
        else:
            found[-1] += token.removeprefix(b"\0") if len(token) > 1 else token.strip(b"\0")
    return [bytes(one) for one in found]


CREATE_TEXT_FILE_READER = schema(
    "CreateTextFileReader",
    """handler = a reader of the rows of a file, whose fields stand between tabs.

    A blob that has something in it already is given the new reader instead.""",
    outputs=[blob("handler", type_name=READER)],
    args=[
        arg("filename", str, doc="path; relative ones count from the root folder of the workspace"),
        arg("num_passes", int, 1, doc="how often the file is read"),
        arg("field_types", list[int], doc="numbers of TensorProto.DataType, FLOAT or STRING: one for each field"),
    ],
    effects=Effects.IO,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "rows.txt")
    ...     _ = path.write_text("one\\t1\\ntwo\\t2.5\\n")
    ...     reader = run("CreateTextFileReader", filename=str(path), field_types=[4, 1])
    ...     run("TextFileReaderRead", reader, batch_size=9, outputs=2)[1]
    array([1. , 2.5], dtype=float32)
    """,
)


@CREATE_TEXT_FILE_READER.validate
def create_text_file_reader_validate(op: OpView) -> None:
    op.require(len(op.field_types) > 0, "field_types is empty, a row has a field at least")
    strange = [number for number in op.field_types if number not in TAKEN]
    op.require(not strange, f"field_types has {strange}, fields are 1 (FLOAT) or 4 (STRING)")


@host_kernel(CREATE_TEXT_FILE_READER)
def create_text_file_reader(op: OpView, workspace: BlobOwner, handler: Blob) -> None:
    dtypes = [TAKEN[number] for number in op.field_types]
    handler.set(TextFileReader(workspace.root / op.filename, dtypes, op.num_passes))


TEXT_FILE_READER_READ = schema(
    "TextFileReaderRead",
    """Y = the next rows of a file, a vector of each field: `batch_size` of them, or as many as there are.

    A number is what the text of a field begins with.""",
    inputs=[blob("handler", type_name=READER, role=Role.STATE)],
    outputs=[blob("Y", frozenset(TAKEN.values()), "N", variadic=True, dynamic=True, host=True)],
    args=[arg("batch_size", int, 1, minimum=0, doc="rows")],
    effects=Effects.IO,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
)


@TEXT_FILE_READER_READ.infer
def text_file_reader_read_infer(op: OpView, handler: object) -> tuple[TensorSpec | None, ...]:
    del handler  # it knows the types of its fields
    return (None,) * len(op.output_letters)


@host_kernel(TEXT_FILE_READER_READ)
def text_file_reader_read(op: OpView, handler: Blob, Y: tuple[Blob, ...]) -> None:
    reader = handler.get(TextFileReader)
    op.require(len(Y) == len(reader.dtypes), f"{len(Y)} blobs for {len(reader.dtypes)} fields")
    before, taken = reader.next(op.batch_size)
    rows = [_fields(row) for row in taken]
    for n, row in enumerate(rows, before + 1):
        if len(row) != len(Y):
            raise op.error(FormatError, f"row {n} of {shown(reader.path)} has {len(row)} fields, it has {len(Y)}")
    columns = zip(*rows, strict=True) if rows else [()] * len(Y)
    found = [
        _column(op, f"of {shown(reader.path)}, field {k}", before, texts, dtype)
        for k, (texts, dtype) in enumerate(zip(columns, reader.dtypes, strict=True), 1)
    ]
    for target, column in zip(Y, found, strict=True):
        target.put(column)


def _column(op: OpView, where: str, before: int, texts: Sequence[bytes], dtype: DataType) -> Array:
    found = np.empty(len(texts), dtype.numpy)
    if dtype is DataType.STRING:
        found[:] = texts
        return found
    numbers = _plain_numbers(texts)
    if numbers is None:
        numbers = [_number(text) for text in texts]
        if None in numbers:
            n = numbers.index(None)
            raise op.error(FormatError, f"row {before + n + 1} {where}: {texts[n][:40]!r} does not begin with a number")
    with np.errstate(over="ignore"):  # a number that is too large is infinite
        found[:] = np.array(numbers, np.float64)
    return found


def _plain_numbers(texts: Sequence[bytes]) -> Sequence[float | None] | None:
    """Return the numbers of texts that are decimal numbers from begin to end; None where one is not."""
    if b"".join(texts).translate(None, DECIMAL):
        return None
    try:
        return [float(text) for text in texts]
    except ValueError:
        return None


def _number(text: bytes) -> float | None:
    """Return what a text begins with; None where that is no number."""
    match = NUMBER.match(text)
    if match is None:
        return None
    sign, word, bits, digits = (b"" if part is None else part for part in match.groups())
    value = _from_hex(bits.decode()) if bits else float(word + digits)
    return -value if sign == b"-" else value


def _from_hex(digits: str) -> float:
    try:
        return float.fromhex(digits)
    except OverflowError:  # as of decimal digits that are too large
        return math.inf
