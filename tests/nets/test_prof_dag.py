"""`prof_dag`: what its statistics count, as messages and as the line that it logs at its end."""

from __future__ import annotations

import itertools
import logging
from types import SimpleNamespace

import numpy as np
import pytest

from tazza.errors import TazzaError
from tazza.nets.prof_dag import Moments, ProfDagNet
from tazza.operator import operator_def
from tazza.proto import NetDef, ProfDAGProtos
from tazza.workspace import Workspace

OPS = [
    operator_def("Relu", ["x"], ["y"]),
    operator_def("Relu", ["y"], ["z"], name="second"),
    operator_def("FC", ["z", "w", "b"], ["u"]),
]


def feed(workspace: Workspace, columns: int = 3) -> None:
    """Feed what the net reads; `columns` other than 3 do not fit."""
    for name, shape in (("x", (2, columns)), ("w", (5, 3)), ("b", (5,))):
        workspace.feed(name, np.ones(shape, np.float32))


def measured(runs: int) -> ProfDagNet:
    """Return a net that ran so many times."""
    workspace = Workspace()
    feed(workspace)
    net = workspace.create_net(NetDef(name="pn", type="prof_dag", num_workers=2, op=OPS))
    assert isinstance(net, ProfDagNet)
    for _ in range(runs):
        net.run()
    return net


def test_moments() -> None:
    values = np.random.default_rng(1).normal(1e6, 1.0, 50)
    moments = Moments()
    assert (moments.count, moments.mean, moments.deviation) == (0, 0.0, 0.0)
    for value in values:
        moments.add(float(value))
    assert moments.mean == pytest.approx(values.mean())
    assert moments.deviation == pytest.approx(values.std(), rel=1e-6)


def test_stats_by_type_leave_out_the_first_run() -> None:
    stats = measured(4).stats()
    assert stats.net_name == "pn"
    assert [(entry.name, entry.execution_time.count) for entry in stats.stats] == [("FC", 3), ("Relu", 3)]
    for entry in stats.stats:
        assert entry.mean == entry.execution_time.mean > 0
        assert entry.stddev == entry.execution_time.stddev >= 0
    assert [(one.idx, one.type, one.net_name) for one in stats.ops_stats] == [
        ("0", "Relu", "pn"),
        ("1", "Relu", "pn"),
        ("2", "FC", "pn"),
    ]
    relus = sum(one.exec_time_secs for one in stats.ops_stats[:2])
    assert stats.stats[1].mean == pytest.approx(1e3 * relus, rel=1e-5), "of all operators of a type, in milliseconds"
    assert ProfDAGProtos.FromString(stats.SerializeToString()) == stats


def test_stats_by_operator_tell_sizes() -> None:
    stats = measured(2).operator_stats()
    assert [entry.name for entry in stats.stats] == ["Relu", "second", "FC"]
    (output,) = stats.stats[2].output_profile
    assert (output.name, output.bytes_used.mean, output.bytes_used.stddev) == ("u", 2 * 5 * 4, 0)
    assert stats.stats[0].stddev == 0, "one run"


@pytest.mark.parametrize("runs", [0, 1])
def test_nothing_is_measured_before_the_second_run(runs: int) -> None:
    net = measured(runs)
    assert not net.stats().stats
    assert not net.operator_stats().ops_stats
    assert "fewer than two runs" in net.report()


def test_runs_that_fail_do_not_count() -> None:
    net = measured(2)
    assert isinstance(net.workspace, Workspace)
    feed(net.workspace, columns=4)
    for _ in range(2):
        with pytest.raises(TazzaError, match="FC"):
            net.run()
    feed(net.workspace)
    net.run()
    net.run_async().wait()
    assert {entry.execution_time.count for entry in net.stats().stats} == {3}


def test_times_are_those_of_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by a second with each look at it: two of each operator, two of the run."""
    net = measured(1)
    seconds = itertools.count()
    monkeypatch.setattr("tazza.nets.prof_dag.time", SimpleNamespace(perf_counter=lambda: float(next(seconds))))
    net.run()
    assert {entry.name: entry.mean for entry in net.stats().stats} == {"FC": 1000.0, "Relu": 2000.0}
    assert [one.exec_time_secs for one in net.stats().ops_stats] == [1.0, 1.0, 1.0]
    assert " 7000.0000 ms (0.0000)  the whole run" in net.report()


def test_the_end_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    net = measured(3)
    with caplog.at_level(logging.INFO, "tazza"):
        net.close()
        net.close()
    (record,) = caplog.records
    text = record.getMessage()
    assert text.startswith("net 'pn' (prof_dag): 2 runs measured, 3 operators")
    assert "2 x Relu" in text
    assert "1 x FC" in text
    assert text.splitlines()[-1].endswith("the whole run")
