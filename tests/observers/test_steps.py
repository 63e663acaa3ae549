"""Recording nets of every type, also those that run other steps than their operators."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import numpy as np
import pytest

from tazza.errors import NetError, TazzaError
from tazza.interop.predictor import SEATS, Predictor
from tazza.models import Model
from tazza.nets import NETS
from tazza.nets.plan import PlanNet
from tazza.observers import count_runs, observe_times, operator_costs
from tazza.observers.recorder import Recorder
from tazza.observers.trace import write_trace
from tazza.workspace import Workspace
from tests.observers.test_profile import layers
from tests.patience import LONG_S


def model_of(hidden: int = 4) -> Model:
    """Return a model x (N, 3) -> v, with an operator in the middle that no plan compiles."""
    model = Model("all types")
    y = model.relu(model.fc("x", "y", 3, hidden), "z")
    model.net.add("Print", y, [])
    model.net.add_external_output(model.softmax(model.fc(y, "u", hidden, 2), "v"))
    return model


@pytest.mark.parametrize("type", sorted(NETS))
def test_every_type_is_recorded_from_its_first_run_on(type: str, tmp_path: Path) -> None:
    """All operators in each run, in nets that were never run before, and a trace that shows them."""
    model = model_of()
    workspace = Workspace()
    workspace.run_net_once(model.init_net.export())
    workspace.feed("x", np.ones((2, 3), np.float32))
    definition = model.net.export()
    definition.type, definition.num_workers = type, 2
    net = workspace.create_net(definition)
    with Recorder(net) as recorder:
        net.run()
        net.run()
        net.run_async().wait()
    net.run()
    profile = recorder.profile()
    assert len(profile.runs) == 3
    for run, (start_s, end_s) in enumerate(profile.runs):
        found = [one for one in profile.occurrences if one.run == run]
        names = sorted(name for one in found for name in (one.step.fused_from or (one.step.label.split()[0],)))
        assert [name.split()[0] for name in names] == ["FC", "FC", "Print", "Relu", "Softmax"], run
        assert all(start_s <= one.start_s <= one.end_s <= end_s for one in found)
        assert all(one.cost is not None for one in found if one.step.type != "Print")
    path = tmp_path / "trace.json"
    write_trace(path, profile.timeline())
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "X"]
    assert len([event for event in events if "FC" in event["name"] or "Fused" in event["name"]]) >= 3
    net.close()


@pytest.mark.parametrize("hidden", [4, 8192])  # the inputs of the second are read where the caller has them
@pytest.mark.parametrize("type", ["", "plan", "simple_refcount", "dag"])
def test_a_predictor_is_recorded_in_all_its_threads(type: str, hidden: int) -> None:
    model = Model("predicted")
    model.net.add_external_output(model.softmax(model.fc("x", "y", hidden, 4), "v"))
    workspace = Workspace()
    workspace.run_net_once(model.init_net.export())
    definition = model.net.export()
    definition.type = type
    definition.num_workers = 2
    barrier = threading.Barrier(2, timeout=LONG_S)

    def predict(predictor: Predictor) -> None:
        barrier.wait()
        for _ in range(5):
            predictor.run(x=np.ones((3, hidden), np.float32))

    with SEATS.override(2), Predictor(definition, workspace) as predictor, Recorder(predictor.net) as recorder:
        threads = [threading.Thread(target=predict, args=(predictor,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        profile = recorder.profile()
    assert len(profile.runs) == 10
    assert [row.count for row in profile.by_type()] == [10] * len(profile.by_type())
    assert sum(one.cost.flops for one in profile.occurrences if one.cost is not None) >= 10 * 2 * 3 * hidden * 4


def test_clones_of_a_plan_are_recorded_by_themselves_and_with_it() -> None:
    first = layers("plan")
    assert isinstance(first, PlanNet)
    other = Workspace()
    for name, shape in (("x", (2, 3)), ("w", (4, 3)), ("b", (4,))):
        other.feed(name, np.ones(shape, np.float32))
    second = first.clone(other)
    with Recorder(first) as both, Recorder(second) as alone:
        first.run()
        second.run()
    second.run()
    assert (len(both.profile().runs), len(alone.profile().runs)) == (2, 1)
    assert len(alone.profile().occurrences) > 0


def test_what_looks_at_operators_refuses_a_net_that_runs_others() -> None:
    for look in (observe_times, count_runs, operator_costs):
        with pytest.raises(NetError, match=r"net 'layers' runs steps of its own.*\n  hint: .*Recorder"):
            look(layers("plan"))


def test_a_plan_that_fails_is_recorded_as_far_as_it_came() -> None:
    net = layers("plan")
    with Recorder(net) as recorder:
        net.run()
        net.workspace.create_blob("x").tensor().assign(np.ones((2, 7), np.float32))
        with pytest.raises(TazzaError):
            net.run()
        net.workspace.create_blob("x").tensor().assign(np.ones((5, 3), np.float32))
        net.run()
    profile = recorder.profile()
    assert len(profile.runs) == 3
    assert {one.run for one in profile.occurrences} == {0, 2}
    first, last = (sum(o.cost.flops for o in profile.occurrences if o.run == r and o.cost) for r in (0, 2))
    assert 2 * last == 5 * first, "the cost follows shapes"


def test_a_plan_drops_runs_that_there_is_no_room_for() -> None:
    net = layers("plan")
    with Recorder(net, records_max=1) as recorder:
        net.run()
        net.run()
    profile = recorder.profile()
    assert (len(profile.occurrences), profile.dropped) == (1, 1)
    recorder.reset()
    assert recorder.profile().runs == ()
