"""How long steps take, without the tests between them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, cast

import pytest

from tazza.models.step_times import StepTimes
from tazza.models.training import TrainingStep


def test_the_median_of_steps_in_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, step = cast("Any", None), TrainingStep(1, 1.0, None, None)
    clock = iter([0.0, 1.0, 3.0, 20.0, 26.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    with StepTimes(tmp_path) as times:
        for _ in range(3):
            times.stepped(trainer, step)
        times.tested(trainer, {})
        for _ in range(2):
            times.stepped(trainer, step)
        times.finished(trainer, None)
    assert json.loads((tmp_path / "times.json").read_text()) == {"seconds_per_step": 2.0, "steps_timed": 3}
    with StepTimes(tmp_path / "none") as none:
        none.finished(trainer, None)
    assert not (tmp_path / "none").exists()
