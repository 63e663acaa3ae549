"""Pictures are written whole, as PNG files."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tazza.errors import ArgumentError, FileError, UnavailableError
from tazza.observers.drawing import Curve, Guess, draw_curves, draw_least_sure

PNG = b"\x89PNG"


@pytest.mark.slow  # importing matplotlib takes a second
def test_curves(tmp_path: Path) -> None:
    iterations = list(range(1, 101))
    loss = Curve(iterations, [1 / i for i in iterations])
    accuracy = Curve(iterations, [1 - 1 / i for i in iterations])
    for name, drawn in (("both", accuracy), ("loss", None)):
        draw_curves(tmp_path / f"{name}.png", loss, drawn, title=name)
        assert (tmp_path / f"{name}.png").read_bytes().startswith(PNG)
    draw_curves(tmp_path / "one.png", Curve([1], [0.0]), Curve([1], [0.5]), tested=Curve([1], [0.25]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both.png", "loss.png", "one.png"]


@pytest.mark.slow
def test_least_sure(tmp_path: Path) -> None:
    grey = np.random.default_rng(1).random((5, 7))
    guesses = [Guess(grey, 3, 3, 0.4), Guess(np.stack([grey] * 3, -1), 3, 8, 0.9)]
    draw_least_sure(tmp_path / "grid.png", guesses, title="two")
    assert (tmp_path / "grid.png").read_bytes().startswith(PNG)
    with pytest.raises(ArgumentError, match="no image"):
        draw_least_sure(tmp_path / "none.png", [])
    with pytest.raises(FileError, match="there is no folder"):
        draw_least_sure(tmp_path / "missing" / "grid.png", guesses)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UnavailableError, match=r"pip install 'tazza\[pictures\]'"):
        draw_curves(tmp_path / "a.png", Curve([1], [1.0]), None)
