"""`experiment_util`: each line of a log goes to a file, to `logging` and to whoever asked for it."""

from __future__ import annotations

import argparse
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from caffe2.python.experiment_util import ExternalLogger, ModelTrainerLog
from tazza.errors import FileError

TIMES = r"[\d.e-]+,[\d.e-]+"


class Kept(ExternalLogger):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}
        self.rows: list[dict[str, Any]] = []

    def set_runtime_args(self, runtime_args: dict[str, Any]) -> None:
        self.arguments = runtime_args

    def log(self, log_dict: dict[str, Any]) -> None:
        self.rows.append(log_dict)


def test_lines_are_those_of_caffe2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = Kept()
    with caplog.at_level(logging.INFO, logger="experiment_logger"):
        log = ModelTrainerLog("run", argparse.Namespace(gpus=None, lr=0.5), [kept])
        log.logstr("hello")
        log.log(10, 2, {"loss": 1, "acc": 0.5})
        log.log(25, 5, {"acc": 0.6, "loss": "s"})
    assert re.fullmatch(r"run_\d{8}_\d{6}\.log", log.filename)
    lines = Path(log.filename).read_text().splitlines()
    assert caplog.messages == lines
    assert lines[:2] == ["# Namespace(gpus=None, lr=0.5)", "hello"]
    head = "time_spent,cumulative_time_spent,input_count,cumulative_input_count,cumulative_batch_count,inputs_per_sec"
    assert lines[2] == f"{head},acc,loss"
    assert re.fullmatch(rf"{TIMES},10,10,2,[\d.e+]+,0.5,1", lines[3])
    assert re.fullmatch(rf"{TIMES},15,25,5,[\d.e+]+,0.6,s", lines[4])
    assert len(lines) == 5
    assert list(kept.arguments) == ["gpus", "lr", "experiment_id", "hostname"]
    assert [",".join(map(str, row.values())) for row in kept.rows] == lines[3:]


def test_a_log_goes_on_in_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = ModelTrainerLog("run", {"a": 1})
    Path(log.filename).write_text("before\n")
    log.log(1, 1, {})
    assert len(Path(log.filename).read_text().splitlines()) == 3


def test_what_cannot_be_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match="nowhere"):
        ModelTrainerLog("nowhere/run", {})
    with pytest.raises(NotImplementedError):
        ExternalLogger().log({})
