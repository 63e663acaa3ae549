"""Layers are methods to editors too: the class for type checkers has each of them, and a checker refuses others."""

from __future__ import annotations

import inspect
import json
import pydoc
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tazza.models import LAYERS, Model
from tazza.models.layer_methods import LayerMethods


def test_each_layer_of_the_package_is_a_method() -> None:
    own = {name: LAYERS[name] for name in LAYERS if LAYERS[name].__module__.startswith("tazza.")}
    declared = {name: value for name, value in vars(LayerMethods).items() if not name.startswith("_")}
    assert declared == own


def test_help_shows_the_signature() -> None:
    model = Model("helpful")
    assert list(inspect.signature(model.conv).parameters)[:4] == ["x", "name", "dim_in", "dim_out"]
    text = pydoc.plain(pydoc.render_doc(model.conv))
    assert "conv(x: " in text
    assert "Add a convolution" in text


PROGRAM = """\
from tazza import Model
model = Model("typed")
y = model.conv("x", "y", 1, 20, 5)
model.fc(y, "z", 10, 10).upper()
model.konv("x", "y", 1, 20, 5)
model.conv("x", "y", 1, "twenty", 5)
model.relu("x")
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("basedpyright") is None, reason="needs basedpyright")
def test_a_type_checker_refuses_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "pyrightconfig.json").write_text(
        json.dumps({"extraPaths": [str(Path(__file__).parents[2] / "src")], "typeCheckingMode": "basic"})
    )
    words = [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(tmp_path), "--pythonpath", sys.executable]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path)
    found = json.loads(ended.stdout)["generalDiagnostics"]
    assert sorted({one["range"]["start"]["line"] + 1 for one in found}) == [5, 6, 7], ended.stdout
