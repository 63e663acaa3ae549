"""What is done around every test, and what is not collected."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

from tazza.device import generator
from tazza.operator import launches
from tests.running import Doctests, alone


def drawn(name: str) -> list[int]:
    """Return the first seeds that a test of a name would draw."""
    with alone(name):
        return [generator.fresh_seed() for _ in range(3)]


def test_what_is_drawn_hangs_on_the_name_of_a_test_alone() -> None:
    assert drawn("one") == drawn("one") != drawn("another")
    assert len(set(drawn("one"))) == 3


def test_the_log_is_as_before() -> None:
    logger = logging.getLogger("tazza")
    level, handlers = logger.level, list(logger.handlers)
    with alone("one"):
        logger.setLevel(logging.CRITICAL)
        logger.addHandler(logging.NullHandler())
    assert (logger.level, logger.handlers) == (level, handlers)


def test_nothing_is_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[bool] = []
    monkeypatch.setattr(launches, "LAUNCHES", SimpleNamespace(clear=lambda: cleared.append(True)))
    with alone("one"):
        assert cleared == [True]


@pytest.mark.parametrize(("text", "searched"), [('"""One.\n\n>>> 1\n1\n"""', True), ('"""None."""', False)])
def test_files_without_examples_are_not_searched(
    text: str, searched: bool, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = tmp_path / "part.py"
    path.write_text(text)
    kinds: list[Any] = [pytest.Module, DoctestModule]  # what makes them is not typed
    module, doctests = (kind.from_parent(request.session, path=path) for kind in kinds)
    hook = Doctests().pytest_collect_file(path)
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send([module, doctests])
    assert ended.value.value == ([module, doctests] if searched else [module])
