"""The walk through the code says what the code does: its sessions are run, its pictures drawn anew, its table compared.

The part on oneDNN shows what one version chose on one kind of processor; elsewhere it is skipped with the reason.
"""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tazza.device import current_context
from tazza.graph.text import parse_net
from tazza.operator import choose_kernel, find_schema, rank_engines, why_unavailable
from tazza.tensor import CPUPlace, DataType, TensorSpec
from tools import draw_arena, draw_columns, draw_tiles
from tools.draw_walk import CLASSES, CONV, FOLDER, RUNS, SHAPES, draw_classes, draw_run
from tools.write_walk import BLOCK, chapters

RECORDED = "jit:avx512_core"
"""Implementation of the walk's convolution, and version of oneDNN, with which the chapters were written."""
RECORDED_VERSION = (3, 2)
LARGEST_BYTES = 200_000


@cache
def why_no_onednn() -> str | None:
    """Return why the part on oneDNN cannot be compared here, or None."""
    reason = why_unavailable("Conv", "cpu", "onednn")
    if reason is not None:
        return f"engine onednn: {reason}"
    from tazza.engines.onednn.library import version, version_text

    if version()[:2] != RECORDED_VERSION:
        return f"recorded with oneDNN {RECORDED_VERSION}, here is {version_text()}"
    schema, definition = find_schema("Conv"), parse_net(CONV).op[0]
    op, specs = schema.view(definition), [TensorSpec(SHAPES[name], DataType.FLOAT) for name in definition.input]
    outputs = [spec for spec in schema.infer_specs(op, specs).specs if spec is not None]
    ranking = rank_engines("Conv", "cpu", "onednn")
    found: Any = choose_kernel(op, ranking, current_context(CPUPlace()), specs, outputs).launch
    taken = getattr(found, "implementation", type(found).__name__)
    return (
        None if taken == RECORDED else f"recorded on a processor where oneDNN takes {RECORDED}, here it takes {taken}"
    )


def sessions(text: str, *, onednn: bool) -> str:
    r"""Return the blocks of a chapter as one session, on the lines where they stand; maybe without those on oneDNN.

    A heading that names oneDNN counts until the next one of its level or above.

    >>> text = "# On oneDNN\n## Here\n```pycon\n>>> 1\n1\n```\n# Rest\n```pycon\n>>> 2\n2\n```\n"
    >>> sessions(text, onednn=False).split()
    ['>>>', '2', '2']
    """
    kept = {number for found in BLOCK.finditer(text) for number in _lines(text, found)}
    lines: list[str] = []
    hidden = 0  # level of the heading that names oneDNN
    for number, line in enumerate(text.splitlines()):
        level = len(line) - len(line.lstrip("#"))
        if level and number not in kept and (not hidden or level <= hidden):
            hidden = level if "oneDNN" in line and not onednn else 0
        lines.append(line if number in kept and not hidden else "")
    return "\n".join(lines)


def _lines(text: str, found: re.Match[str]) -> range:
    first = text.count("\n", 0, found.start())
    return range(first, first + found[0].count("\n"))


def run_chapters(*, onednn: bool) -> None:
    """Run all chapters as one session; asserts that each prints what it says."""
    names: dict[str, Any] = {"__name__": "__walk__"}
    told: list[str] = []
    for path in chapters():
        session = sessions(path.read_text(encoding="utf-8"), onednn=onednn)
        test = doctest.DocTestParser().get_doctest(session, names, path.name, str(path), 0)
        doctest.DocTestRunner(verbose=False).run(test, out=told.append, clear_globs=False)
        names = test.globs
    assert "".join(told) == "", "python -m tools.write_walk writes what the sessions print now"


def test_sessions_without_onednn() -> None:
    run_chapters(onednn=False)


def test_sessions() -> None:
    if (reason := why_no_onednn()) is not None:
        pytest.skip(reason)
    run_chapters(onednn=True)


def test_there_are_sessions() -> None:
    with_onednn, without = (
        [sessions(path.read_text(encoding="utf-8"), onednn=onednn).count(">>>") for path in chapters()]
        for onednn in (True, False)
    )
    assert min(with_onednn) >= 10
    assert [count for count in without if count == 0] == [0, 0], "chapters 4 and 5 are on oneDNN, the others not only"


def test_the_table_of_arguments_is_complete() -> None:
    text = (FOLDER / "1-definition.md").read_text(encoding="utf-8")
    rows = [row.split("|")[1:3] for row in text.splitlines() if row.startswith("| `")]
    args = find_schema("Conv").args
    told = {name: default.strip(" `") for names, default in rows for name in re.findall(r"`(\w+)`", names)}
    assert set(told) == set(args)
    stored = {name: spec.default for name, spec in args.items() if spec.default not in (None, [])}
    assert {name: ast.literal_eval(told[name]) for name in stored} == stored


def said(svg: str) -> set[str]:
    """Return the words and the edges of a picture, without numbers of calls and of order."""
    root = ElementTree.fromstring(svg)
    texts = {re.sub(r" x \d+$", "", str(one.text)) for one in root.iter("{http://www.w3.org/2000/svg}text")}
    edges = (one.get("data-edge") for one in root.iter("{http://www.w3.org/2000/svg}path"))
    return texts | {re.sub(r"^\d+ ", "", edge) for edge in edges if edge is not None}


PICTURES: list[tuple[str, Callable[[], str]]] = [
    *((name, lambda picture=picture: draw_classes(picture)) for name, picture in CLASSES.items()),
    *((name, lambda picture=picture: draw_run(picture)) for name, picture in RUNS.items()),
    (draw_columns.NAME, draw_columns.draw_columns),
    (draw_tiles.NAME, draw_tiles.draw_tiles),
    (draw_arena.NAME, draw_arena.draw_arena),
]


ON_ONEDNN = {draw_arena.NAME, *(name for name, picture in RUNS.items() if picture.engine == "onednn")}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "draw"), PICTURES, ids=[name for name, _ in PICTURES])
def test_picture(name: str, draw: Callable[[], str]) -> None:
    if name in ON_ONEDNN and (reason := why_no_onednn()) is not None:
        pytest.skip(reason)
    path = FOLDER / f"{name}.svg"
    stored = path.read_text(encoding="utf-8")
    assert said(draw()) == said(stored), "python -m tools.draw_walk draws it anew"
    assert len(said(stored)) > 5
    assert path.stat().st_size < LARGEST_BYTES


@pytest.mark.slow  # `test_picture` draws each once, beside what is kept
def test_drawing_twice_gives_the_same() -> None:
    assert draw_run(RUNS["run-gemm"]) == draw_run(RUNS["run-gemm"])
    assert draw_classes(CLASSES["classes-plan"]) == draw_classes(CLASSES["classes-plan"])


def test_every_link_leads_somewhere_and_every_picture_is_shown() -> None:
    pages = [*chapters(), FOLDER / "README.md"]
    links = {link for page in pages for link in re.findall(r"\]\(([\w.-]+)\)", page.read_text(encoding="utf-8"))}
    assert [link for link in sorted(links) if not (FOLDER / link).exists()] == []
    assert {path.name for path in FOLDER.iterdir()} == links | {"README.md"}
    assert "(docs/walk/README.md)" in (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
