"""`tazza train --tensorboard`: a folder that TensorBoard reads, also of a training that goes on."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.models.test_tensorboard import read


@pytest.mark.slow
@pytest.mark.skipif(util.find_spec("tensorboard") is None, reason="the package tensorboard is missing")
@pytest.mark.usefixtures("no_pictures")
def test_a_training_goes_on_in_the_same_folder(run: Run, bars: Path, tmp_path: Path) -> None:
    common = ("train", "lenet", "--data", bars, "--out", tmp_path, "--batch-size", 20)
    assert run(*common, "--iterations", 3, "--tensorboard").exit_code == 0
    result = run(*common, "--iterations", 6, "--resume")
    assert result.exit_code == 0, result.stderr
    found = read(tmp_path / "tensorboard")
    assert [event.step for event in found.Scalars("train/loss")] == [1, 2, 3, 4, 5, 6]
    assert [event.step for event in found.Scalars("test/accuracy")] == [3, 6]
    assert found.Tags()["graph"]
