"""The page in a browser: it shows nets, searches, folds, tells facts, is used by keys, and runs nothing of a net.

It takes the package playwright (extra `browser`) and a Chromium: that of playwright, one on the path, or the one that
`TAZZA_BROWSER` names. Where there is none, this is skipped.
"""

from __future__ import annotations

import importlib
import os
import shutil
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tazza.cli.profile import Request
from tazza.cli.view import Measuring, subject_of
from tazza.graph.text import parse_net
from tazza.observers.view import Subject, document_of, picture_of, write_page
from tazza.observers.view.geometry import TIMES
from tazza.observers.view.picture import MARGIN
from tests.observers.view.test_page import hostile_net
from tests.observers.view.test_scene import residual

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell")
SHARED = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[4] / "shared"))
MASK = SHARED / "data" / "zoo" / "mask_rcnn_2go-model-fp32-model.pbtxt"
ELEMENTS_MAX = 3000
"""Elements of the drawing that are in the document at a time, however large a net is."""


def _launched(chromium: Any) -> Any:
    named = os.environ.get("TAZZA_BROWSER")
    found = named if named else next(filter(None, map(shutil.which, BROWSERS)), None)
    return chromium.launch(executable_path=found, args=["--no-sandbox"] if os.geteuid() == 0 else [])


@pytest.fixture(scope="module")
def browser() -> Generator[Any]:
    try:
        api = importlib.import_module("playwright.sync_api")
    except ImportError:
        pytest.skip("playwright is not installed: pip install 'tazza[browser]'")
    with api.sync_playwright() as playwright:
        try:
            found = _launched(playwright.chromium)
        except api.Error as error:
            pytest.skip(f"there is no browser: {error.message.splitlines()[0]}")
        yield found
        found.close()


Show = Callable[..., Any]


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Generator[Show]:
    """Open the page of a subject; afterwards see that no error was told and nothing was asked for."""
    told: list[str] = []
    context = browser.new_context(viewport={"width": 1280, "height": 800})

    def note(found: Any) -> None:
        text = str(getattr(found, "url", getattr(found, "text", found)))
        if text != (tmp_path / "net.html").as_uri():
            told.append(text)

    def opened(subject: Subject, *, passes: bool = True) -> Any:
        path = tmp_path / "net.html"
        write_page(path, document_of(subject, passes=passes))
        page = context.new_page()
        for event in ("pageerror", "console", "request"):
            page.on(event, note)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield opened
    context.close()
    assert told == []


def drawn(page: Any) -> int:
    return page.locator("#canvas .node").count()


def test_lenet_searches_tells_and_is_used_by_keys(show: Show) -> None:
    page = show(subject_of(Request("lenet"), Measuring(1, 2)))
    assert page.locator("#stages [aria-current=true]").inner_text().startswith("as it runs")
    page.keyboard.press("/")
    page.keyboard.type("conv2")
    assert page.locator("#found li").first.inner_text().split() == ["Conv", "conv2"]
    page.keyboard.press("Enter")
    facts = page.locator("#facts")
    text = facts.inner_text()
    for word in (
        "Conv",
        "conv2_w",
        f"float32 50 {TIMES} 20 {TIMES} 5 {TIMES} 5",
        "25,050",
        "taken",
        "layout",
        "time",
    ):
        assert word in text, word
    page.keyboard.press("ArrowDown")
    assert facts.locator("h2").inner_text() == "MaxPool"
    page.keyboard.press("ArrowUp")
    page.keyboard.press("[")
    assert page.locator("#stages [aria-current=true]").inner_text().startswith("fuse_epilogue")
    assert facts.locator("h2").inner_text() == "Conv", "what is chosen stays chosen"
    page.keyboard.press("Escape")
    assert facts.locator("h2").inner_text() == "lenet"


def test_clicks_unfold_choose_and_go_along(show: Show) -> None:
    page = show(Subject(residual(12)))
    folded = drawn(page)
    assert folded == 4, "input, blocks, softmax, output"
    assert f"block {TIMES} 12" in page.locator("#canvas .type").all_text_contents()
    page.locator("#canvas [data-toggle]").first.click()
    assert drawn(page) > folded
    page.locator("#canvas .node[data-op='3']").click()
    assert page.locator("#facts h2").inner_text() == "Sum"
    page.locator("#facts a.go").first.click()
    assert page.locator("#facts h2").inner_text() == "Conv"
    page.keyboard.press("z")
    assert drawn(page) == folded


def test_what_is_searched_for_is_unfolded(show: Show) -> None:
    page = show(Subject(residual(12)))
    page.locator("#search").fill("g7")
    page.locator("#found li").first.dispatch_event("pointerdown")
    assert page.locator("#facts h2").inner_text() == "Conv"
    assert page.locator("#canvas .node.chosen .name").text_content() == "g7"
    page.locator("#search").fill("nothing of the kind")
    assert page.locator("#found li").all_inner_texts() == ["nothing of that name"]


@pytest.mark.skipif(not MASK.exists(), reason=f"{MASK} is not there")
def test_the_net_with_nets_within(show: Show) -> None:
    page = show(subject_of(Request(str(MASK)), Measuring(0, 0)))
    page.locator("#search").fill("resizenearest")
    page.locator("#found li").first.dispatch_event("pointerdown")
    assert page.locator("#facts h2").inner_text() == "ResizeNearest"
    headings = page.locator("#canvas .heading").all_text_contents()
    assert any(text.startswith("else_net") for text in headings)
    page.locator("[data-tab=passes]").click()
    page.locator("#panel tr", has_text="fuse_epilogue").click()
    assert page.locator("#stages [aria-current=true]").inner_text().startswith("fuse_epilogue")


def test_resnet_shows_passes_memory_and_time(show: Show) -> None:
    page = show(subject_of(Request("resnet50"), Measuring(1, 0)))
    page.locator("[data-tab=arena]").click()
    page.locator("#panel rect.span[data-op='2']").first.click()
    assert "made from" in page.locator("#facts").inner_text().lower()
    page.locator("#facts a.go", has_text="SpatialBN").first.click()
    assert page.locator("#stages [aria-current=true]").inner_text().startswith("as written")
    for tab in ("timeline", "slowest"):
        page.locator(f"[data-tab={tab}]").click()
        assert page.locator("#panel").inner_text()
    page.locator("#stages button").last.click()
    page.locator("#color").select_option("engine")
    assert "onednn" in page.locator("#legend").inner_text()


BOXES = """
tazza.graph.items.filter((box) => box.item.op !== undefined || box.item.k === "group")
  .map((box) => [box.x, box.y, box.w, box.h].map((value) => Math.round(value * 10) / 10))
"""


def test_the_picture_lies_as_the_page_does(show: Show) -> None:
    """The two measure apart, in two languages: frames and operators are in the same places."""
    for subject in (Subject(residual(3)), Subject(residual(12))):
        page = show(subject)
        boxes = {tuple(box) for box in page.evaluate(BOXES)}
        picture = ElementTree.fromstring(picture_of(document_of(subject, passes=False)))
        found: set[tuple[float, ...]] = set()
        for rect in picture.iter("{http://www.w3.org/2000/svg}rect"):
            x, y, width, height = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
            found.add((round(x - MARGIN, 1), round(y - MARGIN, 1), width, height))
        assert boxes <= found
        assert len(boxes) > 1


def test_names_do_not_run(show: Show) -> None:
    page = show(Subject(hostile_net()))
    for _ in range(8):
        page.keyboard.press("ArrowDown")
        assert page.locator("script, img, b:not(#legend b)").count() == 2, "the data and the program of the page"
    assert page.title().endswith("tazza view")
    page.locator("#search").fill("script")
    assert "<script>" in page.locator("#found").inner_text()


def test_a_large_net_is_drawn_in_part(show: Show) -> None:
    lines = "\n".join(f"h{at + 1} = {'Relu' if at % 7 else 'Tanh'}(h{at})" for at in range(5000))
    page = show(Subject(parse_net(f"net: long\nout: h5000\n{lines}")), passes=False)
    page.locator("#unfold").click()
    assert page.locator("#canvas *").count() < ELEMENTS_MAX
    page.keyboard.press("f")
    assert drawn(page) > 1000, "all of a lane, as bars"
    page.keyboard.press("1")
    assert page.locator("#canvas *").count() < ELEMENTS_MAX


def test_light_and_dark(show: Show) -> None:
    page = show(Subject(residual(2)))
    colors = set[str]()
    for _ in range(2):
        colors.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.keyboard.press("d")
    assert len(colors) == 2
