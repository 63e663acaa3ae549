"""The pages on photographs and on services: their programs run, and they name what there is."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tazza.cli.predict_results import FORMATS
from tazza.images.preprocessing import PRESETS, Preprocessing
from tazza.interop import save_nets
from tazza.models import Model
from tazza.workspace import Workspace

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = {
    f"{page} {number}": block
    for page in ("predict", "service")
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text("utf-8"), re.DOTALL)
    )
}


@pytest.fixture
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work where a reader might: a net of digits, and in `model` one of photographs, with two of these and labels."""
    from PIL import Image

    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    for folder, channels, extent in ((".", 1, 28), ("model", 3, 224)):
        model, workspace = Model("page"), Workspace()
        pooled = model.average_pool("data", "pooled", global_pooling=1)
        softmax = model.softmax(model.fc(pooled, "scores", channels, 10), "softmax")
        workspace.run_net_once(model.init_net.proto)
        workspace.feed("data", np.zeros((1, channels, extent, extent), np.float32))
        save_nets(f"{folder}/init_net.pb", f"{folder}/predict_net.pb", model, workspace, outputs=[softmax])
    for name in ("cat.jpg", "dog.jpg"):
        Image.fromarray(np.full((30, 40, 3), 99, np.uint8)).save(name)
    Path("labels.txt").write_text("".join(f"label {number}\n" for number in range(10)))


@pytest.mark.usefixtures("readers_folder")
@pytest.mark.parametrize("name", BLOCKS)
def test_programs_run(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[name], name, "exec"), {})
    if name == "predict 0":
        assert capsys.readouterr().out.count("label") == 2


def test_everything_is_named() -> None:
    text = (DOCS / "predict.md").read_text("utf-8")
    named = [*(field.name for field in fields(Preprocessing)), *PRESETS, *FORMATS]
    assert [name for name in named if f"`{name}`" not in text] == []


def test_the_presets_are_as_the_page_says() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*)$", (DOCS / "predict.md").read_text("utf-8"), re.MULTILINE))
    for name, prepare in PRESETS.items():
        numbers = {float(each) for each in re.findall(r"\d+\.\d+|\d+", rows[name])}
        assert prepare.size is not None
        assert numbers >= {*prepare.mean, float(prepare.size[0]), float(prepare.shorter or 0)}
