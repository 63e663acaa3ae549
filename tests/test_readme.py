"""The examples of the README run, one after the other, in a folder that has what they load."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tazza.interop import save_nets
from tazza.models import Model
from tazza.workspace import Workspace

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)


@pytest.fixture
def with_nets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with `init_net.pb` and `predict_net.pb` of a net that reads `data`."""
    monkeypatch.chdir(tmp_path)
    model, ws = Model("readme"), Workspace()
    outputs = [model.softmax(model.fc("data", "scores", 784, 10), "softmax")]
    ws.run_net_once(model.init_net.proto)
    ws.feed("data", np.zeros((1, 1, 28, 28), np.float32))
    save_nets("init_net.pb", "predict_net.pb", model, ws, outputs=outputs)


@pytest.mark.usefixtures("with_nets")
@pytest.mark.parametrize("block", BLOCKS)
def test_example(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(block, str(README), "exec"), {})
    printed = capsys.readouterr().out.split()
    assert all(float(number) < 0.1 for number in printed)


def test_there_are_examples() -> None:
    assert len(BLOCKS) >= 2
