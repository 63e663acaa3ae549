"""CreateTextFileReader and TextFileReaderRead: rows as Caffe2 reads them, and files that are no such tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tazza.errors import FileError, FormatError, ShapeError
from tazza.operator import operator_def, run_op
from tazza.ops.data import text_file
from tazza.ops.data.text_file import TextFileReader
from tazza.tensor import DataType
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

TABLE = b"one\t1.5\nt\0\two\t-2e1x\n\0\0\0\n\t nan\nlast\t+.5"


def texts(*values: bytes) -> Any:
    """Return texts as a tensor has them."""
    return np.array(values, object)


def numbers(*values: float) -> Any:
    """Return float32 numbers."""
    return np.array(values, np.float32)


def read(size: int, *leaves: Any, blobs: int = 2) -> Step:
    """Return the step that reads so many rows."""
    names = [f"y{n}" for n in range(blobs)]
    return Step(
        operator_def("TextFileReaderRead", ["r"], names, batch_size=size), dict(zip(names, leaves, strict=True))
    )


def create(**arguments: Any) -> Step:
    """Return the step that makes a reader."""
    return Step(operator_def("CreateTextFileReader", [], ["r"], filename="table", field_types=[4, 1], **arguments))


CASES = [
    Sequence(
        "rows",
        (
            create(),
            read(0, texts(), numbers()),
            read(2, texts(b"one", b"t\two"), numbers(1.5, -20)),
            read(1, texts(b"\0\n"), numbers(np.nan)),
            read(5, texts(b"last"), numbers(0.5)),
            read(5, texts(), numbers()),
        ),
        files={"table": TABLE},
    ),
    Sequence(
        "passes",
        (create(num_passes=2), read(3, texts(b"a", b"", b"a"), numbers(1, 2, 1)), read(3, texts(b""), numbers(2))),
        files={"table": b"a\t1\n\t2\n"},
    ),
    Sequence("no pass", (create(num_passes=0), read(3, texts(), numbers())), files={"table": TABLE}),
]


@on_sequences(CASES)
def test_rows(case: Sequence) -> None:
    check_op(case)


def rows_of(folder: Path, content: bytes, *dtypes: DataType) -> Any:
    """Return what is read of a file."""
    path = folder / "table"
    path.write_bytes(content)
    reader = run_op("CreateTextFileReader", filename=str(path), field_types=[dtype.proto for dtype in dtypes])
    assert isinstance(reader, TextFileReader)
    return run_op("TextFileReaderRead", reader, batch_size=100, outputs=len(dtypes))


def test_lines(tmp_path: Path) -> None:
    for content, wanted in (
        (b"", []),
        (b"\n", [b""]),
        (b"a\n\nb\n", [b"a", b"", b"b"]),
        (b"a\r\nb\r\n", [b"a\r", b"b\r"]),
        (b"a\\tb\n", [b"a\\tb"]),
        (b"\xff\n", [b"\xff"]),
        (b"a\0\0\nb\n", [b"a\0", b"b"]),
        (b"a\0\nb\n", [b"a\nb"]),
        (b"a\0b\n", [b"ab"]),
        (b"a\0\t\n", [b"a\t"]),
    ):
        assert rows_of(tmp_path, content, DataType.STRING).tolist() == wanted


def _one_by_one(content: bytes) -> list[list[bytes]]:
    """Return the fields of the rows of a file, which is read byte by byte."""
    rows: list[list[bytearray]] = []
    new, at = True, 0
    while at < len(content):
        if new:
            rows.append([bytearray()])
        byte = content[at : at + 1]
        new = byte == b"\n"
        if byte == b"\0":
            at += 1
            rows[-1][-1] += content[at : at + 1] if at + 1 < len(content) or content[at : at + 1] != b"\n" else b""
        elif byte == b"\t":
            rows[-1].append(bytearray())
        elif not new:
            rows[-1][-1] += byte
        at += 1
    return [[bytes(field) for field in row] for row in rows]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(st.sampled_from([b"a", b"bc", b"\t", b"\n", b"\0"]), max_size=30),
    block=st.integers(1, 9),
    batch=st.integers(1, 4),
)
def test_blocks_are_cut_into_the_rows_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: list[bytes], block: int, batch: int
) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"".join(pieces))
    monkeypatch.setattr(text_file, "BLOCK_BYTES", block)
    reader = TextFileReader(path, [DataType.STRING], 1)
    found: list[list[bytes]] = []
    while rows := reader.next(batch)[1]:
        assert len(rows) <= batch
        found += [text_file._fields(row) for row in rows]  # pyright: ignore[reportPrivateUsage]
    assert found == _one_by_one(path.read_bytes())


@given(texts=st.lists(st.text("0123456789+-.eE_ x", min_size=1, max_size=6), min_size=1, max_size=4))
def test_plain_numbers_are_what_each_text_begins_with(texts: list[str]) -> None:
    given_texts = [text.encode() for text in texts]
    plain = text_file._plain_numbers(given_texts)  # pyright: ignore[reportPrivateUsage]
    assert plain is None or plain == [text_file._number(text) for text in given_texts]  # pyright: ignore[reportPrivateUsage]


def test_numbers(tmp_path: Path) -> None:
    written = b"1e-3.5\n.5\n+7.\n-0x1.8p3\nINFINITYx\n-inf\nnan(12)\n1e\n1e40\n 0x10\n"
    wanted = [1e-3, 0.5, 7, -12, np.inf, -np.inf, np.nan, 1, np.inf, 16]
    np.testing.assert_array_equal(rows_of(tmp_path, written, DataType.FLOAT), np.array(wanted, np.float32))


WRONG: list[tuple[bytes, str]] = [
    (b"a\n", "row 1 of '.*table' has 1 fields, it has 2"),
    (b"a\t1\nb\t1\t\n", "row 2 of '.*table' has 3 fields, it has 2"),
    (b"a\tb\n", "row 1 of '.*table', field 2: b'b' does not begin with a number"),
    (b"a\t1\nb\t2\na\t\n", "row 3 of '.*table', field 2: b'' does not begin with a number"),
]


@pytest.mark.parametrize(("content", "words"), WRONG)
def test_rows_that_do_not_fit(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(FormatError, match=words):
        rows_of(tmp_path, content, DataType.STRING, DataType.FLOAT)


def test_rows_are_counted_from_batch_to_batch(tmp_path: Path) -> None:
    """A row that does not fit is passed over, as Caffe2 does."""
    path = tmp_path / "table"
    path.write_bytes(b"a\t1\nb\tx\nc\t3\n")
    reader = run_op("CreateTextFileReader", filename=str(path), field_types=[4, 1], num_passes=2)
    for n in (2, 5):
        assert run_op("TextFileReaderRead", reader, outputs=2)[1] == 1
        with pytest.raises(FormatError, match=f"row {n} of"):
            run_op("TextFileReaderRead", reader, outputs=2)
        assert run_op("TextFileReaderRead", reader, outputs=2)[1] == 3


@pytest.mark.parametrize("error", [FileError("the disk is gone"), KeyboardInterrupt(), OSError(5, "input")])
def test_a_reader_that_fails_never_says_that_the_file_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"1\n2\n3\n")
    reader = run_op("CreateTextFileReader", filename=str(path), field_types=[1])
    with monkeypatch.context() as small:
        small.setattr(text_file, "BLOCK_BYTES", 2)
        assert run_op("TextFileReaderRead", reader) == 1

    def fail(block: bytes) -> Any:
        raise error

    monkeypatch.setattr(text_file, "_rows", fail)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else FileError):
        run_op("TextFileReaderRead", reader)
    monkeypatch.undo()
    said: list[str] = []
    for _ in range(2):
        with pytest.raises(FileError, match=r"disk is gone|behind row 1: KeyboardInterrupt|input") as caught:
            run_op("TextFileReaderRead", reader)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="No such file"):
        run_op("CreateTextFileReader", filename=str(tmp_path / "none"), field_types=[4])
    with pytest.raises(FileError, match="folder"):
        run_op("CreateTextFileReader", filename=str(tmp_path), field_types=[4])
    (tmp_path / "table").touch()
    with pytest.raises(ShapeError, match="field_types is empty"):
        run_op("CreateTextFileReader", filename=str(tmp_path / "table"), field_types=[])
    with pytest.raises(ShapeError, match=r"field_types has \[2\]"):
        run_op("CreateTextFileReader", filename=str(tmp_path / "table"), field_types=[4, 2])
    reader = run_op("CreateTextFileReader", filename=str(tmp_path / "table"), field_types=[4, 1])
    with pytest.raises(ShapeError, match="1 blobs for 2 fields"):
        run_op("TextFileReaderRead", reader)
