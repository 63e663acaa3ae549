"""The scope guard runs once, unless released, and hides no error."""

from __future__ import annotations

import pytest

from tazza.runtime.scope_guard import scope_guard


def test_it_runs_when_the_block_ends() -> None:
    calls: list[str] = []
    with scope_guard(lambda: calls.append("guard")):
        calls.append("block")
    assert calls == ["block", "guard"]


def test_it_runs_when_the_block_fails_and_the_error_goes_on() -> None:
    calls: list[str] = []
    with pytest.raises(ZeroDivisionError), scope_guard(lambda: calls.append("guard")):
        raise ZeroDivisionError
    assert calls == ["guard"]


def test_it_does_not_run_once_released() -> None:
    calls: list[str] = []

    def fail() -> None:
        with scope_guard(lambda: calls.append("guard")) as guard:
            guard.release()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert calls == []


def test_it_runs_once_even_if_entered_twice() -> None:
    calls: list[str] = []
    guard = scope_guard(lambda: calls.append("guard"))
    with guard:
        pass
    with guard:
        pass
    assert calls == ["guard"]


def test_an_error_of_the_callback_keeps_the_first_as_its_context() -> None:
    def callback() -> None:
        raise KeyError("guard")

    with pytest.raises(KeyError) as raised, scope_guard(callback):
        raise ZeroDivisionError
    assert isinstance(raised.value.__context__, ZeroDivisionError)
