"""Start-up: order of phases, repeated and nested calls, failures, threads; the process's own in others."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from tazza.errors import DuplicateError, InitError
from tazza.operator import LocalBlobs, Operator, operator_def
from tazza.runtime.init import Initializer
from tazza.runtime.log import LOG_LEVEL


def noting(calls: list[str], name: str, then: Callable[[], object] | None = None) -> Callable[[], None]:
    """Return a function called `name` that appends its name to `calls` and calls `then`."""

    def function() -> None:
        calls.append(name)
        if then is not None:
            then()

    function.__qualname__ = name
    return function


def test_early_functions_then_flags_then_functions_in_the_order_of_registration() -> None:
    start, calls = Initializer(), list[str]()
    start.init_function(help="")(noting(calls, "z", lambda: calls.append(f"flag {LOG_LEVEL.value}")))
    start.init_function(help="")(noting(calls, "y"))
    start.early_init(help="")(noting(calls, "b", lambda: calls.append(f"flag {LOG_LEVEL.value}")))
    start.early_init(help="")(noting(calls, "a"))
    with LOG_LEVEL.override(1):
        assert not start.initialized()
        assert start.global_init(["prog", "--caffe2_log_level=2", "file"]) == ["prog", "file"]
        assert start.initialized()
    assert calls == ["b", "flag 1", "a", "z", "flag 2", "y"]


def test_help_is_kept() -> None:
    start = Initializer()
    start.early_init(help="does little")(noting([], "a"))
    assert start.early.help(f"{__name__}.a") == "does little"


def test_a_second_call_only_parses_flags() -> None:
    start, calls = Initializer(), list[str]()
    start.early_init(help="")(noting(calls, "early"))
    start.init_function(help="")(noting(calls, "late"))
    with LOG_LEVEL.override(1):
        assert start.global_init([]) == []
        assert start.global_init(["prog", "--caffe2_log_level=0"]) == ["prog"]
        assert LOG_LEVEL.value == 0
    assert calls == ["early", "late"]


@pytest.mark.parametrize("decorator", ["early_init", "init_function"])
def test_a_nested_call_does_nothing(decorator: str) -> None:
    start, calls = Initializer(), list[str]()

    def nested() -> None:
        assert start.global_init(["prog", "--no_such_flag"]) == ["prog", "--no_such_flag"]
        assert not start.initialized()

    getattr(start, decorator)(help="")(noting(calls, "outer", nested))
    start.global_init([])
    assert calls == ["outer"]


def test_a_bad_flag_stops_before_functions_and_init_can_be_repeated() -> None:
    start, calls = Initializer(), list[str]()
    start.early_init(help="")(noting(calls, "early"))
    start.init_function(help="")(noting(calls, "late"))
    with pytest.raises(InitError, match="unknown flag '--no_such_flag'"):
        start.global_init(["prog", "--no_such_flag"])
    assert (calls, start.initialized()) == (["early"], False)
    start.global_init([])
    assert (calls, start.initialized()) == (["early", "late"], True)


@pytest.mark.parametrize("decorator", ["early_init", "init_function"])
def test_a_failing_function_is_named_and_tried_again(decorator: str) -> None:
    start, calls = Initializer(), list[str]()

    def fail() -> None:
        if calls.count("second") == 1:
            raise OSError("disk is full")

    for name, then in (("first", None), ("second", fail), ("third", None)):
        getattr(start, decorator)(help="")(noting(calls, name, then))
    with pytest.raises(InitError, match=r"init function .*\.second failed: disk is full") as raised:
        start.global_init([])
    assert isinstance(raised.value.__cause__, OSError)
    assert not start.initialized()
    start.global_init([])
    assert calls == ["first", "second", "second", "third"]


def test_an_early_function_is_refused_once_they_ran() -> None:
    start = Initializer()
    start.global_init([])
    with pytest.raises(InitError, match=r"early init function .*\.a is registered in phase DONE"):
        start.early_init(help="")(noting([], "a"))
    assert len(start.early) == 0


def test_a_late_function_runs_at_once() -> None:
    start, calls = Initializer(), list[str]()
    start.global_init([])
    start.init_function(help="")(noting(calls, "late"))
    assert calls == ["late"]

    def no_luck() -> None:
        raise ValueError("no luck")

    with pytest.raises(InitError, match="failed: no luck"):
        start.init_function(help="")(noting(calls, "bad", no_luck))


def test_functions_registered_by_functions_run_too() -> None:
    start, calls = Initializer(), list[str]()
    more_early, more = noting(calls, "early 2"), noting(calls, "late 2")
    start.early_init(help="")(noting(calls, "early 1", lambda: start.early_init(help="")(more_early)))
    start.init_function(help="")(noting(calls, "late 1", lambda: start.init_function(help="")(more)))
    start.global_init([])
    assert calls == ["early 1", "early 2", "late 1", "late 2"]


def test_a_function_is_registered_once() -> None:
    start, function = Initializer(), noting([], "a")
    start.init_function(help="")(function)
    with pytest.raises(DuplicateError, match="init function"):
        start.init_function(help="")(function)


def test_other_threads_wait_and_functions_run_once() -> None:
    start, calls, entered, leave = Initializer(), list[str](), threading.Event(), threading.Event()

    def block() -> None:
        entered.set()
        leave.wait(60)

    start.init_function(help="")(noting(calls, "slow", block))
    first = threading.Thread(target=start.global_init, args=([],))
    first.start()
    entered.wait(60)
    seen: list[bool] = []

    def other() -> None:
        start.global_init([])
        seen.append(start.initialized())

    others = [threading.Thread(target=other) for _ in range(4)]
    for thread in others:
        thread.start()
    start.init_function(help="")(noting(calls, "meanwhile"))  # does not wait for the phases to end
    leave.set()
    for thread in (first, *others):
        thread.join()
    assert calls == ["slow", "meanwhile"]
    assert seen == [True] * 4


def test_require_init_warns_once_if_functions_wait(caplog: pytest.LogCaptureFixture) -> None:
    start = Initializer()
    start.init_function(help="")(noting([], "late"))
    for _ in range(3):
        start.require_init("workspace")
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "workspace runs before tazza.global_init" in record.message
    assert record.message.endswith(f"not run so far: {__name__}.late")


def test_require_init_informs_once_if_nothing_is_amiss(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tazza"):
        start = Initializer()
        start.require_init("workspace")
        start.require_init("net")
    assert [record.levelname for record in caplog.records] == ["INFO"]


def test_require_init_is_silent_from_start_up_on(caplog: pytest.LogCaptureFixture) -> None:
    start = Initializer()
    start.init_function(help="")(lambda: start.require_init("an init function"))
    with caplog.at_level(logging.INFO, "tazza"):
        start.global_init([])
        start.require_init("workspace")
    assert caplog.records == []


def test_operators_that_are_made_ask(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """The first one tells what waits for start-up, such as a module that was loaded late; none asks afterwards."""
    start = Initializer()
    start.init_function(help="")(noting([], "late"))
    monkeypatch.setattr("tazza.operator.operator.require_init", start.require_init)
    for _ in range(2):
        Operator(operator_def("ConstantFill", [], ["x"], shape=[2]), LocalBlobs())
    (record,) = caplog.records
    assert record.message.startswith("ConstantFill runs before tazza.global_init")


PROGRAM = """
from tazza.runtime.flags import flag
from tazza.runtime.init import early_init, global_init, init_function, initialized, require_init
COUNT = flag("count", 1, "how many")
@init_function(help="second")
def second(): print("second", COUNT.value)
@early_init(help="first")
def first(): print("first", COUNT.value)
require_init("the program")
print(global_init(["prog", "--count=3", "file"]), initialized(), COUNT.value)
print(global_init(), global_init(["prog", "--count", "4"]), COUNT.value)
require_init("the program")
"""


@pytest.mark.slow
def test_the_process_s_own_start_up() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["first 1", "second 3", "['prog', 'file'] True 3", "[] ['prog'] 4"]
    assert done.stderr.splitlines() == [
        "the program runs before tazza.global_init, so no flags were parsed;"
        " not run so far: __main__.first, __main__.second"
    ]
