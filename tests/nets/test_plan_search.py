"""Exhaustive search: what it finds is kept, found again, and gives the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tazza.nets.plan import search
from tazza.operator import why_unavailable
from tazza.runtime.native_code import CACHE_DIR
from tazza.workspace import Workspace
from tests.nets.plans import by_simple, convolutions, feed_convolutions, plan

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "onednn") is not None, reason=str(why_unavailable("Conv", "cpu", "onednn"))
)


def run_once() -> None:
    ws = Workspace()
    feed_convolutions(ws)
    expected = by_simple(ws, convolutions(), "y")
    ws.create_net(plan(convolutions(), outputs=["y"], inputs=["x"]))
    ws.run_net("n")
    np.testing.assert_allclose(ws.fetch("y"), expected, rtol=2e-4, atol=2e-4)


def test_results_are_kept_on_disk_and_not_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []
    total = search._Search._total  # pyright: ignore[reportPrivateUsage] -- what is timed is no public fact

    def counted(self: object, op: object, *rest: object) -> float:
        judged.append(str(op))
        return total(self, op, *rest)  # pyright: ignore[reportArgumentType, reportCallIssue] -- handed on as it came

    monkeypatch.setattr(search._Search, "_total", counted)  # pyright: ignore[reportPrivateUsage]
    with search.EXHAUSTIVE.override(True), CACHE_DIR.override(str(tmp_path)):
        search.stored.cache_clear()
        run_once()
        assert judged
        assert json.loads((tmp_path / "search.json").read_text())
        judged.clear()
        search.stored.cache_clear()  # as in a second process
        run_once()
        assert not judged
    search.stored.cache_clear()


def test_a_broken_file_of_results_is_searched_anew(tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text("{ not json")
    with search.EXHAUSTIVE.override(True), CACHE_DIR.override(str(tmp_path)):
        search.stored.cache_clear()
        run_once()
        assert json.loads((tmp_path / "search.json").read_text())
    search.stored.cache_clear()
