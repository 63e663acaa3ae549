"""The benchmark of what profiling costs, in the small."""

from __future__ import annotations

import pytest

from benchmarks.nets import profiling


def test_all_ways_are_measured_and_leave_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiling, "OPERATORS", 3)
    monkeypatch.setattr(profiling, "RUNS", 2)
    found = profiling.measure("simple", rounds=1)
    assert list(found) == ["unobserved", "observed", "recorded"]
    assert min(found.values()) > 0
    net = profiling.chain("simple")
    for way in profiling.WAYS:
        with way(net):
            net.run()
        assert not any(operator.observers for operator in net.operators)
