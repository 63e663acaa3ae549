"""What `tazza train lenet` says of data that do not fit, of rounds and ends, and of a training that fails to learn."""

from __future__ import annotations

import csv
import re
import struct
from pathlib import Path

import numpy as np
import pytest

from tazza.db import Mode, open_db
from tazza.proto import TensorProtos
from tazza.tensor.tensor_proto import array_to_tensor_proto
from tests.cli.conftest import Run
from tests.cli.test_train import SMALL, contents


@pytest.mark.parametrize("form", ["minidb", "lmdb", "idx"])
def test_images_that_do_not_fit_are_refused_by_the_name_that_was_given(run: Run, tmp_path: Path, form: str) -> None:
    """Whatever they were put into before they were looked at: the user knows none of that."""
    given = tmp_path / f"given.{form}"
    if form == "idx":
        write_idx(given)
    else:
        first = np.zeros((28, 28, 1), np.uint8)  # the channel last, as NHWC has it
        with open_db(form, given, Mode.NEW) as db, db.transaction() as transaction:
            for number in range(20):
                protos = [array_to_tensor_proto(first), array_to_tensor_proto(np.array([number % 2], np.int32))]
                transaction.put(f"{number:03}", TensorProtos(protos=protos).SerializeToString())
    result = run("train", "lenet", "--data", given, "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "holds an image of dims" in result.stderr
    assert str(given) in result.stderr.replace("\n", "")
    assert "train.lmdb" not in result.stderr
    assert "test.lmdb" not in result.stderr


def write_idx(folder: Path) -> None:
    """Write the four files of MNIST, of images that are too small."""
    folder.mkdir()
    for split in ("train", "t10k"):
        (folder / f"{split}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, 20, 5, 6) + bytes(600))
        (folder / f"{split}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, 20) + bytes(20))


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_every_round_through_the_data_is_tested_once_and_its_end_is_the_end(
    run: Run, bars: Path, tmp_path: Path
) -> None:
    """60 images in batches of 7 and of 25: a round ends within a batch."""
    for batch, iterations in ((7, (9, 18, 26)), (25, (3, 5, 8))):
        out = tmp_path / str(batch)
        result = run("train", "lenet", "--data", bars, "--out", out, "--epochs", 3, "--batch-size", batch)
        assert result.exit_code == 0, result.output
        rows = list(csv.DictReader((out / "history.csv").read_text().splitlines()))
        assert tuple(int(row["iteration"]) for row in rows if row["test_accuracy"]) == iterations
        assert len(rows) == iterations[-1]
        assert [line.split()[1] for line in result.output.splitlines() if line.startswith("epoch")] == ["1", "2"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_going_on_to_an_end_that_was_passed_is_refused(run: Run, bars: Path, tmp_path: Path) -> None:
    assert run("train", "lenet", "--data", bars, "--out", tmp_path, *SMALL, "--iterations", 5).exit_code == 0
    before = contents(tmp_path)
    for words in (("--epochs", 1), ("--iterations", 4)):
        result = run("train", "lenet", "--out", tmp_path, "--resume", *words)
        assert result.exit_code == 1
        assert re.search(r"has done 5 iterations, and [34] are wanted", result.stderr)
        assert contents(tmp_path) == before
    assert run("train", "lenet", "--out", tmp_path, "--resume").exit_code == 0


@pytest.mark.slow
@pytest.mark.usefixtures("no_pictures")
def test_a_training_that_diverges_says_so(run: Run, bars: Path, tmp_path: Path) -> None:
    words = ("train", "lenet", "--data", bars, "--iterations", 45, "--batch-size", 5)
    wild = run(*words, "--out", tmp_path / "wild", "--learning-rate", 5)
    assert "warning: the loss did not fall: " in wild.output
    good = run(*words, "--out", tmp_path / "good", "--learning-rate", 0.01)
    assert "warning" not in good.output, good.output
