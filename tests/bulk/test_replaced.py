"""What lies where a run writes stays until new results take its place; names and parts may be of any kind."""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.bulk.crew import Crew
from tazza.bulk.job import Job
from tazza.bulk.part import PartFiles
from tazza.bulk.results import FORMS
from tazza.bulk.run import MANIFEST, Order, lock_file, parts_folder, predict_all
from tazza.bulk.source import Item, Part, file_parts
from tazza.db.base import Mode, open_db
from tazza.errors import FileError, FormatError, TazzaError
from tazza.images import Preprocessing
from tazza.runtime.files import encodable

JOB = Job(("none",), Preprocessing())
OTHER = replace(JOB, top=1)
NAMES = ["plain", "a,b", 'say "cup"', "two\nlines", "back\rthere", "end\r\n", "no\udcff text", "\udc80", " ", "ä\u2028"]
PARTS = file_parts([Path(name) for name in NAMES], 4)
ENDINGS = [name for name in FORMS if name != ".parquet"]


def write_part(job: Job, folder: Path, part: Part) -> None:
    """Write a part as a worker does: each image has as many classes as are kept."""
    files = PartFiles(folder, part, job.run, job.form)
    items = [Item(part.start + place, name) for place, name in enumerate(part.files)]
    found: dict[str, Any] = {"classes": [{"class": number, "score": 0.5} for number in range(job.top)]}
    if job.form == "tensors":
        found = {}
        with open_db("minidb", files.outputs, Mode.NEW) as db, db.transaction() as transaction:
            for item in items:
                transaction.put(item.key, f"{job.top}".encode())
    end = {"end": {"items": part.count, "images": part.count, "failed": 0, "run": job.run}}
    files.lines.write_text(
        "".join(json.dumps(line) + "\n" for line in [*(each.fields() | found for each in items), end])
    )


def nothing(crew: Writes) -> None:
    """Let nothing happen."""


@dataclass
class Writes(Crew):
    """Writes parts without a model; `first` happens before, `last` when all are there."""

    first: Callable[[Writes], None] = nothing
    last: Callable[[Writes], None] = nothing

    def run(self, parts: Sequence[Part], *, done: int = 0) -> None:
        self.first(self)
        for part in parts:
            write_part(self.job, self.folder, part)
        self.last(self)


def order(
    *, overwrite: bool = False, first: Callable[[Writes], None] = nothing, last: Callable[[Writes], None] = nothing
) -> Order:
    return Order(overwrite=overwrite, crew=partial(Writes, first=first, last=last))


def tops(out: Path) -> set[int]:
    """Return how many classes the results have of each image."""
    if out.suffix == ".lmdb":
        with open_db("lmdb", out) as db, db.cursor() as cursor:
            return {int(value) for _, value in cursor}
    if out.suffix == ".jsonl":
        return {len(json.loads(line)["classes"]) for line in out.read_text().splitlines()}
    with out.open(newline="") as file:
        return {max(int(row["rank"]) for row in csv.DictReader(file))}


def fail(crew: Writes) -> None:
    raise InterruptedError


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("second", [JOB, OTHER], ids=["same", "other"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_run_under_way_is_left_alone(tmp_path: Path, ending: str, second: Job, overwrite: bool) -> None:
    out = tmp_path / f"found{ending}"

    def begin_another(crew: Writes) -> None:
        with pytest.raises(FileError, match="another process predicts into"):
            predict_all(second, PARTS, out, order(overwrite=overwrite))

    assert predict_all(JOB, PARTS, out, order(first=begin_another, last=begin_another)).images == len(NAMES)
    assert tops(out) == {JOB.top}
    assert sorted(tmp_path.iterdir()) == [out]


def test_a_late_part_of_another_run_is_noticed(tmp_path: Path) -> None:
    """A worker of a run that was killed writes the part that it is at into the folder of the next run."""
    out = tmp_path / "found.csv"
    late: list[Job] = []

    def begin(crew: Writes) -> None:
        late.append(crew.job)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        predict_all(JOB, PARTS, out, order(first=begin))
    again = order(overwrite=True, last=lambda crew: write_part(late[0], crew.folder, PARTS[1]))
    with pytest.raises(FormatError, match="is a part of another run"):
        predict_all(OTHER, PARTS, out, again)
    assert not out.exists()


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_old_results_stay_until_new_ones_are_there(tmp_path: Path, ending: str, linked: bool) -> None:
    out = real = tmp_path / f"found{ending}"
    if linked:
        real = tmp_path / "elsewhere"
        out.symlink_to(real)
    predict_all(JOB, PARTS, out, order())
    with pytest.raises(InterruptedError):
        predict_all(OTHER, PARTS, out, order(overwrite=True, last=fail))
    assert tops(out) == {JOB.top}
    predict_all(OTHER, PARTS, out, order())  # it goes on
    assert tops(out) == {OTHER.top}
    assert out.is_symlink() == linked
    assert sorted(tmp_path.iterdir()) == sorted({out, real})


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("names", [["thesis.txt"], ["thesis.txt", MANIFEST], ["000000.jsonl"], [".x.0a1b2c3d.tmp"]])
def test_a_folder_that_no_run_has_made_is_refused(tmp_path: Path, names: list[str], overwrite: bool) -> None:
    folder = parts_folder(tmp_path / "found.csv")
    folder.mkdir()
    for name in names:
        (folder / name).write_text("mine")
    with pytest.raises(FileError, match="is no folder of parts: it holds"):
        predict_all(JOB, PARTS, tmp_path / "found.csv", order(overwrite=overwrite))
    assert {name: (folder / name).read_text() for name in names} == dict.fromkeys(names, "mine")


@pytest.mark.parametrize("names", [[], [f".{MANIFEST}.0a1b2c3d.tmp"]])
def test_a_run_that_was_killed_as_it_began(tmp_path: Path, names: list[str]) -> None:
    out = tmp_path / "found.csv"
    parts_folder(out).mkdir()
    for name in names:
        (parts_folder(out) / name).touch()
    lock_file(out).touch()
    assert predict_all(JOB, PARTS, out, order()).kept == 0
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_is_no_results_is_not_replaced(tmp_path: Path, ending: str) -> None:
    out = tmp_path / f"found{ending}"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(FileError, match="cannot replace"):
        predict_all(JOB, PARTS, out, order(overwrite=True, first=fail))
    assert (out / "thesis.txt").read_text() == "mine"


def test_names_of_any_kind(tmp_path: Path) -> None:
    for ending in FORMS:
        if ending == ".parquet":
            continue
        predict_all(OTHER, PARTS, tmp_path / f"found{ending}", order())
    with (tmp_path / "found.csv").open(newline="") as file:
        assert [row["image"] for row in csv.DictReader(file)] == [encodable(name) for name in NAMES]
    lines = (tmp_path / "found.jsonl").read_text().splitlines()
    assert [json.loads(line)["image"] for line in lines] == NAMES


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what the library says of its own
def test_names_of_any_kind_in_parquet(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    predict_all(OTHER, PARTS, tmp_path / "found.parquet", order())
    assert parquet.read_table(tmp_path / "found.parquet")["image"].to_pylist() == [encodable(name) for name in NAMES]


@pytest.mark.slow
def test_as_many_classes_as_there_are(tmp_path: Path) -> None:
    job = replace(JOB, top=60_000)
    predict_all(job, file_parts([Path("a")], 1), tmp_path / "found.jsonl", order())
    assert (tmp_path / "found.jsonl").stat().st_size > 1 << 20
    assert tops(tmp_path / "found.jsonl") == {job.top}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["class", "label", "score"]), inner),
    max_leaves=5,
)
LINES = st.lists(st.dictionaries(st.sampled_from(["image", "row", "classes", "error", "end"]), VALUES), max_size=3)


@pytest.mark.parametrize(
    "text",
    [
        "",
        '{"image": "a", ',
        '{"image": "a"}\n{"end": {"items": 1, "images": 1}}\n',
        '{"classes": []}\n{"end": {"items": 1, "images": 1}}\n',
        '{"image": "a", "classes": 3}\n{"end": {"items": 1, "images": 1}}\n',
        '{"image": "a", "classes": [{"class": 1}]}\n{"end": {"items": 1, "images": 1}}\n',
        '{"end": {"items": [1], "images": 0}}\n',
        '{"end": []}\n',
    ],
)
def test_a_part_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "000000.jsonl").write_text(text)
    with pytest.raises(FormatError, match="remove it, and predict again"):
        list(PartFiles(tmp_path, Part(0, 0, 1, ("a",))).read())


@pytest.mark.slow
@given(LINES, VALUES, st.sampled_from(sorted(FORMS)))
def test_parts_of_any_kind(lines: list[dict[str, Any]], more: object, ending: str) -> None:
    """A part is joined, or a typed error tells what is wrong with it."""

    def spoil(crew: Writes) -> None:
        end = {"end": {"items": 1, "images": len(lines), "run": crew.job.run}}
        said = [*lines, end] if more is None else [*lines, more, end]
        (crew.folder / "000000.jsonl").write_text("".join(json.dumps(line) + "\n" for line in said))

    with tempfile.TemporaryDirectory() as folder:
        with suppress(TazzaError):
            predict_all(JOB, file_parts([Path("a")], 1), Path(folder) / f"found{ending}", order(last=spoil))


def test_many_runs_at_once(tmp_path: Path) -> None:
    """One at a time works, also as another ends and removes the lock; the others are refused, and no lock is left."""
    out = tmp_path / "found.jsonl"
    at_work = refused = 0
    most = 0

    def enter(crew: Writes) -> None:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)

    def leave(crew: Writes) -> None:
        nonlocal at_work
        at_work -= 1

    def run_again_and_again() -> None:
        nonlocal refused
        for _ in range(15):
            try:
                predict_all(JOB, PARTS, out, order(overwrite=True, first=enter, last=leave))
            except FileError as error:
                refused += "another process" in error.message

    threads = [Thread(target=run_again_and_again) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, at_work) == (1, 0)
    assert refused < 45
    assert list(tmp_path.iterdir()) == [out]
