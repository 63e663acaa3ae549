"""A run that was ended goes on; images and records come out in order, whatever is wrong with some of them."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tazza
from tazza.bulk.crew import PROGRAM, Crew
from tazza.bulk.job import Job
from tazza.bulk.part import PartFiles, predict_part
from tazza.bulk.results import result_form
from tazza.bulk.run import Order, lock_file, parts_folder, predict_all
from tazza.bulk.source import Part, Reader, file_parts, record_parts
from tazza.db.base import Mode, open_db
from tazza.errors import ArgumentError, DBError, FileError, FormatError, NetError, TazzaError, UnavailableError
from tazza.images import Preprocessing
from tazza.models import Model
from tazza.proto import TensorProtos
from tazza.proto.message import parse
from tazza.tensor.tensor_proto import array_to_tensor_proto, tensor_proto_to_array

PLAIN = Preprocessing(colors="grey", scale=1.0)
COUNT = 70


def image(number: int) -> np.ndarray[tuple[int, int], np.dtype[np.uint8]]:
    """Return an image (2, 3) whose mean tells its number."""
    return np.full((2, 3), number, np.uint8)


@pytest.fixture
def model(tmp_path: Path) -> tuple[str, str]:
    """A net of two scores: the mean of an image, and 30."""
    built = Model("mean")
    mean = built.average_pool("data", "mean", global_pooling=1)
    built.net.add_external_output(built.fc(mean, "scores", 1, 2))
    workspace = tazza.Workspace()
    workspace.feed("scores_w", np.array([[1], [0]], np.float32))
    workspace.feed("scores_b", np.array([0, 30], np.float32))
    files = tmp_path / "init_net.pb", tmp_path / "predict_net.pb"
    tazza.save_nets(*files, built, workspace)
    return str(files[0]), str(files[1])


def write_db(path: Path, db_type: str) -> None:
    """Write records of images; one is broken, one has no tensor."""
    with open_db(db_type, path, Mode.NEW) as db, db.transaction() as transaction:
        for number in range(COUNT):
            record = TensorProtos(protos=[array_to_tensor_proto(image(number))]).SerializeToString()
            transaction.put(f"key {number:03}", {7: b"\xff", 9: b""}.get(number, record))


class Here(Crew):
    """Predicts in this process, which takes less time than to begin others."""

    def run(self, parts: Sequence[Part], *, done: int = 0) -> None:
        job = self.job
        with job.load() as predictor, Reader(job.db_type, job.db, job.prepare, job.batch_size) as reader:
            for part in parts:
                predict_part(predictor, job, part, reader, self.folder, self.told)
                done += part.count
                self.told(done)


def lines(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("db_type", ["lmdb", "minidb"])
def test_a_database_in_order_with_what_is_broken(model: tuple[str, str], tmp_path: Path, db_type: str) -> None:
    db, out = tmp_path / "records", tmp_path / "found.jsonl"
    write_db(db, db_type)
    job = Job(model, PLAIN, top=1, batch_size=4, db_type=db_type, db=str(db))
    parts = record_parts(db_type, db, job.batch_size)
    assert [(part.start, part.stop) for part in parts] == [(at, min(at + 4, COUNT)) for at in range(0, COUNT, 4)]
    found = predict_all(job, parts, out, Order(crew=Here))
    assert (found.images, found.failed, [name for name, _ in found.failures]) == (COUNT, 2, ["key 007", "key 009"])
    for number, line in enumerate(lines(out)):
        assert line["image"] == f"key {number:03}"
        if number not in (7, 9):
            assert line["classes"] == [{"class": int(number <= 30), "score": float(max(number, 30))}] or number == 30


def test_what_was_done_is_kept(model: tuple[str, str], tmp_path: Path) -> None:
    """The crew ends behind the third part; the next run does the rest, and a file that changes begins anew."""
    files = [tmp_path / f"{number:02}.npy" for number in range(12)]
    for number, file in enumerate(files):
        np.save(file, np.stack([image(number), image(40 + number)]))
    out = tmp_path / "found.csv"
    job = Job(model, PLAIN, top=1, batch_size=1)
    parts = file_parts(files, 1)

    class Ended(Exception):
        pass

    def end(done: int) -> None:
        if done >= 3:
            raise Ended

    with pytest.raises(Ended):
        predict_all(job, parts, out, Order(told=end, crew=Here))
    assert not out.exists()
    done = [part.start for part in parts if PartFiles(parts_folder(out), part).done]
    assert done == [0, 1, 2]
    with pytest.raises(FileError, match="holds parts of another run\n  hint: --overwrite"):
        predict_all(replace(job, top=2), parts, out, Order())
    found = predict_all(job, parts, out, Order(crew=Here))
    assert (found.kept, found.images) == (3, 24)
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert [(row["image"], row["row"]) for row in rows] == [(str(file), row) for file in files for row in "01"]
    assert [row["score"] for row in rows][:4] == ["30", "40", "30", "41"]
    with pytest.raises(FileError, match="is there already"):
        predict_all(job, parts, out, Order())
    assert predict_all(job, parts, out, Order(overwrite=True, crew=Here)).kept == 0


def test_whole_outputs_go_into_an_lmdb(model: tuple[str, str], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.stack([image(3), image(4)]))
    (tmp_path / "b.npy").write_bytes(b"none")
    np.save(tmp_path / "c\udcff.npy", image(5))  # no UTF-8
    out = tmp_path / "outputs.lmdb"
    parts = file_parts([tmp_path / f"{name}.npy" for name in ("a", "b", "c\udcff")], 2)
    found = predict_all(Job(model, PLAIN, batch_size=2), parts, out, Order(crew=Here))
    assert (found.images, found.failed) == (4, 1)
    with open_db("lmdb", out) as db, db.cursor() as cursor:
        records = [(key, parse(TensorProtos, value, "a record").protos) for key, value in cursor]
    assert [key for key, _ in records] == [b"00000000-00000000", b"00000000-00000001", b"00000002"]
    assert [tensor_proto_to_array(protos[0]).tolist() for _, protos in records] == [[3, 30], [4, 30], [5, 30]]
    assert records[2][1][1].string_data[0].decode() == str(tmp_path / "c\\udcff.npy")


@pytest.mark.slow
def test_what_is_wrong_with_all_is_told_as_itself(model: tuple[str, str], tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", image(3))
    parts = file_parts([tmp_path / "a.npy"], 2)
    with pytest.raises(TazzaError) as met:
        predict_all(Job((model[1], model[0]), PLAIN), parts, tmp_path / "found.csv", Order())
    assert isinstance(met.value, NetError | FormatError | ArgumentError), met


@pytest.mark.slow
def test_a_worker_whom_nobody_hears_ends_without_a_word(model: tuple[str, str], tmp_path: Path) -> None:
    """Whoever handed out parts was killed; the part that it is at is left undone."""
    np.save(tmp_path / "a.npy", image(3))
    (part,) = file_parts([tmp_path / "a.npy"], 2)
    job: dict[str, Any] = {"job": Job(model, PLAIN).to_dict(), "folder": str(tmp_path), "modules": []}
    pipe = subprocess.PIPE
    with subprocess.Popen(PROGRAM, stdin=pipe, stdout=pipe, stderr=pipe) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        assert worker.stderr is not None
        worker.stdin.write(json.dumps(job).encode() + b"\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == b'{"ready": true}\n'
        worker.stdout.close()
        worker.stdin.write(json.dumps(asdict(part)).encode() + b"\n")
        worker.stdin.flush()
        assert (worker.stderr.read(), worker.wait()) == (b"", 1)


def test_workers_that_die_again_and_again_end_a_run(tmp_path: Path) -> None:
    """They die before they are ready, or of their part; the message says how."""
    part, job = Part(0, 0, 2, ("a", "b")), Job(("a", "b"), PLAIN)
    dies = (sys.executable, "-S", "-c", f"import os; os.kill(os.getpid(), {int(signal.SIGKILL)})")
    with (
        Crew(job, tmp_path, 1, program=dies) as crew,
        pytest.raises(UnavailableError, match="before they were ready, the last one by the signal SIGKILL"),
    ):
        crew.run([part])
    program = "import sys; sys.stdin.readline(); print('{}', flush=True); sys.stdin.readline(); sys.exit(3)"
    with (
        Crew(job, tmp_path, 1, program=(sys.executable, "-S", "-c", program)) as crew,
        pytest.raises(UnavailableError, match="at items 0 to 1, the last one with the status 3"),
    ):
        crew.run([part])
    assert crew.replaced == 4
    assert crew.pids == []


def test_a_database_that_changes_is_noticed(tmp_path: Path) -> None:
    write_db(tmp_path / "records", "minidb")
    parts = record_parts("minidb", tmp_path / "records", 4)
    with Reader("minidb", str(tmp_path / "records"), PLAIN, 4) as reader:
        wanted = [item.position for part in (parts[1], parts[0], parts[2]) for item, _ in reader.images(part)]
        assert wanted == [4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11]
        with pytest.raises(DBError, match=r"record 12 of .* was 'key 099', and is another now"):
            list(reader.images(replace(parts[3], key=b"key 099".hex())))


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"kinds: .jsonl, .csv, .parquet, .lmdb"):
        result_form(tmp_path / "found.txt")
    with pytest.raises(ArgumentError, match="nothing to predict"):
        predict_all(Job(("a",), PLAIN), [], tmp_path / "found.csv", Order())
    with pytest.raises(ArgumentError, match="0 workers"):
        Crew(Job(("a",), PLAIN), tmp_path, 0)
    part = Part(0, 0, 2, ("a", "b"))
    PartFiles(tmp_path, part).lines.write_text('{"image": "a", "error": "none"}\n{"end": {"images": 2, "items": 2}}\n')
    with pytest.raises(FormatError, match="has 1 lines for 2 items"):
        list(PartFiles(tmp_path, part).read())
    job = Job(("a",), PLAIN, labels=("x", "y"), output="o", trust=True)
    assert Job.from_dict(json.loads(json.dumps(job.to_dict()))) == job


def test_one_process_at_a_time(model: tuple[str, str], tmp_path: Path) -> None:
    import fcntl

    parts = file_parts([tmp_path / "a.npy"], 1)
    out = tmp_path / "found.csv"

    def take(done: int) -> None:
        raise AssertionError(done)

    def crew(*arguments: object) -> Crew:
        with lock_file(out).open("wb") as file, pytest.raises(OSError, match=os.strerror(11)):
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        raise InterruptedError

    with pytest.raises(InterruptedError):
        predict_all(Job(model, PLAIN), parts, out, Order(told=take, crew=crew))


def test_without_a_library_for_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tazza\[parquet\]'"):
        result_form(tmp_path / "found.parquet")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # what the library says of its own
def test_parquet(model: tuple[str, str], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    np.save(tmp_path / "a.npy", np.stack([image(3), image(40)]))
    (tmp_path / "b.npy").write_bytes(b"none")
    out = tmp_path / "found.parquet"
    predict_all(
        Job(model, PLAIN, top=1), file_parts([tmp_path / "a.npy", tmp_path / "b.npy"], 1), out, Order(crew=Here)
    )
    rows = parquet.read_table(out).to_pylist()
    assert [(row["row"], row["classes"], row["labels"], row["scores"]) for row in rows] == [
        (0, [1], None, [30.0]),
        (1, [0], None, [40.0]),
        (None, None, None, None),
    ]
    assert "is no array" in rows[2]["error"]
