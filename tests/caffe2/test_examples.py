"""`caffe2.python.examples`: characters are learned, a database is written and read; nets are those of Caffe2."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import workspace
from caffe2.python.examples import char_rnn, lmdb_create_example
from tazza.errors import FileError

TEXT = "hello world, this is a small text. " * 9


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


def made(folder: Path, **more: Any) -> Any:
    """Return an LSTM over a small text."""
    (folder / "text").write_text(TEXT)
    settings = {"seq_length": 5, "batch_size": 3, "iters_to_report": 4, "hidden_size": 7, **more}
    rnn: Any = char_rnn.CharRNN(argparse.Namespace(train_data=str(folder / "text"), gpu=False, **settings))
    rnn.CreateModel()
    return rnn


class Enough(Exception):
    """Enough was trained."""


@pytest.mark.slow
def test_characters_are_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    rnn = made(tmp_path, iters_to_report=150, hidden_size=20)
    np.random.seed(0)
    losses: list[float] = []
    fed: list[Any] = []
    numbers = [rnn.char_to_idx[char] for char in TEXT]
    run = workspace.RunNet

    def watched(net: Any) -> Any:
        done = run(net)
        if net == rnn.model.net.Name():
            losses.append(float(workspace.FetchBlob("loss")))
            fed.append((workspace.FetchBlob("input_blob").argmax(-1), workspace.FetchBlob("target")))
            if len(losses) > 150:
                raise Enough
        return done

    monkeypatch.setattr(workspace, "RunNet", watched)
    with pytest.raises(Enough):
        rnn.TrainModel()
    assert np.mean(losses[-10:]) < 0.9 * losses[0]
    first = len(TEXT) // 3
    for batch in (0, 1, 70):  # each column goes through its part, the target is one ahead
        inputs, target = fed[batch]
        for column in range(3):
            at = (np.arange(5) + 5 * batch) % first + column * first
            assert inputs[:, column].tolist() == [numbers[place] for place in at]
            ahead = (np.arange(1, 6) + 5 * batch) % first + column * first
            assert target.reshape(5, 3)[:, column].tolist() == [numbers[place] for place in ahead]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"Input has {len(set(TEXT))} characters. Total input size: {len(TEXT)}"
    assert "---------- Iteration 150 ----------" in lines
    assert len(lines[-1]) == char_rnn.GENERATED + 1


def test_text_goes_on_from_a_character(tmp_path: Path, capsys: Any) -> None:
    rnn = made(tmp_path)
    workspace.RunNetOnce(rnn.model.param_init_net)
    for name in (rnn.hidden_output, rnn.cell_state):
        workspace.FeedBlob(name, np.zeros([1, 3, 7], np.float32))
    workspace.FeedBlob("input_blob", np.zeros([1, 3, rnn.D], np.float32))
    workspace.FeedBlob("seq_lengths", np.ones(3, np.int32))
    char_rnn.CreateNetOnce(rnn.prepare_state)
    rnn.GenerateText(20, "h")
    text = capsys.readouterr().out.splitlines()[-1]
    assert len(text) == 21
    assert text.startswith("h")
    assert set(text) <= set(TEXT)


def test_a_text_that_is_not_there_is_told(tmp_path: Path) -> None:
    sizes = dict.fromkeys(("seq_length", "batch_size", "iters_to_report", "hidden_size"), 1)
    with pytest.raises(FileError, match="nowhere"):
        char_rnn.CharRNN(argparse.Namespace(train_data=str(tmp_path / "nowhere"), **sizes))


@pytest.mark.slow
def test_what_is_written_is_read(tmp_path: Path, capsys: Any) -> None:
    path = str(tmp_path / "images")
    checksum = lmdb_create_example.create_db(path)
    lmdb_create_example.read_db_with_caffe2(path, checksum)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["Inserted 0 rows", "Inserted 16 rows"]
    assert lines[-1].removeprefix("Checksum/read: ") == lines[-3].removeprefix("Checksum/write: ")
    workspace.ResetWorkspace()
    with pytest.raises(AssertionError, match="what was read is not what was written"):
        lmdb_create_example.read_db_with_caffe2(path, checksum + 1)
