"""What smaller modules of the old names make is what Caffe2's made: `tests/data/modules` has cases, and its nets."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from caffe2.python import core
from tests.caffe2.test_training_nets import _all_operators as all_operators  # pyright: ignore[reportPrivateUsage]
from tests.caffe2.test_training_nets import differing, equal
from tools.record_training_nets import imported, read_cases, run_case

__all__ = ["all_operators"]

FOLDER = Path(__file__).parents[1] / "data" / "modules"
CASES = read_cases((FOLDER / "cases.txt").read_text(encoding="utf-8"))
RECORDED: dict[str, dict[str, Any]] = json.loads(gzip.decompress((FOLDER / "nets.json.gz").read_bytes()))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("all_operators")
def test_nets_are_those_of_caffe2(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/root")  # where they were recorded: some expand a path
    core.ExecutionStep._step_names_used.clear()  # pyright: ignore[reportPrivateUsage]
    got = json.loads(json.dumps(run_case(CASES[case], imported)))
    assert equal(got, RECORDED[case]), differing(got, RECORDED[case])


def test_all_cases_are_recorded() -> None:
    assert set(RECORDED) == set(CASES)
