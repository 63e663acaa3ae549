"""Draw the pictures of docs/view: pages in a browser, and a net as SVG. `python -m tools.draw_view [FOLDER]`.

It takes the package playwright (extra `browser`) and a Chromium, which `TAZZA_BROWSER` may name. FOLDER has the nets of
the zoo that come without parameters; without it those pictures stay as they are. Times are those of the runs that it
makes; they change with the machine.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tazza.cli.profile import Request
from tazza.cli.view import Measuring, subject_of
from tazza.observers.view import document_of, write_page, write_picture

FOLDER = Path(__file__).parent.parent / "docs" / "view"
MASK = "mask_rcnn_2go-model-fp32-model.pbtxt"
SVG = "lenet.svg"


@dataclass(frozen=True)
class Shot:
    """A picture of a page: what is done there first, in its own words."""

    name: str
    model: str
    acts: tuple[str, ...] = ()
    size: tuple[int, int] = (1280, 860)
    dark: bool = False


def operator(of: str) -> str:
    """Return the words that find an operator of the present stage by its first output."""
    return f"tazza.stage.ops.findIndex((facts) => facts.o.length && facts.o[0][0] === '{of}')"


COLOR = "const s = document.getElementById('color'); s.value = '{}'; s.dispatchEvent(new Event('change'))"
SHOTS = (
    Shot(
        "resnet50.png",
        "resnet50",
        (f"tazza.go(tazza.at, {operator('res2_0_branch2b_bn')})", "tazza.showPanel('arena')"),
    ),
    Shot(
        "passes.png",
        "resnet50",
        (
            "tazza.open(tazza.data.stages.findIndex((stage) => stage.name === 'fuse_epilogue') - 1)",
            f"tazza.go(tazza.at, {operator('res2_0_branch2c_bn')})",
            "tazza.showPanel('passes')",
        ),
    ),
    Shot(
        "timeline.png",
        "squeezenet",
        (
            "tazza.open(0)",
            f"tazza.go(0, {operator('fire2/expand1x1')})",
            "tazza.graph.zoom(0.75)",
            "tazza.showPanel('timeline')",
        ),
        dark=True,
    ),
    Shot("nested.png", MASK, (f"tazza.go(0, {operator('_[mask]_pool5')})", "tazza.graph.zoom(0.75)"), (1280, 720)),
    Shot("engines.png", "resnet50", (COLOR.format("engine"), "tazza.showPanel('slowest')"), (1280, 800)),
)


def draw(shots: tuple[Shot, ...], zoo: Path | None) -> None:
    """Take the pictures, those of one model from one page."""
    api: Any = importlib.import_module("playwright.sync_api")
    with api.sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=os.environ.get("TAZZA_BROWSER"), args=arguments)
        pages: dict[str, Path] = {}
        for shot in shots:
            if shot.model == MASK and zoo is None:
                continue
            if shot.model not in pages:
                pages[shot.model] = Path(folder) / f"{len(pages)}.html"
                named = str(zoo / MASK) if zoo is not None and shot.model == MASK else shot.model
                write_page(pages[shot.model], document_of(subject_of(Request(named), Measuring(10, 2))))
            take(browser, shot, pages[shot.model])
        browser.close()


def take(browser: Any, shot: Shot, path: Path) -> None:
    """Open a page, do what the picture wants, and take it."""
    width, height = shot.size
    scheme = "dark" if shot.dark else "light"
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.goto(path.as_uri())
    for act in shot.acts:
        page.evaluate(f"() => {{ {act} }}")
    page.screenshot(path=FOLDER / shot.name)
    page.close()


def main() -> None:
    """Draw all pictures of the page."""
    write_picture(FOLDER / SVG, document_of(subject_of(Request("lenet"), Measuring(0, 0)), passes=False))
    draw(SHOTS, Path(sys.argv[1]) if len(sys.argv) > 1 else None)


if __name__ == "__main__":
    main()
