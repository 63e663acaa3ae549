"""Profiles: sums and timelines of what was measured, and recording it on threads, streams and plans."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Generator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tazza.device import current_context, streaming
from tazza.errors import ArgumentError, TazzaError
from tazza.models import Model
from tazza.nets import NetBase
from tazza.observers import Observer, operator_costs
from tazza.observers.profile import Occurrence, Profile, ProfiledStep, summarize
from tazza.observers.recorder import Recorder, profile_net
from tazza.observers.timeline import SpanKind
from tazza.observers.trace import write_trace
from tazza.operator import (
    KERNELS,
    SCHEMAS,
    Array,
    Call,
    Cost,
    Launch,
    Operands,
    Operator,
    OpView,
    Spec,
    blob,
    ends,
    launcher,
    operator_def,
    schema,
)
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.runtime.budget import ThreadBudget
from tazza.runtime.waiting import note_wait
from tazza.tensor import CUDAPlace, Tensor, TensorSpec
from tazza.workspace import Workspace
from tests.nets.simulated import TEST_ENGINE, mix, simulated_device, watching
from tests.patience import LONG_S

CONV, RELU = ProfiledStep(0, "Conv", "y", "onednn"), ProfiledStep(1, "Relu", "z", "native")


def occurrence(step: ProfiledStep, lane: str, start_s: float, end_s: float, **more: object) -> Occurrence:
    """Return an occurrence of run 0, unless `more` says otherwise."""
    return Occurrence(int(str(more.pop("run", 0))), step, lane, start_s, end_s, **more)  # pyright: ignore[reportArgumentType] -- checked where it is used


HAND = Profile(
    "hand",
    "dag",
    ((0.0, 4.0), (10.0, 12.0)),
    (
        occurrence(CONV, "w1", 0.0, 2.0, ready_s=0.0, waits=((0.5, 1.0),), cost=Cost(6, 10, 20)),
        occurrence(RELU, "w2", 3.0, 4.0, ready_s=2.0, cost=Cost(4, 1, 2)),
        occurrence(CONV, "w1", 10.0, 10.5, ready_s=10.0, run=1, cost=Cost(6, 10, 20)),
        occurrence(RELU, "w1", 11.0, 12.0, run=1, kind=SpanKind.COPY, cost=Cost(0, 1, 2)),
    ),
    (2.0, 3.0),
)


def test_sums_by_hand() -> None:
    conv, relu = HAND.by_operator()
    assert (conv.name, conv.engine, conv.count, conv.lanes) == ("Conv y", "onednn", 2, ("w1",))
    assert (conv.total_s, conv.mean_s, conv.sd_s, conv.min_s) == (2.0, 1.0, 0.5, 0.5)
    assert (conv.flops, conv.nbytes, conv.flops_per_s, conv.bytes_per_s) == (12, 60, 6.0, 30.0)
    assert (conv.waited_s, conv.late_s, conv.copied_bytes) == (0.5, 0.0, 0)
    assert (relu.lanes, relu.late_s, relu.copied_bytes, relu.flops) == (("w1", "w2"), None, 2, 4)
    assert [(row.name, row.count) for row in HAND.by_lane()] == [("w1", 3), ("w2", 1)]
    apart = HAND.by_operator(lanes=True)
    assert [(row.name, row.lanes, row.count) for row in apart] == [
        ("Conv y", ("w1",), 2),
        ("Relu z", ("w1",), 1),
        ("Relu z", ("w2",), 1),
    ]
    assert [row.name for row in HAND.by_type()] == ["Conv", "Relu"]
    assert summarize("late", HAND.occurrences[1:2]).late_s == 1.0
    assert (HAND.run_s, HAND.total_s, HAND.parallelism, HAND.overhead) == (3.0, 4.0, 4 / 6, 3.0 / 2.5 - 1)


def test_one_slow_run_changes_nothing_in_the_headline() -> None:
    """All in it are medians, and the numbers in it fit each other."""
    rows = [occurrence(CONV, "w", 10.0 * run, 10.0 * run + 1.0, run=run) for run in range(4)]
    runs = tuple((10.0 * run, 10.0 * run + 2.0) for run in range(4))
    even, slow = Profile("n", "dag", runs, tuple(rows)), (50.0, 90.0)
    uneven = Profile("n", "dag", (*runs, slow), (*rows, occurrence(CONV, "w", 50.0, 85.0, run=4)))
    assert even.headline().replace("4 runs", "5 runs") == uneven.headline()
    assert (uneven.run_s, uneven.operators_s, uneven.parallelism) == (2.0, 1.0, 0.5)


def test_the_timeline_shows_waits_copies_and_idle_lanes() -> None:
    spans = {(span.lane, span.name, span.start_s, span.end_s): span for span in HAND.timeline().spans}
    assert spans["w1", "threads for Conv y", 0.5, 1.0].kind is SpanKind.WAIT
    assert spans["w1", "Conv y", 1.0, 2.0].flops == 6
    assert ("w1", "Conv y (before it waits)", 0.0, 0.5) in spans
    assert spans["w1", "Relu z", 11.0, 12.0].kind is SpanKind.COPY
    assert spans["w1", "Relu z", 11.0, 12.0].nbytes == 2, "what was copied, not read and written"
    assert spans["w1", "idle", 10.5, 11.0].kind is SpanKind.WAIT
    assert not any(name == "idle" and start_s < 10 for _, name, start_s, _ in spans), "between runs nobody waits"
    assert "idle" not in {span.name for span in HAND.timeline(idle=False).spans}


def test_tables_and_the_headline() -> None:
    text = str(HAND)
    assert "net 'hand' (dag): 2 runs, 3000 ms each (2500 ms while nobody looks: profiling adds +20.0%)" in text
    assert "waits µs" in text
    assert "copied MB" in text
    table = HAND.table(HAND.by_operator()[:1])
    assert "copied MB" not in table.titles, "columns that would be empty are left out"
    assert dict(zip(table.titles, table.rows[0], strict=True))["%"] == "50.0%"
    assert HAND.table(HAND.by_lane(), what="lane").titles[-1] == ""
    assert str(Profile("none", "simple", (), ())).startswith("net 'none' (simple): not run")


# -- on the host -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def device() -> Generator[None]:
    """Simulate CUDA devices on the host, and have the test operators."""
    with simulated_device():
        yield


def net_of(ops: Sequence[OperatorDef], type: str = "simple", workers: int = 2) -> NetBase:
    """Return a net of test operators on `a`."""
    workspace = Workspace()
    workspace.feed("a", np.arange(15, dtype=np.int64).reshape(3, 5))
    return workspace.create_net(NetDef(name=f"{type} net", type=type, num_workers=workers, op=ops))


def layers(type: str = "simple") -> NetBase:
    """Return a net of two operators on x (2, 3)."""
    workspace = Workspace()
    for name, shape in (("x", (2, 3)), ("w", (4, 3)), ("b", (4,))):
        workspace.feed(name, np.ones(shape, np.float32))
    ops = [operator_def("FC", ["x", "w", "b"], ["y"]), operator_def("Relu", ["y"], ["z"])]
    return workspace.create_net(NetDef(name="layers", type=type, op=ops, external_output=["z"]))


def test_recording_a_net() -> None:
    net = layers()
    with Recorder(net) as recorder:
        for _ in range(3):
            net.run()
    net.run()
    profile = recorder.profile()
    assert len(profile.runs) == 3
    assert all(not operator.observers for operator in net.operators)
    assert not net.observers
    fc, relu = profile.by_operator()
    assert (fc.name, fc.count, relu.name, relu.count) == ("FC y", 3, "Relu z", 3)
    assert fc.lanes == (threading.current_thread().name,)
    assert fc.engine != ""
    costs = [row.cost for row in operator_costs(net)]
    assert [one.cost for one in profile.occurrences] == 3 * costs
    for (start_s, end_s), run in zip(profile.runs, range(3), strict=True):
        first, second = (one for one in profile.occurrences if one.run == run)
        assert (first.ready_s, second.ready_s) == (start_s, first.end_s)
        assert start_s <= first.start_s < first.end_s <= second.start_s < second.end_s <= end_s
    assert 0 < profile.parallelism < 1


def test_the_cost_follows_shapes() -> None:
    net = layers()
    with Recorder(net) as recorder:
        net.run()
        net.workspace.create_blob("x").tensor().assign(np.ones((5, 3), np.float32))
        net.run()
    flops = [one.cost.flops for one in recorder.profile().occurrences if one.cost is not None]
    assert flops[2:] == [flops[0] // 2 * 5, flops[1] // 2 * 5]


def test_start_stop_and_reset() -> None:
    net = layers()
    recorder = Recorder(net, records_max=3)
    net.run()
    net.run()
    assert (len(recorder.profile().occurrences), recorder.profile().dropped) == (3, 1)
    recorder.reset()
    recorder.stop()
    net.run()
    assert recorder.profile().occurrences == ()
    recorder.start()
    recorder.start()
    net.run()
    assert (len(recorder.profile().occurrences), recorder.profile().dropped, len(recorder.profile().runs)) == (2, 0, 1)
    assert "1 runs" in str(recorder.profile())
    recorder.stop()


def test_a_run_that_fails_is_recorded_as_far_as_it_came() -> None:
    net = layers()
    with Recorder(net) as recorder:
        net.workspace.create_blob("x").tensor().assign(np.ones((2, 7), np.float32))
        with pytest.raises(TazzaError):
            net.run()
        net.workspace.create_blob("x").tensor().assign(np.ones((2, 3), np.float32))
        net.run()
    profile = recorder.profile()
    assert [(one.run, one.step.type) for one in profile.occurrences] == [(0, "FC"), (1, "FC"), (1, "Relu")]
    assert len(profile.runs) == 2


def test_attached_in_the_middle_of_a_run_it_notes_what_starts_later() -> None:
    class Late(Observer[Operator]):
        def start(self) -> None:
            recorders.append(Recorder(net))

    net = layers()
    recorders: list[Recorder] = []
    net.operators[0].attach(Late())  # pyright: ignore[reportArgumentType] -- an operator's observers see that operator
    net.run()
    (recorder,) = recorders
    recorder.stop()
    profile = recorder.profile()
    assert [one.step.type for one in profile.occurrences] == ["Relu"]
    assert profile.occurrences[0].ready_s is None, "what it waited for was not seen"
    assert profile.runs == ()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("type", ["dag", "async_scheduling"])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_workers_are_lanes(type: str, asynchronous: bool) -> None:
    """Two operators that meet in the middle of their work ran in two threads at once."""
    net = net_of([mix(name, ["a"], [name]) for name in ("b", "c")] + [mix("d", ["b", "c"], ["d"])], type)
    meeting = threading.Barrier(2, timeout=LONG_S)
    with watching() as watch, Recorder(net) as recorder:
        watch.plans.update(b=meeting.wait, c=meeting.wait)
        if asynchronous:
            net.run_async().wait()
        else:
            net.run()
    profile = recorder.profile()
    b, c, d = sorted(profile.occurrences, key=lambda one: one.step.position)
    assert b.lane != c.lane
    assert max(b.start_s, c.start_s) < min(b.end_s, c.end_s)
    assert d.ready_s == max(b.end_s, c.end_s) <= d.start_s
    ((start_s, end_s),) = profile.runs
    assert start_s == b.ready_s == c.ready_s
    assert d.end_s <= end_s
    assert len(profile.by_lane()) == 2
    net.close()


@pytest.mark.usefixtures("device")
def test_waits_for_threads_are_no_work() -> None:
    net = net_of([mix("b", ["a"], ["b"]), mix("c", ["b"], ["c"])])

    def wait() -> None:
        start_s = time.perf_counter()
        time.sleep(2e-3)
        note_wait(start_s, time.perf_counter())

    with watching() as watch, Recorder(net) as recorder:
        watch.plans["c"] = wait
        note_wait(0.0, 1.0)  # before the run: nobody's
        net.run()
    b, c = recorder.profile().by_operator()
    assert b.waited_s == 0
    assert c.waited_s >= 2e-3
    assert 0 < c.total_s
    (occurrence,) = [one for one in recorder.profile().occurrences if one.waits]
    assert occurrence.time_s == pytest.approx(occurrence.end_s - occurrence.start_s - c.waited_s)
    kinds = [span.kind for span in recorder.profile().timeline(idle=False).spans]
    assert kinds == [SpanKind.COMPUTE, SpanKind.COMPUTE, SpanKind.WAIT, SpanKind.COMPUTE]


def test_waits_for_a_budget_are_seen() -> None:
    net = layers()
    net.run()
    budget = ThreadBudget(1)
    budget.take(1)
    with Recorder(net) as recorder:
        thread = threading.Thread(target=lambda: net.operators[0].run(None, budget))
        thread.start()
        while not budget.wanted:
            time.sleep(1e-4)
        budget.give(1)
        thread.join()
    (one,) = recorder.profile().occurrences
    assert len(one.waits) == 1
    assert 0 < one.waited_s < one.end_s - one.start_s


# -- devices -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def fetching(device: None) -> Generator[None]:
    """Have an operator `TestFetch` that copies from the device to the host."""
    del device
    fetch = schema(
        "TestFetch",
        "Y = X, on the host.",
        inputs=[blob("X", dims="*S")],
        outputs=[blob("Y", like="X", host=True)],
        no_gradient=ends("a test"),
    )

    class Fetch:
        scratch_bytes = 0
        capturable = False

        def bind(self, operands: Operands) -> Call:
            X, Y = operands.tensors["X"], operands.tensors["Y"]
            assert isinstance(X, Tensor)
            assert isinstance(Y, Tensor)
            stream, source, target = operands.context.stream, X.array, Y.array
            assert stream is not None
            return lambda: stream.submit(lambda: np.copyto(target, source))

    @fetch.cost
    def cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
        del op
        return Cost(0, X.nbytes, Y.nbytes)

    def prepare(op: OpView, context: object, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del op, context, inputs, outputs
        return Fetch()

    fetch.copies()
    del cost
    launcher(fetch, engine=TEST_ENGINE, device="cuda")(prepare)
    yield
    SCHEMAS.unregister("TestFetch")
    KERNELS.unregister(("TestFetch", "cuda", TEST_ENGINE))


@pytest.mark.usefixtures("fetching")
@pytest.mark.parametrize("type", ["async_scheduling", "dag"])
def test_operators_of_a_device_are_measured_on_its_streams(type: str) -> None:
    """Queueing takes no time; the work does, and the second operator starts when the first has ended."""
    on_device = DeviceOption(device_type=1, device_id=0)
    ops = [mix("b", ["a"], ["b"], device=0), mix("c", ["b"], ["c"], device=0)]
    ops.append(operator_def("TestFetch", ["c"], ["d"], device=on_device))
    net = net_of(ops, type)
    with watching() as watch, Recorder(net) as recorder:
        watch.plans.update(b=lambda: time.sleep(2e-3), c=lambda: time.sleep(1e-3))
        net.run()
    profile = recorder.profile()
    b, c, d = profile.occurrences
    assert b.time_s >= 2e-3
    assert c.time_s >= 1e-3
    assert b.start_s < b.end_s <= c.start_s < c.end_s <= d.start_s <= d.end_s
    (start_s, end_s) = profile.runs[0]
    assert start_s <= b.start_s
    assert d.end_s <= end_s
    assert b.lane == c.lane
    assert b.lane.startswith("cuda:0 normal ")
    assert d.lane.startswith("cuda:0 high ")
    assert (b.kind, d.kind) == (SpanKind.COMPUTE, SpanKind.COPY)
    assert profile.by_operator()[2].copied_bytes == 15 * 8
    net.close()


@pytest.mark.usefixtures("device")
def test_the_stream_of_an_operator_is_its_lane() -> None:
    net = net_of([mix("b", ["a"], ["b"], device=0)])
    default = current_context(CUDAPlace(0)).stream
    assert default is not None
    other = type(default)(CUDAPlace(0), 77)
    with watching(), Recorder(net) as recorder:
        net.run()
        with streaming(other):
            net.run()
        default.synchronize()
        other.synchronize()
        lanes = [one.lane for one in recorder.profile().occurrences]
    assert lanes == [default.name, other.name]


@pytest.mark.usefixtures("device")
def test_a_device_that_fails_is_profiled_all_the_same() -> None:
    net = net_of([mix("b", ["a"], ["b"], device=0)], "async_scheduling")

    def fail() -> None:
        raise ValueError("a failing kernel")

    with watching() as watch, Recorder(net) as recorder:
        watch.plans["b"] = fail
        with pytest.raises(ValueError, match="a failing kernel"):
            net.run()
        del watch.plans["b"]
        net.run()
    assert [one.run for one in recorder.profile().occurrences] == [0, 1]


# -- whole profiles ----------------------------------------------------------------------------------------------------


def test_a_profile_says_what_it_cost() -> None:
    profile = profile_net(layers(), runs=3)
    assert (len(profile.runs), len(profile.plain_s)) == (3, 3)
    assert [row.count for row in profile.by_operator()] == [3, 3]
    assert profile.overhead is not None
    assert "while nobody looks: profiling adds" in profile.headline()
    assert profile.type == "simple"
    with pytest.raises(ArgumentError, match="runs >= 1"):
        profile_net(layers(), runs=0)


def test_a_plan_tells_its_own_times(tmp_path: Path) -> None:
    model = Model("planned")
    hidden = model.relu(model.fc("x", "y", 3, 4), "z")
    scores = model.fc(hidden, "u", 4, 2)
    model.net.add("Print", scores, [])
    model.net.add_external_output(model.softmax(scores, "v"))
    workspace = Workspace()
    workspace.run_net_once(model.init_net.export())
    workspace.feed("x", np.ones((2, 3), np.float32))
    definition = model.net.export()
    definition.type = "plan"
    net = workspace.create_net(definition)
    profile = profile_net(net, runs=2)
    rows = profile.by_operator()
    assert all(row.count == 2 for row in rows)
    assert "Print" in {row.name.split()[0] for row in rows}, "what is not compiled is observed"
    assert all(row.total_s > 0 for row in rows)
    steps = {one.step.type: one for one in profile.occurrences}
    fused = next(one for one in steps.values() if len(one.step.fused_from) > 1)
    assert fused.cost is not None
    assert fused.cost.flops > 2 * 2 * 3 * 4 - 1
    for run in range(2):
        found = [one for one in profile.occurrences if one.run == run]
        assert all(a.end_s <= b.start_s for a, b in pairwise(found))
        assert any(a.end_s == b.start_s for a, b in pairwise(found)), "end to end within a part"
        assert profile.runs[run][0] <= found[0].start_s
        assert found[-1].end_s <= profile.runs[run][1]
    assert all(not operator.observers for operator in net.operators)
    path = tmp_path / "plan.json"
    write_trace(path, profile.timeline())
    assert json.loads(path.read_text())["traceEvents"]


def test_arrays_are_not_kept() -> None:
    """A recorder keeps numbers, not what blobs held."""
    import gc
    import weakref

    net = layers()
    recorder = Recorder(net)
    net.run()
    held = weakref.ref(net)
    recorder.stop()
    profile = recorder.profile()
    net.close()
    del net, recorder
    gc.collect()
    assert held() is None
    assert len(profile.occurrences) == 2


def test_kernels_see_plain_arrays(recwarn: pytest.WarningsRecorder) -> None:
    """Profiling changes nothing of what is computed."""
    results: list[Array] = []
    for observed in (False, True):
        net = layers()
        recorder = Recorder(net) if observed else None
        for _ in range(3):
            net.run()
        found = net.workspace.get_blob("z")
        assert found is not None
        results.append(found.tensor().plain().copy())
        if recorder is not None:
            recorder.stop()
    assert np.array_equal(results[0], results[1])
    assert not recwarn.list
