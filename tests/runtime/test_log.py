"""Logging: levels, once, every n, and the handler of programs that set nothing up."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tazza.errors import ArgumentError
from tazza.runtime import log
from tazza.runtime.cache import Cache


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


def test_vlog_shows_up_to_the_degree_that_is_set(caplog: pytest.LogCaptureFixture) -> None:
    log.set_level(-2)
    for degree in (1, 2, 3):
        log.vlog(degree, "detail %d", degree)
    assert caplog.messages == ["detail 1", "detail 2"]
    assert caplog.records[0].funcName == "test_vlog_shows_up_to_the_degree_that_is_set"
    with pytest.raises(ArgumentError, match="degree >= 1, got 0"):
        log.vlog(0, "no detail")


def test_warn_once_warns_once_a_key(caplog: pytest.LogCaptureFixture) -> None:
    assert [log.warn_once(("test", key), "about %s", key) for key in (1, 2, 1)] == [True, True, False]
    assert caplog.messages == ["about 1", "about 2"]
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_log_every_n(caplog: pytest.LogCaptureFixture) -> None:
    done = [log.log_every_n(3, "test", "call %d", i, level=logging.WARNING) for i in range(7)]
    assert done == [True, False, False, True, False, False, True]
    assert caplog.messages == ["call 0", "call 3", "call 6"]
    with pytest.raises(ArgumentError, match="n >= 1, got 0"):
        log.log_every_n(0, "test", "never")


def test_keys_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "_seen", Cache[object, int]("messages counted", 2))
    assert [log.warn_once(("bounded", key), "x") for key in (1, 2, 1, 3, 1, 2)] == [
        True,
        True,
        False,
        True,
        False,
        True,
    ]


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
from tazza.runtime.cache import Cache
log.logger.warning("early")
log.set_level(0)
log.configure()
log.configure()
log.logger.info("seen")
logging.getLogger("tazza.net").info("child")
log.vlog(1, "hidden")
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
