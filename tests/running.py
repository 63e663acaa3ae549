"""How tests are collected, run and told of: what saves time over thirty thousand of them, and changes none."""

from __future__ import annotations

import itertools
import logging
import sys
import zlib
from collections.abc import Generator
from contextlib import contextmanager, suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite
from _pytest.doctest import DoctestModule
from _pytest.runner import runtestprotocol


class Doctests:
    """Leaves out of the collection what holds no example: to import each file and to search it takes seconds."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, Any, Any]:
        """Hand on what was found in a file, but no search for examples where there are none."""
        found: list[Any] = yield
        if not any(isinstance(one, DoctestModule) for one in found) or b">>>" in file_path.read_bytes():
            return found
        return [one for one in found if not isinstance(one, DoctestModule)]


class Reports:
    """Sends of a test of a process beside others what somebody reads: one message where there were five.

    That a test began and ended, and that nothing failed before and after it, makes no line and no count.
    """

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool:
        """Run a test as pytest does."""
        for report in runtestprotocol(item, log=False, nextitem=nextitem):
            if report.when == "call" or not report.passed:
                item.ihook.pytest_runtest_logreport(report=report)
        return True


def are_read(config: pytest.Config) -> bool:
    """Whether somebody reads more of a test than whether it passed: lines of each, times, a file of all."""
    asked = (config.getoption(name, None) for name in ("durations", "xmlpath", "setupshow"))
    return config.get_verbosity() > 0 or any(one is not None and one is not False for one in asked)


class Compiled:
    """Compiles in each of several processes its part of the files that were not yet: every one would compile all."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self, session: pytest.Session) -> None:
        """Leave compiled files where imports look for them; which are out of date, these find out."""
        config = session.config
        worker: dict[str, Any] = getattr(config, "workerinput")  # noqa: B009 -- pytest-xdist puts it there
        number, count = int(worker["workerid"].removeprefix("gw")), int(worker["workercount"])
        folders = [path for path in map(Path, config.args) if path.is_dir()]
        state = config.stash[rewrite.assertstate_key]
        for path in sorted(path for folder in folders for path in folder.rglob("*.py"))[number::count]:
            kept = rewrite.get_cache_dir(path)
            with suppress(SyntaxError, ValueError, OSError):  # who imports it hears of that
                if not path.name.startswith("test_"):
                    SourceFileLoader(path.stem, str(path)).get_code(path.stem)
                elif not (kept / f"{path.stem}{rewrite.PYC_TAIL}").exists() and rewrite.try_makedirs(kept):
                    digest, code = rewrite._rewrite_test(path, config)  # pyright: ignore[reportPrivateUsage] -- no other
                    target = kept / f"{path.stem}{rewrite.PYC_TAIL}"
                    rewrite._write_pyc(state, code, digest, target)  # pyright: ignore[reportPrivateUsage] -- as above


@contextmanager
def alone(nodeid: str) -> Generator[None]:
    """Let a test find and leave what others do: no fixtures of every test, which took a third of what pytest does.

    - Nothing that another one prepared: some change what engines answer.
    - Operators without a seed draw the same whenever it runs: what fails once fails again.
    - What it does to the level and the handlers of the log is undone: another one may not hear warnings then.
    """
    launches = sys.modules.get("tazza.operator.launches")
    if launches is not None:
        launches.LAUNCHES.clear()
    generator: Any = sys.modules.get("tazza.device.generator")
    fresh = None if generator is None else generator.fresh_seed
    if generator is not None:
        seeds = itertools.count(zlib.crc32(nodeid.encode()))
        generator.fresh_seed = lambda: next(seeds) % 2**32
    logger = logging.getLogger("tazza")
    level, handlers = logger.level, list(logger.handlers)
    yield
    if generator is not None:
        generator.fresh_seed = fresh
    logger.setLevel(level)
    logger.handlers[:] = handlers
