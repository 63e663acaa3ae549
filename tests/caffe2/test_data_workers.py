"""Data workers: what is fetched arrives once and in order; whatever fails reaches whoever runs the net; all ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from caffe2.python import core, data_parallel_model, data_workers, model_helper, workspace
from tazza.errors import ArgumentError, ClosedError, DeadlineError, TazzaError

Fetch = Callable[[int, int], Any]
COORDINATOR: Any = data_workers.global_coordinator


def always(chunk: Any) -> Fetch:
    """Return what fetches one chunk again and again."""

    def fetch(worker_id: int, batch_size: int) -> Any:
        return chunk

    return fetch


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    COORDINATOR.stop()
    COORDINATOR._queues.clear()
    workspace.ResetWorkspace()


def counted(lengths: tuple[int, ...] = (3, 1, 4, 2)) -> Callable[[int, int], Any]:
    """Return a fetcher of rows that are numbered, in chunks of these lengths; fetchers share the numbers."""
    turn, state = threading.Lock(), {"row": 0, "call": 0}

    def fetch(worker_id: int, batch_size: int) -> Any:
        with turn:
            begin, length = state["row"], lengths[state["call"] % len(lengths)]
            state["row"] += length
            state["call"] += 1
        numbers = np.arange(begin, begin + length)
        return [np.stack([numbers, -numbers], 1).astype(np.float32), numbers]

    return fetch


def reader(fetch: Any, *, names: tuple[str, ...] = ("data", "label"), size: int = 5, **settings: Any) -> Any:
    """Return a model that reads batches, created, with its workers started."""
    model = model_helper.ModelHelper(name="reader")
    settings = {"num_worker_threads": 1, "max_buffered_batches": 3, "timeout": 20, **settings}
    data_workers.init_data_input_workers(model, names, fetch, size, input_source_name="test", **settings).start()
    workspace.CreateNet(model.net)
    return model


def read(model: Any, name: str = "label") -> Any:
    workspace.RunNet(model.net)
    return workspace.FetchBlob(name)


def read_all(model: Any, found: list[int]) -> None:
    while True:
        found += read(model).tolist()


def living() -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith(("data_workers", "Enqueuer"))]


@pytest.mark.parametrize("size", [1, 5, 8])
def test_rows_of_one_fetcher_come_in_order_each_once(size: int) -> None:
    model = reader(counted(), size=size)
    found = [read(model) for _ in range(12)]
    assert all(len(one) == size for one in found)
    np.testing.assert_array_equal(np.concatenate(found), np.arange(12 * size))
    np.testing.assert_array_equal(workspace.FetchBlob("data")[:, 0], found[-1])


def test_chunks_can_stay_as_they_are() -> None:
    model = reader(counted(), dont_rebatch=True)
    assert [len(read(model)) for _ in range(6)] == [3, 1, 4, 2, 3, 1]


def test_rows_can_lie_along_any_axis() -> None:
    def fetch(worker_id: int, batch_size: int) -> Any:
        return [np.zeros((7, 3), np.float32), np.zeros(3, np.int32)]

    model = reader(fetch, batch_columns=[1, 0])
    read(model)
    assert [workspace.FetchBlob(name).shape for name in ("data", "label")] == [(7, 5), (5,)]


def test_fetchers_share_the_work_and_no_row_is_lost_between() -> None:
    model = reader(counted(), num_worker_threads=3)
    rows = np.concatenate([read(model) for _ in range(40)])
    assert len(set(rows.tolist())) == len(rows)
    # A fetcher that sleeps holds its chunk while others go ahead; what is fetched and not yet read lies in the queue.
    held = 3 * 4 + 3 * 5
    assert len({*range(int(rows.max()))} - {*rows.tolist()}) <= held


def test_devices_of_a_model_share_what_is_fetched() -> None:
    model = model_helper.ModelHelper(name="both")
    fetch = counted((6,))

    def inputs(model: Any) -> None:
        settings: dict[str, Any] = {"num_worker_threads": 2, "max_buffered_batches": 2, "input_source_name": "test"}
        data_workers.init_data_input_workers(model, ["data", "label"], fetch, 4, **settings)

    def layers(model: Any, scale: float) -> list[Any]:
        return [model.net.AveragedLoss("data", "loss")]

    data_parallel_model.Parallelize_CPU(model, inputs, layers, param_update_builder_fun=str, devices=[0, 1])
    COORDINATOR.start()
    data_parallel_model.RunInitNet(model)
    rows: list[int] = []
    for _ in range(20):
        data_parallel_model.RunNet(model, 1)
        rows += [*workspace.FetchBlob("cpu_0/label").tolist(), *workspace.FetchBlob("cpu_1/label").tolist()]
    assert len(set(rows)) == len(rows) == 160
    assert COORDINATOR.stop()
    assert living() == []


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def raises(worker_id: int, batch_size: int) -> Any:
    raise OSError("the disk is gone")


BAD: list[tuple[Any, str]] = [
    (raises, r"fetcher \d+, raises, raised OSError: the disk is gone"),
    (always([np.zeros(3)]), "1 arrays for the 2 blobs data, label"),
    (always([np.zeros(3), np.zeros(2)]), "unequal numbers of rows"),
    (always([[1, 2], [3, 4]]), "gave a list for 'data'"),
    (always(np.float32(1)), "TypeError"),
    (always([np.zeros(3), np.array([object()] * 3)]), "test|object"),
]


@pytest.mark.parametrize(("fetch", "text"), BAD)
def test_what_a_fetcher_does_wrong_is_told_to_who_runs_the_net(fetch: Any, text: str) -> None:
    model = reader(fetch, size=2)
    with pytest.raises(ClosedError, match=text):  # at once: it would wait for 20 seconds
        workspace.RunNet(model.net, 1000)
    assert COORDINATOR.stop()
    assert living() == []


def test_rows_of_another_shape_are_told_too() -> None:
    shapes = chain([(3, 2)], repeat((3, 4)))

    def fetch(worker_id: int, batch_size: int) -> Any:
        return [np.zeros(next(shapes)), np.zeros(3)]

    model = reader(fetch, size=4)
    with pytest.raises(ClosedError, match=r"'data' had the shape \[3, 2\] and then \[3, 4\]"):
        workspace.RunNet(model.net)


def test_what_is_in_the_queues_is_read_before_the_error() -> None:
    good = counted((5,))
    calls = iter(range(9))

    def fetch(worker_id: int, batch_size: int) -> Any:
        if next(calls) == 2:
            raise ValueError("the third one")
        return good(worker_id, batch_size)

    model = reader(fetch)
    found: list[int] = []
    with pytest.raises(ClosedError, match="the third one"):
        read_all(model, found)
    assert found == list(range(len(found)))


@pytest.mark.parametrize("full", [False, True])
def test_a_workspace_that_is_reset_ends_the_workers(full: bool) -> None:
    """Also the one that waits for room in a queue which is there no more."""
    reader(counted((5,)))
    (coordinator,) = COORDINATOR._coordinators
    queue = coordinator._state._waiting[-1]
    while full and len(queue) < queue.capacity:
        time.sleep(0.001)
    workspace.ResetWorkspace()
    while living():
        time.sleep(0.001)
    assert not coordinator.is_active()


def test_workers_are_stopped_whose_workspace_was_reset() -> None:
    """Before they learn of it, too."""
    for _ in range(20):
        reader(counted())
        workspace.ResetWorkspace()
        assert COORDINATOR.stop()
        assert living() == []


def test_batches_go_where_the_net_is() -> None:
    """Also when another workspace is current."""
    model = reader(counted((1,)), size=1, max_buffered_batches=1)
    first = int(read(model)[0])
    workspace.SwitchWorkspace("elsewhere", True)
    time.sleep(0.05)
    assert workspace.Blobs() == []
    workspace.SwitchWorkspace("default")
    found = [int(read(model)[0]) for _ in range(20)]
    assert found == list(range(first + 1, first + 21))


# -- bounds and ends ---------------------------------------------------------------------------------------------------


def test_fetchers_run_ahead_by_what_the_queues_hold() -> None:
    calls: list[int] = []

    def fetch(worker_id: int, batch_size: int) -> Any:
        calls.append(worker_id)
        return [np.zeros((2, 3)), np.zeros(2)]

    reader(fetch, num_worker_threads=2, size=2, max_buffered_batches=6)
    time.sleep(0.3)
    assert 10 <= len(calls) <= 6 + 4 + 1 + 2  # both queues, one on its way, one in the hand of each fetcher
    with pytest.raises(ArgumentError, match="room for 0 chunks"):
        COORDINATOR.get_queue("no room", 0)


@pytest.mark.parametrize("fetch", [counted(), always(None), always([np.zeros(0)] * 2)])
def test_stopped_workers_end(fetch: Any) -> None:
    """With full queues, and with empty ones; the net then says that they were stopped."""
    model = reader(fetch, num_worker_threads=4)
    time.sleep(0.1)
    COORDINATOR.stop_coordinator("test")
    assert living() == []
    assert COORDINATOR._coordinators == []
    with pytest.raises(ClosedError, match="the data workers of 'test' were stopped"):
        workspace.RunNet(model.net, 9)


def test_a_net_waits_no_longer_than_it_is_told() -> None:
    model = reader(always(None), timeout=0.1)
    with pytest.raises(DeadlineError, match=r"0\.1 seconds for the queue 'data_c2queue_test'"):
        workspace.RunNet(model.net)


def test_another_net_reads_batches_of_another_size() -> None:
    model = reader(counted((3,)), size=3)
    assert len(read(model)) == 3
    other = core.Net("other")
    COORDINATOR.reset_data_input("", "test", other, 2)
    workspace.CreateNet(other)
    sizes: list[int] = []
    for _ in range(12):
        workspace.RunNet(other)
        sizes.append(len(workspace.FetchBlob("label")))
    assert sizes[-1] == 2
    assert sorted(sizes, reverse=True) == sizes


def test_functions_of_the_caller_are_called() -> None:
    shown: list[dict[str, float]] = []
    begun: list[Any] = []

    def before(*given: Any) -> None:
        begun.append(given)

    class Logger:
        def log(self, metrics: dict[str, float]) -> None:
            shown.append(dict(metrics))

    model = reader(counted(), external_loggers=[Logger()], init_fun=before)
    read(model)
    COORDINATOR.stop()
    assert [len(given) for given in begun] == [2]
    assert {"fetcher_time", "enqueue_time", "inputs_per_sec", "queue_size", "time_elapsed"} <= shown[0].keys()


def test_bad_settings_are_refused_at_once() -> None:
    bad: list[dict[str, Any]] = [{"size": 0}, {"batch_columns": [0]}, {"batch_columns": [0, -1]}]
    for settings in bad:
        with pytest.raises(TazzaError):
            reader(counted(), **settings)


PROGRAM = """
    import sys, threading, time
    import numpy as np
    from caffe2.python import data_workers, model_helper, workspace

    model = model_helper.ModelHelper(name="m")
    fetch = (lambda worker, size: None) if sys.argv[1] == "nothing" else (lambda worker, size: [np.zeros((4, 2))])
    data_workers.init_data_input_workers(model, ["x"], fetch, 4, 3).start()
    workspace.CreateNet(model.net)
    print("ready", flush=True)
    try:
        while True:
            workspace.RunNet(model.net)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("what", ["nothing", "batches"])
def test_ctrl_c_ends_the_net_and_the_process(what: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    command = [sys.executable, str(script), what]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert (output, process.returncode) == ("interrupted\n", 0), errors
