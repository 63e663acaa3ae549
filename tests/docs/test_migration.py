"""The page about old programs: examples print the same by old names and by tazza's own; tables are up to date."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.interop import save_nets
from tazza.models import Model
from tazza.workspace import Workspace
from tools.write_migration import PAGE, text

BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Work in a folder with `init_net.pb` and `predict_net.pb`; return what they take."""
    monkeypatch.chdir(tmp_path)
    model, workspace = Model("page"), Workspace()
    softmax = model.softmax(model.fc("data", "scores", 5, 3), "softmax")
    model.net.add_external_output(softmax)
    workspace.run_net_once(model.init_net.proto)
    save_nets("init_net.pb", "predict_net.pb", model, workspace)
    return np.random.default_rng(3).normal(size=(7, 5)).astype(np.float32)


@pytest.mark.parametrize("pair", range(len(BLOCKS) // 2))
def test_both_print_the_same(pair: int, images: Any, capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []
    for block in BLOCKS[2 * pair : 2 * pair + 2]:
        exec(compile(block, PAGE.name, "exec"), {"images": images})
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


def test_there_are_pairs() -> None:
    assert len(BLOCKS) == 4
    assert [("caffe2" in block, "tazza" in block) for block in BLOCKS] == [(True, False), (False, True)] * 2


def test_tables_are_up_to_date() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert text(page) == page, "python -m tools.write_migration"
