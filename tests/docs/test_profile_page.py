"""The page on profiles: the run that it shows is one of the tool's, with all that it explains."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.nets.overlap import QUICK
from tazza.observers.profile import NUMBERS
from tools.draw_profile import (
    BEGIN,
    COPIES,
    END,
    FOLDER,
    PAGE,
    PICTURE,
    draw_copies,
    last_run,
    run,
    session,
    with_session,
)


def test_a_run_of_the_tool() -> None:
    profile = run("lenet", runs=2)
    text = session(profile)
    assert "net 'lenet" in text
    assert "(async_scheduling): 2 runs" in text
    assert re.search(r"^Conv conv1 +[\w/]+ +2 ", text, re.MULTILINE)
    last = last_run(profile)
    assert {one.run for one in last.occurrences} == {1}
    assert len(last.timeline(idle=False)) == len(profile.occurrences) // 2


@pytest.mark.slow
def test_copies_are_drawn_beside_products(tmp_path: Path) -> None:
    draw_copies(tmp_path / "copies.svg", QUICK)
    assert "<svg" in (tmp_path / "copies.svg").read_text()


def test_the_page_is_what_the_tool_wrote() -> None:
    page = (FOLDER / PAGE).read_text()
    _, _, rest = page.partition(BEGIN)
    shown, _, _ = rest.partition(END)
    assert "net 'googlenet" in shown
    assert with_session(page, shown) == page
    for picture in (PICTURE, COPIES):
        assert f"]({picture})" in page
        assert "<svg" in (FOLDER / picture).read_text()
    for title in NUMBERS:
        assert f"`{title}`" in page, "every column is explained"
