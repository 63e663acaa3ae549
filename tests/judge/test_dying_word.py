"""A judge that a kernel ended says in what."""

from __future__ import annotations

import pytest

from tests.judge.dying_word import survived

DIES = """
import os, signal
from tests.judge.dying_word import now
now("a problem with a long name")
now("the last")
os.kill(os.getpid(), signal.{signal})
"""


@pytest.mark.parametrize("signal", ["SIGSEGV", "SIGABRT"])
@pytest.mark.slow
def test_it_is_told_of_what_a_process_died(signal: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert survived(["-c", DIES.format(signal=signal)]) == 1
    assert capfd.readouterr().err.splitlines()[-1] == f"ended by {signal} in the last"


@pytest.mark.slow
def test_other_ends_are_handed_on() -> None:
    assert [survived(["-c", f"raise SystemExit({status})"]) for status in (0, 3)] == [0, 3]
