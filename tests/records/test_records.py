"""A pipeline of readers, queues and stages carries its records, each once and whole; it ends at once where it fails."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tazza.db import Mode, open_db
from tests.records.failing import ROUND, SIZES, Ended, damaged, raising
from tests.records.pipeline import STAGES, Sizes, Tally, run
from tests.records.source import STORE, TEXT, stored_record, write_sources, write_store, write_text

RECORDS = 100_000
LATE_S = 10.0
"""Who waits for another's deadline is later: 30 seconds."""
TRIES = 3
"""One of so many ends in time: a machine that is busy may be late."""


@pytest.mark.slow
def test_each_record_comes_once_and_whole(tmp_path: Path) -> None:
    write_sources(tmp_path, RECORDS)
    tally = Tally(RECORDS)
    run(tmp_path, Sizes(RECORDS), tally)
    assert tally.largest == Sizes(RECORDS).again, "batches were cut anew"


@pytest.mark.parametrize(("records", "read", "again", "threads"), [(2, 1, 1, 1), (60, 10, 7, 3), (900, 50, 400, 2)])
def test_batches_of_any_sizes(tmp_path: Path, records: int, read: int, again: int, threads: int) -> None:
    write_sources(tmp_path, records)
    run(tmp_path, Sizes(records, read, again, threads), Tally(records))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    write_sources(folder, SIZES.records)
    return folder


def in_time(fail: Callable[[], Ended]) -> Ended:
    """Let a pipeline fail, some times; returns the try that ended first."""
    found: list[Ended] = []
    while len(found) < TRIES and (not found or found[-1].late_s > LATE_S):
        found.append(fail())
    return min(found, key=lambda one: one.late_s)


def check(found: Ended, error: str, *words: str) -> None:
    """Assert that a pipeline ended in time, by this error, which names its stage, and the record by these words."""
    assert found.late_s < LATE_S, found
    assert found.error == error, found.says
    for word in (f"'local/{found.stage}/", *words):
        assert word in found.says


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_that_raises_ends_the_pipeline(sound: Path, stage: str) -> None:
    number = "" if stage == "tally" else ROUND  # one of its threads has the third batch of all
    check(in_time(lambda: raising(sound, stage)), "LookupError", "nobody is there", f"in round {number}")


DAMAGED = 3456
"""The number of the record that is damaged in each source, counted from its first."""


@pytest.fixture(scope="module")
def unfinite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return sources with a record each whose value is no number."""
    folder = tmp_path_factory.mktemp("unfinite")
    half = SIZES.records // 2
    write_text(folder / TEXT, 0, half)
    rows = (folder / TEXT).read_bytes().splitlines(keepends=True)
    rows[DAMAGED] = b"%d\tnan\tname-1\n" % DAMAGED
    (folder / TEXT).write_bytes(b"".join(rows))
    write_store(folder / STORE, half, SIZES.records)
    number = half + DAMAGED
    with open_db("lmdb", folder / STORE, Mode.WRITE) as store, store.transaction() as transaction:
        transaction.put(b"%09d" % number, stored_record(number, float("inf")))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("stage", [stage for stage in STAGES if not stage.startswith("read")])
def test_a_stage_that_cannot_take_a_record_ends_the_pipeline(unfinite: Path, stage: str) -> None:
    words = [f"in round {DAMAGED // SIZES.read + 1}", f"{DAMAGED % SIZES.read}"] if stage.startswith("cut") else []
    check(in_time(lambda: damaged(unfinite, stage)), "NumericError", "in round ", *words)


@pytest.mark.slow
@pytest.mark.parametrize("row", [b"1\t2\n", b"1\t2\tname\tmore\n", b"one\t2\tname\n", b"\n"])
def test_a_damaged_row_ends_the_pipeline(tmp_path: Path, row: bytes) -> None:
    half = SIZES.records // 2
    write_store(tmp_path / STORE, half, SIZES.records)
    write_text(tmp_path / TEXT, 0, half)
    rows = (tmp_path / TEXT).read_bytes().splitlines(keepends=True)
    rows[DAMAGED] = row
    (tmp_path / TEXT).write_bytes(b"".join(rows))
    check(in_time(lambda: damaged(tmp_path, "read_text")), "FormatError", f"row {DAMAGED + 1} of", "in round 4")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "error"), [(b"\x0a\x7f", "FormatError"), (b"", "ShapeError"), (b"\x0a\x00", "ShapeError")]
)
def test_a_damaged_record_of_a_database_ends_the_pipeline(tmp_path: Path, value: bytes, error: str) -> None:
    write_sources(tmp_path, SIZES.records)
    key = b"%09d" % (SIZES.records // 2 + DAMAGED)
    with open_db("lmdb", tmp_path / STORE, Mode.WRITE) as store, store.transaction() as transaction:
        transaction.put(key, value)
    check(in_time(lambda: damaged(tmp_path, "read_store")), error, f"record {key!r}", "in round 4")


def _child(kind: str, folder: Path) -> list[Ended]:
    """Let all stages fail in a process of its own, which is interrupted whenever it asks for that."""
    command = [sys.executable, "-m", "tests.records.failing", kind, str(folder)]
    found: list[Ended] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line == "now\n":
                child.send_signal(signal.SIGINT)
            else:
                found.append(Ended(**json.loads(line)))
    assert child.returncode == 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "error", "words"), [("full_disk", "DBError", ["File too large"]), ("interrupted", "KeyboardInterrupt", [])]
)
def test_no_room_and_interrupts_end_the_pipeline(sound: Path, kind: str, error: str, words: list[str]) -> None:
    tries = [_child(kind, sound)]
    while len(tries) < TRIES and any(one.late_s > LATE_S for one in tries[-1]):
        tries.append(_child(kind, sound))
    assert [one.stage for one in tries[0]] == list(STAGES)
    for each in zip(*tries, strict=True):
        check(min(each, key=lambda one: one.late_s), error, "round ", *words)
