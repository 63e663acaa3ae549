"""One run of the tasks of a net by several workers.

A task is *ready* when what it waits for has ended, *open* until it has ended itself. A worker runs a task, releases the
tasks that waited for it, goes on with the most urgent one that is ready, and wakes others only for work that is worth
it: handing a task to another thread costs some ten microseconds. The thread that calls `work` first is a worker too.

A task of a device with streams is *launched* when its operators have queued their work, and ends when its event does.
Tasks on the same kind of device follow at the launch, since streams wait for each other; others follow at the end.

The first error, a cancellation or a deadline *stops* the run: no operator starts after that, those that run are
drained, and then the run ends with that error.

Changing state, all of it under `_lock`: `_left` (what each task waits for), the squads (heaps of what is ready),
`_open`, `_busy` (tasks being run, or launched and not ended), `_runner`, `_error`, `_sleeper` (the thread that waits
for the run, while nothing is ready for it). Invariant: a task is run by one worker, and a run ends exactly once.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from itertools import count

import numpy as np

from tazza.device import Context, Event, Stream, current_context, streaming
from tazza.errors import TazzaError
from tazza.nets.executor.policy import Policy
from tazza.nets.executor.task import Task
from tazza.nets.run import Run
from tazza.runtime.budget import ThreadBudget
from tazza.runtime.log import logger
from tazza.runtime.threads import at_most_threads
from tazza.runtime.workers import WorkerPool
from tazza.tensor import CPUPlace, Place

WORTH_S = 40e-6
"""From how many seconds on a task is worth waking another worker."""
POLL_S = 20e-6
"""Pause between two rounds of asking events."""


@dataclass(frozen=True, slots=True)
class Crew:
    """Who works for a net: a pool of threads for each place, of which `size` at most work at once.

    `budget` are the threads that operators share, None where each runs on one; `most` bounds those of one operator.
    """

    pools: Mapping[Place, WorkerPool]
    size: int
    budget: ThreadBudget | None
    most: int = 0


class Halt(Exception):
    """Leaves the operators of a task that do not start any more."""


class Squad:
    """The workers of one place in one run: what is `ready` there, and how many threads are at work or woken."""

    __slots__ = ("pool", "ready", "workers")

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.ready: list[tuple[float, int, Task]] = []
        self.workers = 0


class Execution:
    """A run under way. `ended(error, done)` is called once, with the number of operators that ran."""

    def __init__(
        self,
        tasks: Sequence[Task],
        crew: Crew,
        policy: Policy,
        run: Run | None,
        ended: Callable[[BaseException | None, int], None],
    ) -> None:
        """Make what has no parents ready."""
        self._tasks = tasks
        self._runner = [0] * len(tasks)  # the thread that runs a task
        self._crew = crew
        self._most = crew.most
        self._policy = policy
        self._run = run
        self._ended = ended
        self._lock = threading.Lock()
        self._left = [task.parents for task in tasks]
        self._order = count()
        self._squads = {place: Squad(pool) for place, pool in crew.pools.items()}
        self._hosts = self._squads[CPUPlace()]
        self._hosts.workers = 1  # whoever calls `work` first
        self._open = len(tasks)
        self._busy = 0
        self._done = 0
        self._error: BaseException | None = None
        self._stopped = False
        self._finished = False
        self._pending: list[Task] = []
        self._sleeper: threading.Lock | None = None
        for task in tasks:
            if task.parents == 0:
                self._push(task)

    # -- workers -------------------------------------------------------------------------------------------------------

    def work(self, squad: Squad | None = None) -> None:
        """Run tasks of a place, of the CPU by default, until none is ready; the thread was counted as a worker."""
        squad = self._hosts if squad is None else squad
        with np.errstate(all="ignore"), at_most_threads(self._most):  # Caffe2 lets NaN and infinity pass
            host = current_context(CPUPlace())
            task = self._next(None, squad)
            while task is not None:
                self._perform(task, host)
                task = self._next(task, squad)

    def work_to_the_end(self) -> None:
        """Work as `work` does, and return when the run has ended: for the thread that waits for it."""
        while True:
            try:
                self.work()
                bell = self._lie_down()
                if bell is None:
                    return
                self._sleep(bell)
            except BaseException as error:  # KeyboardInterrupt between two operators: drain, and end with it
                self._drop(error)

    def _drop(self, error: BaseException) -> None:
        """Stop, and count the task that this thread was about to run, or had run, as ended."""
        self.stop(error)
        mine = threading.get_ident()
        with self._lock:
            self._hosts.workers += 1
            for number, thread in enumerate(self._runner):
                if thread == mine:
                    self._settle(self._tasks[number])
            over = self._is_over()
        if over:
            self._finish()

    def _lie_down(self) -> threading.Lock | None:
        """Say that this thread sleeps until it is woken; None when the run has ended."""
        with self._lock:
            if self._finished:
                return None
            bell = threading.Lock()
            bell.acquire()
            if self._hosts.ready:
                self._hosts.workers += 1
                bell.release()
            else:
                self._sleeper = bell
            return bell

    def _sleep(self, bell: threading.Lock) -> None:
        left = None if self._run is None or self._stopped else self._run.left_s
        if bell.acquire(timeout=-1 if left is None else left):
            return
        with self._lock:
            late = self._sleeper is bell
            if late:
                self._sleeper = None
                self._hosts.workers += 1
        if late:
            self._check()
        else:
            bell.acquire()

    def _check(self) -> bool:
        """Whether the run may go on; stops it where its holder says so."""
        reason = None if self._run is None else self._run.why_stop()
        if reason is not None:
            self.stop(reason)
        return not self._stopped

    def stop(self, error: BaseException) -> None:
        """Start no operator any more; the first error is the run's. Ends the run when nobody runs anything."""
        with self._lock:
            if self._error is None and not self._finished:
                self._error = error
            first, self._stopped = not self._stopped, True
            for squad in self._squads.values():
                squad.ready.clear()
            over = self._is_over()
        if over:
            self._finish()
        elif first:
            for task in self._tasks:
                if task.blocking:
                    for operator in task.operators:
                        operator.cancel()

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _push(self, task: Task) -> None:
        heappush(self._squads[task.place].ready, (-task.priority, next(self._order), task))

    def _next(self, former: Task | None, squad: Squad) -> Task | None:
        """Take what is most urgent, after `former` was run; with None, the thread is a worker no more."""
        polls = self._policy.waits == "poll"
        while True:
            with self._lock:
                if former is not None:
                    self._settle(former)
                    former = None
                task = self._take(squad)
                over = task is None and self._is_over()
                asks = polls and task is None and not over and bool(self._pending)
                if task is None and not asks:
                    squad.workers -= 1
                woken = self._wanted(squad, task)
            for one in woken:
                self._wake(one)
            if over:
                self._finish()
            if not asks:
                return task
            self._ask_events()

    def _settle(self, task: Task) -> None:
        """Count a task as run: ended, where it was not launched on a device."""
        self._runner[task.number] = 0
        if not task.asynchronous:
            self._busy -= 1
            self._end(task)

    def _end(self, task: Task) -> None:
        self._open -= 1
        if not self._stopped:
            for child in task.children:
                if not self._followed(task, child):
                    self._release(child)

    def _followed(self, task: Task, child: Task) -> bool:
        """Whether a child follows at the launch of a task, since its stream waits."""
        return task.asynchronous and child.asynchronous and task.place.kind == child.place.kind and not self._waits

    @property
    def _waits(self) -> bool:
        return self._policy.waits == "chain"

    def _release(self, task: Task) -> None:
        self._left[task.number] -= 1
        if self._left[task.number] == 0:
            self._push(task)

    def _take(self, squad: Squad) -> Task | None:
        if not squad.ready:
            return None
        task = heappop(squad.ready)[2]
        self._runner[task.number] = threading.get_ident()
        self._busy += 1
        return task

    def _wanted(self, squad: Squad | None, task: Task | None) -> list[Squad]:
        """Return the squads to wake a worker of, one for each, while a worker of `squad` runs `task`.

        That worker goes on with what is ready in its own squad, so others are woken only for work that is worth it.
        """
        found: list[Squad] = []
        for other in self._squads.values():
            if not other.ready:
                continue
            wanted = len(other.ready)
            if other is squad and task is not None:
                wanted = 0 if task.serial_s < WORTH_S else sum(one.serial_s >= WORTH_S for _, _, one in other.ready)
            wakes = min(wanted, self._crew.size - other.workers)
            if wakes > 0:
                other.workers += wakes
                found.extend([other] * wakes)
        return found

    def _wake(self, squad: Squad) -> None:
        bell = None
        if squad is self._hosts:
            with self._lock:
                bell, self._sleeper = self._sleeper, None
        if bell is not None:
            bell.release()
        else:
            squad.pool.submit(partial(self.work, squad))

    def _is_over(self) -> bool:
        """Whether this thread is the one that has to finish the run."""
        if self._finished or self._busy or (self._open and not self._stopped):
            return False
        self._finished = True
        return True

    def _finish(self) -> None:
        self._ended(self._error, self._done)
        with self._lock:
            bell, self._sleeper = self._sleeper, None
        if bell is not None:
            bell.release()

    # -- running one ---------------------------------------------------------------------------------------------------

    def _perform(self, task: Task, host: Context) -> None:
        try:
            if task.asynchronous:
                self._launch(task, host)
            else:
                self._run_operators(task, host)
        except Halt:
            self._halted(task)
        except BaseException as error:  # an interrupt too: the run ends with it, once the others are drained
            self._failed(task, error)

    def _run_operators(self, task: Task, host: Context) -> None:
        budget = self._crew.budget
        start = time.perf_counter()
        try:
            task.strand.run(host, budget, self._halt)
        finally:
            self._done += task.strand.done  # a count for messages: two threads may lose one of each other's
        seconds = time.perf_counter() - start
        task.note(seconds, seconds if budget is None else task.strand.serial_s)

    def _halt(self) -> None:
        """Raise where no operator may start any more."""
        if self._stopped or (self._run is not None and not self._check()):
            raise Halt

    def _failed(self, task: Task, error: BaseException) -> None:
        if isinstance(error, TazzaError):
            error.add_context(f"on thread {threading.current_thread().name!r}")
        self._halted(task)
        self.stop(error)

    def _halted(self, task: Task) -> None:
        """A task that queues work on a device ends here and not with an event: wait for what it has queued."""
        if task.asynchronous and task.stream is not None:
            self._drain(task.stream)
            with self._lock:
                self._busy -= 1

    @staticmethod
    def _drain(stream: Stream) -> None:
        """Wait for what a task queued before it failed; what that work raises in turn is of no interest."""
        try:
            stream.synchronize()
        except Exception:
            logger.debug("work on stream %s failed behind an error", stream.name)

    # -- devices with streams ------------------------------------------------------------------------------------------

    def _launch(self, task: Task, host: Context) -> None:
        """Queue the work of a task on its stream, after the events of what it follows."""
        stream = task.stream
        assert stream is not None, "asynchronous tasks have one"
        with streaming(stream):
            context = current_context(task.place)
            for parent in task.followed:
                if parent.stream is not stream and not self._waits:
                    stream.wait_for(parent.event)
            self._run_operators(task, host)
            task.event = event = Event()
            context.record(event)
        self._launched(task, event)

    def _launched(self, task: Task, event: Event) -> None:
        if self._waits:
            self._wait_here(event)
            self._arrived(task, event)
            return
        with self._lock:
            if not self._stopped:
                for child in task.children:
                    if self._followed(task, child):
                        self._release(child)
            if self._policy.waits == "poll":
                self._pending.append(task)
        if self._policy.waits == "event":
            event.on_done(lambda done: self._arrived(task, done))

    @staticmethod
    def _wait_here(event: Event) -> None:
        try:
            event.wait()
        except Exception:
            return  # `_arrived` takes it from the event

    def _arrived(self, task: Task, event: Event) -> None:
        """The event of a task has ended: let others follow, in threads of their own where there is more than one."""
        if event.error is not None:
            error = event.error
            if isinstance(error, TazzaError):
                error.add_context(f"found on stream {task.stream}")
            self.stop(error)
        with self._lock:
            self._busy -= 1
            self._end(task)
            over = self._is_over()
            woken = self._wanted(None, None)
        for one in woken:
            self._wake(one)
        if over:
            self._finish()

    def _ask_events(self) -> None:
        with self._lock:
            pending, self._pending = self._pending, []
        left = [task for task in pending if not task.event.query()]
        with self._lock:
            self._pending.extend(left)
        for task in pending:
            if task not in left:
                self._arrived(task, task.event)
        if len(left) == len(pending):
            time.sleep(POLL_S)
            self._check()
