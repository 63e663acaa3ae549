"""Leaving the worst layers in float32 until a net is good enough, and no more of them."""

from __future__ import annotations

import pytest

from tazza.errors import NumericError
from tazza.interop.int8 import Comparison, Quantized, array_batches, mend, watch_nets
from tests.interop.int8.mixed import data, mixed

BATCHES = array_batches({"data": data()})


@pytest.mark.slow
def test_the_worst_are_kept_until_it_is_enough() -> None:
    seen = watch_nets(*mixed(), BATCHES)
    first = mend(seen, BATCHES, least=10.0)
    assert first.kept == ()
    wanted = first.measured + 6
    found = mend(seen, BATCHES, least=wanted)
    assert found.measured == found.comparison.signal_db >= wanted
    assert found.kept[0] == first.comparison.worst()[0].blob
    fewer = mend(seen, BATCHES, least=10.0, keep=found.kept[:-1])
    assert fewer.measured < wanted, "one less would not have been enough"
    assert set(found.kept) <= set(found.quantized.kept)


@pytest.mark.slow
def test_any_measure() -> None:
    """Here: how many operators are left in float32."""

    def kept(small: Quantized, compared: Comparison) -> float:
        del compared
        return len(small.kept)

    found = mend(watch_nets(*mixed(), BATCHES), BATCHES, least=2, measure=kept)
    assert found.measured >= 2


@pytest.mark.slow
def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(NumericError, match="with every layer in float32, and 1000 is wanted"):
        mend(watch_nets(*mixed(), BATCHES), BATCHES, least=1000.0)
