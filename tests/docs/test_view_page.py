"""The page on `tazza view`: its pictures are those of the tool, and its keys those of the page."""

from __future__ import annotations

import re

from tazza.observers.view.geometry import SIZES
from tazza.observers.view.page import FOLDER as PARTS
from tazza.observers.view.repeats import PERIOD_MAX
from tools.draw_view import FOLDER, SHOTS, SVG

PAGE = (FOLDER / "README.md").read_text()


def test_pictures_are_those_of_the_tool() -> None:
    named = set(re.findall(r"\]\((\S+\.(?:png|svg))\)", PAGE))
    assert named == {SVG, *(shot.name for shot in SHOTS)} == {path.name for path in FOLDER.iterdir()} - {"README.md"}


def test_keys_are_those_of_the_page() -> None:
    table = PAGE[PAGE.index("| key |") : PAGE.index("The mask branch")]
    told = set(re.findall(r"`(\S+)`", table)) | {"arrows"}
    program = (PARTS / "page.js").read_text()
    acts = program[program.index("const acts = {") : program.index("if (!acts[event.key])")]
    keys = {"arrows" if key.startswith("Arrow") else "Esc" if key == "Escape" else key for key in _keys(acts)}
    assert told == keys - {"="}, "= is + without Shift"


def _keys(acts: str) -> list[str]:
    return [quoted or plain for quoted, plain in re.findall(r'(?:"([^"]+)"|(\w+)): \(\)', acts)]


def test_numbers_are_those_of_the_code() -> None:
    assert f"more than {SIZES.fold_from} operators" in PAGE
    assert f"shifted by up to {PERIOD_MAX}" in PAGE
