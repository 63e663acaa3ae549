"""Logging: levels, and the handler of programs that set nothing up."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tazza.runtime import log


@pytest.fixture(autouse=True)
def level_restored() -> Iterator[None]:
    """Undo changes of the flag."""
    with log.LOG_LEVEL.override(1):
        yield


@pytest.mark.parametrize(
    ("level", "expected"), [(0, "INFO"), (1, "WARNING"), (2, "ERROR"), (3, "CRITICAL"), (7, "CRITICAL"), (-1, "DEBUG")]
)
def test_severity_has_the_names_of_logging(level: int, expected: str) -> None:
    assert logging.getLevelName(log.severity(level)) == expected


def test_verbose_levels_go_down_and_stay_above_notset() -> None:
    levels = [log.severity(-degree) for degree in range(1, 11)]
    assert levels == sorted(set(levels), reverse=True)
    assert log.severity(-50) == 1


def test_configure_leaves_the_level_unless_it_was_chosen() -> None:
    log.logger.setLevel(logging.NOTSET)
    flag = log.LOG_LEVEL
    fresh = type(flag)(flag.name, flag.default, flag.help)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "LOG_LEVEL", fresh)
        log.configure()
        assert log.logger.level == logging.NOTSET
        fresh.set(2)
        log.configure()
        assert log.logger.level == logging.ERROR


PROGRAM = """
import logging
from tazza.runtime import log
log.logger.warning("early")
log.LOG_LEVEL.set(0)
log.configure()
log.configure()
log.logger.info("seen")
logging.getLogger("tazza.net").info("child")
log.logger.debug("hidden")
logging.basicConfig(format="app: %(message)s")
log.logger.info("handed over")
"""


@pytest.mark.slow
def test_messages_are_seen_once_with_and_without_an_application_handler() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    lines = done.stderr.splitlines()
    assert lines[0] == "early"
    assert [line.rsplit(" ", 2)[-2:] for line in lines[1:3]] == [["tazza]", "seen"], ["tazza.net]", "child"]]
    assert lines[3:] == ["app: handed over"]
