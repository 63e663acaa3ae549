"""Batches for a net from functions that fetch them, on threads of their own.

    coordinator = init_data_input_workers(model, ["data", "label"], fetch, 32, input_source_name="train")
    coordinator.start()

`fetch(worker_id, batch_size)` returns an array for each blob. What fetchers give waits in a queue of the source; a
thread for each net and device cuts it into batches and puts these into queues that the net reads. A fetcher that fails
closes them, so that whoever runs the net gets an error with the reason.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from caffe2.python import core, scope
from caffe2.python._extension_workspace import check_device, fed
from caffe2.python.parallel_workers import (
    GlobalWorkerCoordinator,
    Metrics,
    State,
    Worker,
    WorkerCoordinator,
    run_worker,
)
from tazza.errors import ClosedError
from tazza.models.feeding import LOOK_S, Arrays, Batches, Chunks, check_chunk
from tazza.ops.control.blobs_queue import BlobsQueue
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.workspace import Workspace, current_workspace

log = logging.getLogger("data_workers")
log.setLevel(logging.INFO)
LOG_INT_SECS = 60
_QUEUE_CAPACITY = 4
"""Batches that wait in front of a net."""


def get_worker_ids(num_workers: int) -> list[int]:
    """Return the numbers of so many workers."""
    return list(range(num_workers))


def init_data_input_workers(
    net: Any,
    input_blob_names: Any,
    fetch_fun: Callable[[int, int], Any],
    batch_size: int,
    num_worker_threads: int = 2,
    input_source_name: str = "train",
    max_buffered_batches: int = 800,
    init_fun: Callable[..., Any] | None = None,
    external_loggers: Iterable[Any] | None = None,
    dont_rebatch: bool = False,
    batch_columns: Sequence[int] | None = None,
    timeout: float = 600,
) -> GlobalCoordinator:
    """Let a net read batches that `fetch_fun` fetches; returns the coordinator whose `start` starts all threads.

    Args:
        net: a net, or a model; operators that read are added to it, in the scopes of names and devices in force.
        input_blob_names: the blobs that get a batch in each run.
        fetch_fun: is called with the number of its thread and the batch size; gives an array for each blob, or None for
            nothing at this time.
        batch_size: rows of a batch.
        num_worker_threads: threads that fetch.
        input_source_name: nets and devices of one source share what is fetched.
        max_buffered_batches: fetched chunks that wait at most.
        init_fun: called before the threads start, with their coordinator and that of the process.
        external_loggers: have `log(metrics)`, which is called with sums of times.
        dont_rebatch: give to the net what was fetched as it is.
        batch_columns: the axis of the rows of each blob; 0 by default.
        timeout: seconds that a run waits for a batch at most.

    Raises:
        ArgumentError: a batch without rows, no room for a chunk, or not one axis for each blob.
    """
    names = [input_blob_names] if isinstance(input_blob_names, str) else list(input_blob_names)
    device = scope.CurrentDeviceScope()
    metrics = Metrics(external_loggers)
    feeder = BatchFeeder(
        net,
        names,
        batch_size,
        core.DeviceOption(0) if device is None else device,
        scope.CurrentNameScope(),
        input_source_name,
        global_coordinator.get_queue(input_source_name, max_buffered_batches),
        metrics,
        dont_rebatch,
        batch_columns,
        timeout=timeout,
    )
    ids = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    coordinator = WorkerCoordinator(input_source_name, ids, init_fun, feeder)
    workers = [
        threading.Thread(
            target=run_worker,
            name=f"data_workers fetcher id {number}",
            args=[coordinator, DataWorker(coordinator, number, fetch_fun, metrics, batch_size, feeder)],
        )
        for number in ids
    ]
    name = f"Enqueuer {input_source_name} {scope.CurrentNameScope()}"
    workers.append(threading.Thread(target=enqueuer, name=name, args=[coordinator, feeder]))
    coordinator._workers = workers  # pyright: ignore[reportPrivateUsage]
    global_coordinator.add(coordinator)
    return global_coordinator


class _WhileThere(Patience):
    """Waits for room in a queue as long as the workspace has it: nobody reads from one that is there no more."""

    __slots__ = ("_queue", "_workspace", "name")

    def __init__(self, name: str, queue: BlobsQueue, workspace: Workspace) -> None:
        super().__init__(f"for the queue {name!r}")
        self.name, self._queue, self._workspace = name, queue, workspace

    def look(self) -> None:
        found = self._workspace.get_blob(self.name)
        if found is None or found.value is not self._queue:
            raise ClosedError(f"the workspace has the queue {self.name!r} no more", hint="it was reset")

    def wait(self, turn: Conditional, *, most_s: float | None = None) -> None:
        self.look()
        super().wait(turn, most_s=LOOK_S if most_s is None else most_s)


class BatchFeeder(State):
    """Puts batches into the queues that a net reads."""

    def __init__(
        self,
        net: Any,
        input_blob_names: Sequence[Any],
        batch_size: int,
        device_option: Any,
        namescope: str,
        input_source_name: str,
        queue: Chunks,
        metrics: Metrics,
        dont_rebatch: bool,
        batch_columns: Sequence[int] | None,
        timeout: float = 600,
    ) -> None:
        """Make the queues, and the operators that read them; see `init_data_input_workers`."""
        self._input_blob_names = list(input_blob_names)
        self._names = [str(name) for name in input_blob_names]
        self._batch_columns = [0] * len(self._names) if batch_columns is None else list(batch_columns)
        self._batches = None if dont_rebatch else Batches(self._names, batch_size, self._batch_columns)
        self._batch_size, self._dont_rebatch = batch_size, dont_rebatch
        self._internal_queue, self._metrics = queue, metrics
        self._device_option, self._namescope = device_option, namescope
        self._input_source_name, self._timeout = input_source_name, timeout
        self._c2_queue_capacity = _QUEUE_CAPACITY
        self._inputs, self._counted, self._prev_seconds = 0, 0, time.time()
        self._why = ""
        self._workspace = current_workspace()
        self._create_caffe2_queues(net)
        self._create_caffe2_ops(net)

    # -- queues --------------------------------------------------------------------------------------------------------

    def _create_caffe2_queues(self, net: Any) -> None:
        del net
        self._queues = [self._scoped(name, "c2queue") for name in self._names]
        self._scratch_blob = {name: self._scoped(name, "scratch") for name in self._names}
        for queue in self._queues:
            made = core.CreateOperator("CreateBlobsQueue", [], [queue], num_blobs=1, capacity=self._c2_queue_capacity)
            self._workspace.run_operator(made)
        self._waiting = [self._workspace.blob(str(queue)).get(BlobsQueue) for queue in self._queues]

    def _scoped(self, name: str, what: str) -> Any:
        return core.BlobReference(f"{self._namescope}{name}_{what}_{self._input_source_name}")

    def _create_caffe2_ops(self, net: Any) -> None:
        for name, queue in zip(self._input_blob_names, self._queues, strict=True):
            net.DequeueBlobs(queue, name, timeout_secs=float(self._timeout))

    # -- beginning and end ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to count."""
        self._inputs, self._counted, self._prev_seconds = 0, 0, time.time()

    def failed(self, why: str) -> None:
        """Note what went wrong, which whoever runs the net is told."""
        self._why = self._why if self._why else why

    def stop(self) -> None:
        """Close the queues: the net can read what is in them, and then fails with the reason."""
        why = self._why if self._why else f"the data workers of {self._input_source_name!r} were stopped"
        for waiting in self._waiting:  # also where the workspace was reset, and has them no more
            waiting.close(why)
        self._internal_queue.wake()
        self._log_inputs_per_interval(0, force=True)

    def is_of(self, namescope: str, name: str) -> bool:
        """Whether it feeds nets of a scope from a source."""
        return (self._namescope, self._input_source_name) == (namescope, name)

    def reset(self, net: Any, batch_size: int) -> None:
        """Let another net read too, and give batches of another size from now on."""
        self._batch_size = batch_size
        self._create_caffe2_ops(net)

    def cleanup(self) -> None:
        """Let go of what lies between."""
        for name in self._scratch_blob.values():
            if self._workspace.has_blob(str(name)):
                self._workspace.reset_blob(str(name))

    # -- chunks and batches --------------------------------------------------------------------------------------------

    def _validate_chunk(self, chunk: Any) -> bool:
        """Whether there is a chunk; one that does not fit the blobs is an error."""
        if chunk is None:
            return False
        check_chunk(chunk, self._names, None if self._dont_rebatch else self._batch_columns)
        return True

    def put(self, chunk: Any, data_input_coordinator: Any) -> None:
        """Put what was fetched where it waits for its turn; None is passed over."""
        if self._validate_chunk(chunk):
            self._internal_queue.put(list(chunk), data_input_coordinator.is_active)
        else:
            time.sleep(LOOK_S / 10)  # else a fetcher that has nothing would take a processor

    def _get(self, data_input_coordinator: Any) -> Arrays | None:
        return self._internal_queue.take(data_input_coordinator.is_active)

    def enqueue(self, data_input_coordinator: Any) -> None:
        """Put the next batch into the queues; what is wrong with it closes them, and stops the workers."""
        try:
            if self._dont_rebatch:
                self._enqueue_batch_direct(data_input_coordinator)
            else:
                self._enqueue_batch(data_input_coordinator)
        except Exception as error:  # whatever it is, whoever runs the net has to learn of it
            self.failed(f"{type(error).__name__}: {error}")
            log.error("%s", self._why, exc_info=error)
            data_input_coordinator._stop(self._why)

    def _enqueue_batch_direct(self, data_input_coordinator: Any) -> None:
        chunk = self._get(data_input_coordinator)
        if chunk is not None:
            self._enqueue_all(chunk)

    def _enqueue_batch(self, data_input_coordinator: Any) -> None:
        batches = self._batches
        assert batches is not None
        batches.size = self._batch_size
        batch = batches.take()
        while batch is None:
            chunk = self._get(data_input_coordinator)
            if chunk is None:
                return
            batches.add(chunk)
            batch = batches.take()
        self._enqueue_all(batch)

    def _enqueue_all(self, arrays: Arrays) -> None:
        begin = time.time()
        for place, array in enumerate(arrays):
            self._enqueue(place, array)
        self._metrics.put_metric("enqueue_time", time.time() - begin)
        self._log_inputs_per_interval(arrays[0].shape[self._batch_columns[0]] if arrays and arrays[0].ndim else 1)

    def _enqueue(self, place: int, array: Any) -> None:
        scratch = str(self._scratch_blob[self._names[place]])
        patience = _WhileThere(str(self._queues[place]), self._waiting[place], self._workspace)
        check_device(self._device_option)
        patience.look()
        self._workspace.feed(scratch, fed(array))
        self._waiting[place].write([self._workspace.blob(scratch)], patience)  # or it is closed

    def _log_inputs_per_interval(self, inputs: int, force: bool = False) -> None:
        self._inputs += inputs
        passed_s = time.time() - self._prev_seconds
        if not force and passed_s < LOG_INT_SECS:
            return
        rate = int((self._inputs - self._counted) / passed_s) if passed_s > 0 else 0
        log.info("%s/%s: %d inputs/sec", self._input_source_name, self._namescope, rate)
        log.info("-- queue: %d batches", len(self._internal_queue))
        for key, value in (
            ("inputs_per_sec", rate),
            ("queue_size", len(self._internal_queue)),
            ("time_elapsed", passed_s),
        ):
            self._metrics.put_metric(key, value, count=False)
        self._metrics.log_metrics()
        self._metrics.reset_metrics()
        self._prev_seconds, self._counted = time.time(), self._inputs


class GlobalCoordinator(GlobalWorkerCoordinator):
    """All data workers of the process, and the queues of their sources."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self._queues: dict[str, Chunks] = {}

    @property
    def _fetcher_id_seq(self) -> int:
        """The number of the next fetcher."""
        return len(self._worker_ids)

    def get_queue(self, queue_name: str, max_buffered_batches: int) -> Chunks:
        """Return the queue of a source; the first who asks says how many chunks it holds."""
        if queue_name not in self._queues:
            self._queues[queue_name] = Chunks(max_buffered_batches)
        return self._queues[queue_name]

    def reset_data_input(self, namescope: str, name: str, net: Any, batch_size: int) -> None:
        """Let another net read the batches of a source and scope, with another size from now on."""
        log.info("Reset data input %s, batch size %d: ", name, batch_size)
        for one in self._coordinators:
            feeder = one._state  # pyright: ignore[reportPrivateUsage]
            if isinstance(feeder, BatchFeeder) and feeder.is_of(namescope, name):
                feeder.reset(net, batch_size)


class DataWorker(Worker):
    """Fetches."""

    def __init__(
        self,
        coordinator: WorkerCoordinator,
        worker_id: int,
        worker_fun: Callable[[int, int], Any],
        metrics: Metrics,
        batch_size: int,
        batch_feeder: BatchFeeder,
    ) -> None:
        """Call `worker_fun` with the number of the worker and the batch size."""
        super().__init__(coordinator, worker_id, metrics=metrics)
        self.batch_size = batch_size
        self._fetch, self._batch_feeder = worker_fun, batch_feeder
        self._fetched_in_s = 0.0

    def run(self) -> None:
        """Fetch once."""
        fetched = self._fetch(self._worker_id, self.batch_size)
        self._fetched_in_s = time.time() - self._start_time
        self._batch_feeder.put(fetched, self._coordinator)

    def handle_exception(self, e: Exception) -> None:
        """Tell whoever runs the net what the fetcher raised, and stop the workers of this name."""
        name = getattr(self._fetch, "__qualname__", type(self._fetch).__name__)
        self._batch_feeder.failed(f"fetcher {self._worker_id}, {name}, raised {type(e).__name__}: {e}")
        super().handle_exception(e)

    def finish(self) -> None:
        """Note how long it fetched."""
        if self._metrics is not None:
            self._metrics.put_metric("fetcher_time", self._fetched_in_s)


global_coordinator = GlobalCoordinator()


def enqueuer(coordinator: WorkerCoordinator, batch_feeder: BatchFeeder) -> None:
    """Put batches into the queues of the net until the workers are stopped."""
    while coordinator.is_active():
        batch_feeder.enqueue(coordinator)
