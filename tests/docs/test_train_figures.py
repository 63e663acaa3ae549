"""The page on what a training shows: its pictures are those of the tool, its files those that are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tazza.models.evaluation_files import FILES
from tazza.models.step_times import TIMES
from tools.draw_train_figures import FOLDER, draw

PAGE = FOLDER.with_suffix(".md")


def test_every_picture_is_shown_and_every_file_named() -> None:
    page = PAGE.read_text()
    assert sorted(path.name for path in FOLDER.iterdir() if f"]({FOLDER.name}/{path.name})" in page) == sorted(
        path.name for path in FOLDER.iterdir()
    )
    assert [name for name in (*FILES, TIMES) if f"`{name}`" not in page] == []


@pytest.mark.slow
def test_the_tool_draws_the_pictures_of_the_page(tmp_path: Path) -> None:
    draw(tmp_path, 0.1)
    drawn = {path.name for path in tmp_path.iterdir()}
    assert {path.name for path in FOLDER.iterdir()} <= drawn
