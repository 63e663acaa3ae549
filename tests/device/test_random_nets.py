"""Random nets over a host and two devices whose streams overtake each other, and what tells that a call went wrong."""

from __future__ import annotations

import pytest

from tests.device.happens import Order
from tests.device.random_nets import KINDS, OF_ORDER, judge_mutants, judge_nets


@pytest.mark.slow
def test_nets_give_the_numbers_of_the_host(soak: int) -> None:
    """`make fuzz-gpu` runs ten thousand."""
    calls = judge_nets(25 * soak, 1)
    assert {"a stream does not wait", "another stream", "the host does not wait"} <= calls.keys()


@pytest.mark.slow
def test_mutants_are_found(soak: int) -> None:
    """`make fuzz-gpu` makes three hundred."""
    judged = judge_mutants(11 * soak, 1, orders=2)
    assert len(judged.made) > len(KINDS) / 2
    assert judged.missed == []


def test_what_is_ordered_by_events_is_no_race() -> None:
    order = Order()
    order.queue(1, [], [100])
    event = order.record(1)
    order.wait(2, event)
    order.queue(2, [100], [200])
    assert order.races == []
    order.queue(1, [], [100])
    assert len(order.races) == 1, "the second stream may still read"


def test_what_the_host_has_waited_for_is_no_race() -> None:
    order = Order()
    order.queue(1, [], [100], to_host=True)
    order.host_waits_for(1)
    order.host_reads()
    order.queue(2, [100], [])
    order.queue(3, [100], [])
    assert order.races == []
    order.queue(1, [100], [300], to_host=True)
    order.host_reads()
    assert len(order.races) == 1


def test_kinds_of_order_are_told_from_those_of_numbers() -> None:
    assert {"another stream", "the host does not wait"} < set(OF_ORDER)
    assert not {"a kernel is dropped", "arguments are swapped"} & set(OF_ORDER)
