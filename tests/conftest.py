"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from itertools import compress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers

from tests.declared import LEDGER
from tests.running import Compiled, Doctests, Reports, alone, are_read
from tests.sampled import few

# One BLAS thread: tests run side by side, and threads that wait for each other on busy processors take seconds.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# What the chooser takes is the same on every machine, and while others are at work.
os.environ.setdefault("TAZZA_MACHINE_MODEL", "nominal")
# Compiled kernels of tests stay out of the user's cache, and are kept from one run of the tests to the next.
os.environ.setdefault("TAZZA_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "tazza"))

# An example that takes long on a busy machine is no failure: tests assert nothing about time.
settings.register_profile("tazza", deadline=None)
# `make check` takes this one: no law is shown with more examples than this, whatever its own settings say.
FAST = settings(deadline=None, max_examples=5)
settings.register_profile("fast", FAST)
FAST_CASES = 1
"""Of how many of its cases a parametrized test is run with the profile `fast`."""
settings.load_profile("tazza")
# It reads every module of ours for constants to draw: seconds, and then draws hang on what other tests have imported.
setattr(providers, "is_local_module_file", lambda _: False)  # noqa: B010  # pyright: ignore[reportUnknownLambdaType]

SETTINGS = "_hypothesis_internal_use_settings"
"""Where hypothesis keeps the settings of a test; there is no public way to lower those of a decorator."""


SOAK = 10
"""How many times as often tests under stress repeat themselves with `--soak`."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--soak`, `--documents` and `--declare`."""
    parser.addoption("--soak", action="store_true", help=f"repeat what tests under stress do {SOAK} times as often")
    parser.addoption("--declare", action="store_true", help="write anew what engines refuse (tests/declared.py)")
    parser.addoption("--documents", action="store_true", help="run the commands of documents that take long as well")


@pytest.fixture
def soak(request: pytest.FixtureRequest) -> int:
    """Return how many times as often as usual a test under stress should repeat itself."""
    return SOAK if request.config.getoption("--soak") else 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run each test as if it were the only one."""
    with alone(item.nodeid):
        return (yield)


def profile_of(config: pytest.Config) -> str:
    """Return the profile that was asked for: what tests import may have loaded another one."""
    asked = config.getoption("--hypothesis-profile")
    return "tazza" if asked is None else str(asked)


def pytest_itemcollected(item: pytest.Item) -> None:
    """With the profile `fast`, lower the number of examples that a test's own settings ask for."""
    test: Any = getattr(item, "obj", None)
    if profile_of(item.config) != "fast" or not is_hypothesis_test(test):
        return
    test = getattr(test, "__func__", test)  # of a method, which takes no attributes
    if hasattr(test, SETTINGS):  # others take those of the profile
        own: settings = getattr(test, SETTINGS)
        setattr(test, SETTINGS, settings(own, max_examples=min(own.max_examples, FAST.max_examples)))


@pytest.hookimpl(wrapper=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> Generator[None]:
    """With the profile `fast`, make a few of the cases of each test; `make test` makes all of them.

    Three quarters of all cases are slow or left out, and making them took longer than running many of the others.
    Nothing public tells of cases before they are made.
    """
    yield
    config = metafunc.config
    cases: list[Any] = getattr(metafunc, "_calls")  # noqa: B009 -- pytest keeps them there
    if profile_of(config) != "fast" or not cases:
        return
    test = metafunc.definition
    whole = test.get_closest_marker("slow") is not None
    slow = [whole or any(mark.name == "slow" for mark in case.marks) for case in cases]
    names = [f"{test.nodeid}[{case.id}]" for case in cases]
    taken = few([name for name, is_slow in zip(names, slow, strict=True) if not is_slow], FAST_CASES)
    if config.getoption("markexpr") == "not slow":  # of slow ones alone, one is left that says so
        keep = [name in taken for name in names] if taken else [True]
    else:
        keep = [is_slow or name in taken for name, is_slow in zip(names, slow, strict=True)]
    cases[:] = compress(cases, keep)


def pytest_collection_modifyitems(config: pytest.Config) -> None:
    """Load the profile again: what tests imported may have loaded another one."""
    settings.load_profile(profile_of(config))


def pytest_configure(config: pytest.Config) -> None:
    """With `--declare`, let the table of engines be written; hear of Ctrl-C, which who runs the tests may ignore."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(Doctests())
    if hasattr(config, "workerinput"):  # a process beside others
        plugins = [*([] if are_read(config) else [Reports()]), *([] if sys.dont_write_bytecode else [Compiled()])]
        for plugin in plugins:
            config.pluginmanager.register(plugin)
    LEDGER.writes = bool(config.getoption("--declare"))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of engines, if it shall be; a process beside others hands on what its engines ran."""
    output: Any = getattr(session.config, "workeroutput", None)  # pytest-xdist puts it there
    if output is not None:
        output["calls"] = LEDGER.counts()
        output["seen"] = [[*call, reason] for call, reason in LEDGER.seen.items()] if LEDGER.writes else []
    elif LEDGER.writes:
        LEDGER.write()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Add what the engines of another process ran, and what it saw of them."""
    output = getattr(node, "workeroutput", {})
    LEDGER.add(output.get("calls", {}))
    LEDGER.seen.update({(engine, type, call): reason for engine, type, call, reason in output.get("seen", [])})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what every engine really ran."""
    lines = LEDGER.summary()
    if lines:
        terminalreporter.section("calls of operators by engine")
        for line in lines:
            terminalreporter.write_line(line)


def pytest_sessionstart() -> None:
    """Search for no garbage while tests are collected: each search would go through all that is there by then."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Take what was collected out of Python's search for garbage: each one would go through all tests and modules."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> Iterator[None]:
    """Take what a file of tests leaves out of Python's search for garbage too, which many tests begin on purpose."""
    yield
    gc.collect()
    gc.freeze()
