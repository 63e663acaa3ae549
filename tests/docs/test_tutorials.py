"""Tutorials and the start page are sessions that were typed: each is typed again, and prints what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import numpy as np
import pytest

from tazza.interop import save_nets
from tazza.models import Model
from tazza.operator.function import forget_function
from tazza.operator.registry import SCHEMAS
from tazza.workspace import Workspace
from tools.write_walk import BLOCK

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "index.md", *sorted((DOCS / "tutorials").glob("*.md"))]
NAME = "tutorial"
"""What a session calls its module, by which its operators are found."""


@pytest.fixture
def readers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a folder with a model in `model`: a net of photographs."""
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    model, workspace = Model("page"), Workspace()
    pooled = model.average_pool("data", "pooled", global_pooling=1)
    softmax = model.softmax(model.fc(pooled, "scores", 3, 10), "softmax")
    workspace.run_net_once(model.init_net.proto)
    workspace.feed("data", np.zeros((1, 3, 224, 224), np.float32))
    save_nets("model/init_net.pb", "model/predict_net.pb", model, workspace, outputs=[softmax])


@pytest.mark.usefixtures("readers_folder")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_session(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    typed = "\n".join(block[0] for block in BLOCK.finditer(text))
    session = doctest.DocTestParser().get_doctest(typed, {"__name__": NAME}, page.name, str(page), 0)
    assert session.examples
    said: list[str] = []
    try:
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session, out=said.append)
    finally:
        for type in [type for type in SCHEMAS.registered() if SCHEMAS[type].module == NAME]:
            forget_function(type)
    assert said == [], "".join(said)


def test_there_is_one_for_each_reader() -> None:
    assert len(PAGES) == 6
    links = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"](tutorials/{page.name})" not in links] == []
