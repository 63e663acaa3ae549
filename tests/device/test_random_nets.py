"""Random nets over a host and two devices whose streams overtake each other, and what tells that a call went wrong."""

from __future__ import annotations

import pytest

from tazza.device import device_option
from tazza.nets.base import PLAN
from tazza.operator import operator_def
from tests.device.cublas_library import fake_gpu
from tests.device.happens import Order
from tests.device.random_nets import (
    KINDS,
    OF_ORDER,
    PLACES,
    Mutant,
    Overtaking,
    RandomNet,
    found_by,
    judge_mutants,
    judge_nets,
)


@pytest.mark.slow
def test_nets_give_the_numbers_of_the_host(soak: int) -> None:
    """`make fuzz-gpu` runs ten thousand."""
    calls = judge_nets(25 * soak, 1)
    assert {"a stream does not wait", "another stream", "the host does not wait"} <= calls.keys()


@pytest.mark.slow
def test_mutants_are_found(soak: int) -> None:
    """`make fuzz-gpu` makes three hundred."""
    judged = judge_mutants(16 * soak, 1, orders=2)
    assert len(judged.made) > len(KINDS) / 3, "when threads meet decides too which calls there are"
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


def test_the_host_waits_before_it_reads_or_writes() -> None:
    order = Order()
    order.queue(1, [300], [100])
    order.host_touches([300], [])
    assert order.races == [], "both read"
    order.host_touches([100], [])
    order.host_touches([], [300])
    assert ["reads" in one for one in order.races] == [True, False]
    order.host_waits_for(1)
    order.host_touches([100], [100, 300])
    assert len(order.races) == 2


def test_a_plan_whose_host_reads_too_early_is_seen_by_its_order() -> None:
    """The host computes with what a device copied to it; no wait of the host may be missing in between."""
    there = [operator_def("Negative", ["c0"], ["c1"]), operator_def("CopyGPUToCPU", ["c1"], ["h0"])]
    for op in there:
        op.device_option.CopyFrom(device_option(PLACES["c"]))
    net = RandomNet(PLAN, [*there, operator_def("Negative", ["h0"], ["h1"])])
    seen, kind = 0, "the host does not wait twice"  # a copy to the host waits, and so does who reads
    with fake_gpu() as library:
        gpu = library.gpu
        gpu.delays = Overtaking(1)
        gpu.tamper = plain = Mutant(gpu)
        assert found_by(gpu, net, 1) is None
        assert gpu.order.races == []
    for number in range(plain.counts[kind]):
        with fake_gpu() as library:
            gpu = library.gpu
            gpu.delays, gpu.tamper = Overtaking(1), Mutant(gpu, kind, number)
            found_by(gpu, net, 1)
            seen += any("the host reads" in race for race in gpu.order.races)
            gpu.tamper = None
            gpu.faults.clear()
    assert seen > 0


def test_kinds_of_order_are_told_from_those_of_numbers() -> None:
    assert {"another stream", "the host does not wait"} < set(OF_ORDER)
    assert not {"a kernel is dropped", "arguments are swapped"} & set(OF_ORDER)
