"""The collector rests for a while, and works again whatever happens."""

from __future__ import annotations

import gc

import pytest

from tazza.runtime.collecting import uncollected


def test_the_collector_works_again_behind_an_error_and_within_another_rest() -> None:
    @uncollected
    def fail() -> None:
        assert not gc.isenabled()
        assert uncollected(gc.isenabled)() is False
        assert not gc.isenabled(), "the outer one goes on"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert gc.isenabled()


def test_one_that_was_switched_off_stays_so() -> None:
    gc.disable()
    try:
        assert not uncollected(gc.isenabled)()
        assert not gc.isenabled()
    finally:
        gc.enable()
