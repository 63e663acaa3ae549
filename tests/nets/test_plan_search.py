"""Exhaustive search: what it finds is kept, found again, and gives the same numbers."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.nets.plan import search
from tazza.nets.plan.program import Program
from tazza.operator import ENGINES, OpView, prefer_engines, why_unavailable
from tazza.runtime.native_code import CACHE_DIR
from tazza.workspace import Workspace
from tests.nets.plans import by_simple, convolutions, feed_convolutions, plan

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "onednn") is not None, reason=str(why_unavailable("Conv", "cpu", "onednn"))
)


SLOWER = search.SLOWER


def run_once() -> list[float | None]:
    """Return what the search says of the engines that run, behind a run."""
    ws = Workspace()
    feed_convolutions(ws)
    expected = by_simple(ws, convolutions(), "y")
    ws.create_net(plan(convolutions(), outputs=["y"], inputs=["x"]))
    ws.run_net("n")
    np.testing.assert_allclose(ws.fetch("y"), expected, rtol=2e-4, atol=2e-4)
    rows = ws.net("n").explain().rows
    return [row.choices[-1].searched_ns for row in rows if row.operator in {"Conv", "FusedConv"}]


@pytest.mark.slow
@pytest.mark.parametrize("step", [1, -1], ids=["as compiled without a search", "as found"])
def test_results_are_kept_on_disk_and_not_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """Whichever of the two programs, which are timed as a whole one after the other, is the faster one."""
    seconds = itertools.count(0, step)

    def as_told(self: object, program: Program) -> float:
        return next(seconds)

    monkeypatch.setattr(search._Search, "seconds", as_told)  # pyright: ignore[reportPrivateUsage]
    judged: list[str] = []
    total = search._Search._total  # pyright: ignore[reportPrivateUsage] -- what is timed is no public fact

    def counted(self: object, op: object, *rest: object) -> float:
        judged.append(str(op))
        return total(self, op, *rest)  # pyright: ignore[reportArgumentType, reportCallIssue] -- handed on as it came

    monkeypatch.setattr(search._Search, "_total", counted)  # pyright: ignore[reportPrivateUsage]
    with search.EXHAUSTIVE.override(True), CACHE_DIR.override(str(tmp_path)):
        search.stored.cache_clear()
        first = run_once()
        assert judged
        assert all(time is not None for time in first)
        assert json.loads((tmp_path / "search.json").read_text())
        judged.clear()
        search.stored.cache_clear()  # as in a second process
        times = run_once()
        assert not judged
        assert times == first, "also what each took is kept"
    search.stored.cache_clear()


def test_what_is_no_result_is_not_read(tmp_path: Path) -> None:
    """Such as names alone, which is what files of earlier versions have."""
    right = {"onednn: its only way": 2e-3, "gemm: its only way": 0}
    wrong: dict[str, object] = {
        "a": "onednn",
        "b": {},
        "c": {"x": -1},
        "d": {"x": "1"},
        "e": [1],
        "f": {"x": "endless"},
    }
    (tmp_path / "search.json").write_text(json.dumps({**wrong, "right": right}))
    with CACHE_DIR.override(str(tmp_path)):
        search.stored.cache_clear()
        found = search.stored()
        assert found.get("right") == right
        assert len(found) == 1
    search.stored.cache_clear()


@pytest.mark.slow
def test_a_broken_file_of_results_is_searched_anew(tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text("{ not json")
    with search.EXHAUSTIVE.override(True), CACHE_DIR.override(str(tmp_path)):
        search.stored.cache_clear()
        run_once()
        assert json.loads((tmp_path / "search.json").read_text())
    search.stored.cache_clear()


def _engines(ws: Workspace, engine: str = "") -> list[str]:
    """Return the engines of the convolutions of a searched plan, the first of which may name its own."""
    ops = convolutions()
    ops[0].engine = engine
    net = ws.create_net(plan(ops, outputs=["y"], inputs=["x"]), overwrite=True)
    net.run()
    return [row.engine for row in net.explain().rows if row.operator in {"Conv", "FusedConv"}]


@pytest.mark.slow
@pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "native/winograd") is not None, reason="nothing can be compiled here"
)
def test_engines_are_timed_against_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that would have refused: Winograd's algorithm is for more channels."""
    names: list[str] = []

    def likes_small_tiles(self: object, op: object, way: search._Way, *rest: object) -> float:  # pyright: ignore[reportPrivateUsage]
        names.append(way.name)
        return float(way.name != "native/winograd: tiles of 2 x 2")

    def likes_winograd(self: object, program: Program) -> float:
        return sum(step.engine != "native/winograd" for step in program.steps)

    ws = Workspace()
    feed_convolutions(ws, batch=64)
    expected = by_simple(ws, convolutions(), "y")
    monkeypatch.setattr(search._Search, "_total", likes_small_tiles)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(search._Search, "seconds", likes_winograd)  # pyright: ignore[reportPrivateUsage]
    assert "native/winograd" not in _engines(ws)
    with search.EXHAUSTIVE.override(True), CACHE_DIR.override(str(tmp_path)):
        search.stored.cache_clear()
        assert _engines(ws) == ["native/winograd", "native/winograd"]
        np.testing.assert_allclose(ws.fetch("y"), expected, rtol=2e-4, atol=2e-4)
        assert {"native/winograd: tiles of 4 x 4", "native/few_channels: its only way"} < set(names)
        assert any(name.startswith("onednn: ") for name in names)
        row = next(row for row in ws.net("n").explain().rows if row.engine == "native/winograd")
        told = {choice.engine: choice.reason for choice in row.choices}
        assert {engine: told[engine] for engine in ("native/winograd", "native/few_channels", "onednn")} == {
            "native/winograd": None,
            "native/few_channels": SLOWER,
            "onednn": SLOWER,
        }
        assert row.choices[-1].engine == "native/winograd"
        timed = {choice.engine: choice.searched_ns for choice in row.choices if choice.reason in (None, SLOWER)}
        assert all(time is not None for time in timed.values()), timed
        assert timed["native/winograd"] == 0, "the time of its fastest way"
        assert _engines(ws, "onednn") == ["onednn", "native/winograd"], "an operator that names its engine keeps it"
    search.stored.cache_clear()


@pytest.mark.parametrize("engine", ["gemm", "reference"])
def test_an_engine_that_is_preferred_is_kept(engine: str, tmp_path: Path) -> None:
    """Also one that takes nothing but row-major images, behind a convolution that lies otherwise."""
    ops = convolutions()
    ws = Workspace()
    feed_convolutions(ws)
    expected = by_simple(ws, ops, "y")
    prefer_engines([engine], operator="Conv")
    try:
        with search.EXHAUSTIVE.override(True), CACHE_DIR.override(str(tmp_path)):
            search.stored.cache_clear()
            net = ws.create_net(plan(ops, outputs=["c1", "c2", "y"], inputs=["x"], keep=["c1", "n1", "c2", "s"]))
            net.run()
    finally:
        prefer_engines([], operator="Conv")
        search.stored.cache_clear()
    assert {row.engine for row in net.explain().rows if row.operator == "Conv"} == {engine}
    np.testing.assert_allclose(ws.fetch("y"), expected, rtol=2e-4, atol=2e-4)


@pytest.mark.slow
@pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "native/winograd") is not None, reason="nothing can be compiled here"
)
def test_a_named_engine_chooses_among_its_own_ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also among those that take much memory: who names it wants it."""
    names: list[str] = []
    total = search._Search._total  # pyright: ignore[reportPrivateUsage]

    def noted(self: search._Search, op: OpView, way: search._Way, *rest: Any) -> float:  # pyright: ignore[reportPrivateUsage]
        names.append(way.name)
        return total(self, op, way, *rest)

    monkeypatch.setattr(search._Search, "_total", noted)  # pyright: ignore[reportPrivateUsage]
    ws = Workspace()
    feed_convolutions(ws)
    with search.EXHAUSTIVE.override(True), CACHE_DIR.override(str(tmp_path)):
        search.stored.cache_clear()
        assert _engines(ws, "native/winograd")[0] == "native/winograd"
    search.stored.cache_clear()
    assert {"native/winograd: tiles of 2 x 2", "native/winograd: tiles of 4 x 4"} <= set(names)
    assert ENGINES["native/winograd"].version()
