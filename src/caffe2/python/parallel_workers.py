"""Functions that run again and again in threads of their own, until they are stopped."""

from __future__ import annotations

import atexit
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

log = logging.getLogger("parallel_workers")
log.setLevel(logging.INFO)
LOG_INT_SECS = 60
_JOIN_S = 5.0


class Metrics:
    """Sums by name, which loggers of the caller are shown."""

    def __init__(self, external_loggers: Iterable[Any] | None) -> None:
        """Begin with none."""
        self._loggers = [] if external_loggers is None else list(external_loggers)
        self._metrics: defaultdict[str, float] = defaultdict(int)

    def reset_metrics(self) -> None:
        """Forget all sums."""
        self._metrics = defaultdict(int)

    def log_metrics(self) -> None:
        """Show the sums to the loggers; one that raises is named and passed over."""
        for one in self._loggers:
            try:
                one.log(self._metrics)
            except Exception as error:  # a logger of the caller does not end a worker
                print(f"Failed to call ExternalLogger: {error}")

    def put_metric(self, key: str, value: float, count: bool = True) -> None:
        """Add to a sum, and one to its count."""
        self._metrics[key] += value
        if count:
            self._metrics[f"{key}_count"] += 1


class State:
    """What starts, stops and is cleaned up with workers."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""

    def cleanup(self) -> None:
        """Let go of what is left, after all workers have ended."""


class WorkerCoordinator:
    """The workers of one name."""

    def __init__(
        self,
        worker_name: str,
        worker_ids: list[int],
        init_fun: Callable[..., Any] | None,
        state: State | None = None,
        shutdown_fun: Callable[[], Any] | None = None,
    ) -> None:
        """Note what is called when they start and stop."""
        self._active, self._started = True, False
        self._workers: list[threading.Thread] = []
        self._worker_name, self._worker_ids = worker_name, worker_ids
        self._init_fun, self._state, self._shutdown_fun = init_fun, state, shutdown_fun

    def is_active(self) -> bool:
        """Whether workers go on."""
        return self._active

    def init(self, global_coordinator: GlobalWorkerCoordinator) -> None:
        """Call the function of the caller that comes before the start."""
        if self._init_fun is not None and not self._started:
            self._init_fun(self, global_coordinator)

    def _start(self) -> None:
        if self._started:
            return
        self._active = self._started = True
        if self._state is not None:
            self._state.start()
        for one in self._workers:
            one.daemon = True
            one.start()

    def _stop(self, reason: str | None = None) -> None:
        self._active = False
        if reason is not None:
            log.error("Data input failed due to an error: %s", reason)
        if self._shutdown_fun is not None and self._started:
            self._shutdown_fun()
        if self._state is not None:
            self._state.stop()
        self._started = False

    def _wait_finish(self, cleanup: Any = None) -> bool:
        del cleanup
        latest_s = time.monotonic() + _JOIN_S
        for one in self._workers:
            if one is not threading.current_thread() and one.ident is not None:
                one.join(max(latest_s - time.monotonic(), 0.0))  # one that waits for input may never end
        alive = [one.name for one in self._workers if one.is_alive()]
        if alive:
            log.warning("of the workers of %r these have not ended: %s", self._worker_name, ", ".join(alive))
        elif self._state is not None:
            self._state.cleanup()
        return not alive

    def get_worker_ids(self) -> list[int]:
        """Return the numbers of its workers."""
        return self._worker_ids


class GlobalWorkerCoordinator:
    """All workers of the process."""

    def __init__(self) -> None:
        """Begin with none; what is left when Python ends is stopped."""
        self._coordinators: list[WorkerCoordinator] = []
        self._worker_ids: list[int] = []
        self.register_shutdown_handler()

    def add(self, coordinator: WorkerCoordinator) -> None:
        """Take in workers."""
        self._coordinators.append(coordinator)

    def get_new_worker_id(self) -> int:
        """Return a number that no worker has."""
        self._worker_ids.append(len(self._worker_ids))
        return self._worker_ids[-1]

    def get_worker_ids(self) -> list[int]:
        """Return all numbers that were given."""
        return self._worker_ids

    def start(self) -> None:
        """Start all workers, after what comes before the start of each."""
        for one in self._coordinators:
            one.init(self)
        for one in self._coordinators:
            one._start()  # pyright: ignore[reportPrivateUsage]

    def stop(self) -> bool:
        """Stop all workers; whether all have ended."""
        stopped, self._coordinators = self._coordinators, []
        for one in stopped:
            one._stop()  # pyright: ignore[reportPrivateUsage]
        return all([one._wait_finish() for one in stopped])  # pyright: ignore[reportPrivateUsage]

    def stop_coordinator(self, worker_name: str) -> None:
        """Stop the workers of a name."""
        for one in self._coordinators:
            if one._worker_name == worker_name:  # pyright: ignore[reportPrivateUsage]
                one._stop()  # pyright: ignore[reportPrivateUsage]
                one._wait_finish()  # pyright: ignore[reportPrivateUsage]
        kept = [one for one in self._coordinators if one._worker_name != worker_name]  # pyright: ignore[reportPrivateUsage]
        self._coordinators = kept

    def register_shutdown_handler(self) -> None:
        """Stop all workers when Python ends."""
        atexit.register(self.stop)


class Worker:
    """One call of the caller's function after the other."""

    def __init__(
        self,
        coordinator: WorkerCoordinator,
        worker_id: int,
        worker_fun: Callable[[int], Any] | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """Note the function, which is given the worker's number."""
        self._coordinator, self._worker_id = coordinator, worker_id
        self._worker_fun, self._metrics = worker_fun, metrics
        self._start_time = 0.0

    def start(self) -> None:
        """Begin a call."""
        self._start_time = time.time()

    def run(self) -> None:
        """Call the function."""
        assert self._worker_fun is not None
        self._worker_fun(self._worker_id)

    def handle_exception(self, e: Exception) -> None:
        """Tell what the function raised, and stop the workers of this name."""
        log.error("worker %d: %s", self._worker_id, e, exc_info=e)
        self._coordinator._stop(f"Exception in worker {self._worker_id}: {e}")  # pyright: ignore[reportPrivateUsage]

    def finish(self) -> None:
        """Note how long the call took."""
        if self._metrics is not None:
            self._metrics.put_metric("worker_time", time.time() - self._start_time)
            self._metrics.log_metrics()


global_coordinator = GlobalWorkerCoordinator()


def init_workers(
    worker_fun: Callable[[int], Any],
    num_worker_threads: int = 2,
    worker_name: str = "train",
    init_fun: Callable[..., Any] | None = None,
    external_loggers: Iterable[Any] | None = None,
    shutdown_fun: Callable[[], Any] | None = None,
) -> GlobalWorkerCoordinator:
    """Make workers of a function, which start with all others of the process."""
    metrics = Metrics(external_loggers)
    ids = [global_coordinator.get_new_worker_id() for _ in range(num_worker_threads)]
    made = WorkerCoordinator(worker_name, ids, init_fun, shutdown_fun=shutdown_fun)
    made._workers = [  # pyright: ignore[reportPrivateUsage]
        threading.Thread(
            target=run_worker,
            name=f"parallel_workers worker id {number}",
            args=[made, Worker(made, number, worker_fun, metrics)],
        )
        for number in ids
    ]
    global_coordinator.add(made)
    return global_coordinator


def run_worker(coordinator: WorkerCoordinator, worker: Worker) -> None:
    """Run a worker until it is stopped."""
    while coordinator.is_active():
        worker.start()
        try:
            worker.run()
        except Exception as error:  # whatever the caller's function raises stops its workers
            worker.handle_exception(error)
        finally:
            worker.finish()
