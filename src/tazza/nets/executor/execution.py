"""One run of the tasks of a net by several workers.

A task is *ready* when what it waits for has ended, *open* until it has ended itself. A worker runs a task, releases the
tasks that waited for it, goes on with the most urgent one that is ready, and wakes others only for work that is worth
it: handing a task to another thread costs some ten microseconds. The thread that calls `work` first is a worker too;
one that waits for the run (`work_to_the_end`) works at every post, so that a run ends even where all threads of a
pool wait for runs of other nets.

A task of a device with streams is *launched* when its operators have queued their work, and ends when its event does.
Tasks on the same kind of device follow at the launch, since streams wait for each other; others follow at the end.

The first error, a cancellation or a deadline *stops* the run: no operator starts after that, those that run are
drained, and then the run ends with that error.

Changing state, all of it under `_lock`: `_left` (what each task waits for), the ready queues,
`_open`, `_runner` (for each task the thread that runs it, `LAUNCHED`, or 0), `_busy` (how many of these are not 0),
`_error`, `_sleeper` (the thread that waits for the run, while nothing is ready for it) and `_wake_reason` (what it was
woken for), `_finished` (nothing runs any more), `_notifier` (the thread that runs the callbacks of the end) and
`_notified` (they have run).
Invariant: a task is run by one worker, and a run ends exactly once. An interrupt (Ctrl-C) may stop the thread that
waits for the run between any two calls: whatever it may have begun and not ended is found in `_runner`, `_canceller`
(the thread that asks operators which wait to give up) and `_notifier`, and is brought to an end by `_drop`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count

import numpy as np

from tazza.device import Context, Event, current_context, streaming
from tazza.device.event import recorded
from tazza.errors import TazzaError
from tazza.nets.executor.policy import Policy
from tazza.nets.executor.settling import await_event, drain, recover
from tazza.nets.executor.task import HOST, ChainTask
from tazza.nets.executor.workers import ReadyQueue, Workers
from tazza.nets.run import Run
from tazza.runtime.log import logger
from tazza.runtime.threads import at_most_threads
from tazza.tensor import CPUPlace

POLL_S = 20e-6
"""Pause between two rounds of asking events."""
LAUNCHED = -1
"""What stands for the thread of a task whose work is queued on a device."""


class Halt(Exception):
    """Leaves the operators of a task that do not start any more."""


class Execution:
    """A run under way. `ended(error, done)` is called once, with the number of operators that ran."""

    def __init__(
        self,
        tasks: Sequence[ChainTask],
        workers: Workers,
        policy: Policy,
        run: Run | None,
        ended: Callable[[BaseException | None, int], None],
    ) -> None:
        """Make what has no parents ready."""
        self._tasks = tasks
        self._runner = [0] * len(tasks)  # the thread that runs a task
        self._workers = workers
        self._most = workers.most
        self._policy = policy
        self._run = run
        self._ended = ended
        self._lock = threading.Lock()
        self._left = [task.parents for task in tasks]
        self._order = count()
        self._queues = {post: ReadyQueue(pool, post.most(workers.size)) for post, pool in workers.pools.items()}
        self._hosts = self._queues[HOST]
        self._hosts.workers = 1  # whoever calls `work` first
        self._open = len(tasks)
        self._busy = 0
        self._done = 0
        self._error: BaseException | None = None
        self.stopped = False
        """No operator starts any more."""
        self._canceller = 0  # the thread that tells operators which wait to give up
        self._notifier, self._finished, self._notified = 0, False, False
        self._pending: dict[ChainTask, None] = {}  # in the order of their launches
        self._attended = False  # a thread waits for the end
        self._sleeper: threading.Lock | None = None
        self._wake_reason: ReadyQueue | None = None
        if workers.budget is not None:
            workers.budget.reset()
        for task in tasks:
            if task.parents == 0:
                self._push(task)

    # -- workers -------------------------------------------------------------------------------------------------------

    def work(self, queue: ReadyQueue | None = None) -> None:
        """Run tasks of a post, of the host by default, until none is ready; the thread was counted as a worker."""
        queue = self._hosts if queue is None else queue
        with np.errstate(all="ignore"), at_most_threads(self._most):  # Caffe2 lets NaN and infinity pass
            host = current_context(CPUPlace())
            task = self._next(None, queue)
            while task is not None:
                self._perform(task, host)
                task = self._next(task, queue)

    def work_to_the_end(self) -> None:
        """Work as `work` does, for all posts, and return when the run has ended: for the thread that waits for it.

        Raises:
            BaseException: what stopped this thread between two operators (KeyboardInterrupt), after all was drained.
        """
        self._attended = True
        interrupt: BaseException | None = None
        queue: ReadyQueue | None = self._hosts
        while queue is not None:
            try:
                self.work(queue)
                queue = self._await_work()
            except BaseException as error:
                interrupt = error
                self._drop(error)
                queue = self._hosts
        if interrupt is not None:
            try:
                raise interrupt
            finally:
                del interrupt  # the traceback would keep it alive in a cycle

    def _drop(self, error: BaseException) -> None:
        """Stop, and count what this thread was about to do, or had done, as ended; it is a worker of the host again."""
        if self._workers.budget is not None:
            self._workers.budget.lift()  # this thread may have taken some and not given them back
        with self._lock:
            self._sleeper = None
            self._hosts.workers += 1
        self.settle(error)

    def settle(self, error: BaseException) -> None:
        """Stop with `error` what an interrupt kept this thread from, and end what it had begun."""
        mine = threading.get_ident()
        self.stop(error)
        with self._lock:
            if self._canceller == mine:
                self._canceller = 0
            for number, thread in enumerate(self._runner):
                if thread == mine:
                    self._leave(self._tasks[number])
            over = self._is_over() or (self._notifier == mine and not self._notified)
        if over:
            self._finish()

    def _await_work(self) -> ReadyQueue | None:
        """Sleep until a post wants this thread as a worker; None when the run has ended."""
        gate = threading.Lock()
        gate.acquire()
        with self._lock:
            if self._notified:
                return None
            for queue in self._queues.values():
                if queue.ready and queue.called:
                    queue.called -= 1  # this thread comes instead
                    return queue
                if queue.ready and queue.workers < queue.most:
                    queue.workers += 1
                    return queue
            handed = self._finished and self._notifier == 0
            if handed:
                self._notifier = threading.get_ident()
            else:
                self._sleeper = gate
        if handed:
            self._finish()
            return None
        return self._sleep(gate)

    def _sleep(self, gate: threading.Lock) -> ReadyQueue | None:
        left = None if self._run is None or self.stopped else self._run.left_s
        woken = gate.acquire(timeout=-1 if left is None else min(left, threading.TIMEOUT_MAX))
        with self._lock:
            late = self._sleeper is gate
            if late:
                self._sleeper = None
                self._hosts.workers += 1
        if late:
            self._check()
            return self._hosts
        if not woken:
            gate.acquire()  # it opens at this moment
        with self._lock:
            reason, self._wake_reason = self._wake_reason, None
        return self._await_work() if reason is None else reason

    def _check(self) -> bool:
        """Whether the run may go on; stops it where its holder says so."""
        reason = None if self._run is None else self._run.why_stop()
        if reason is not None:
            self.stop(reason)
        return not self.stopped

    def stop(self, error: BaseException) -> None:
        """Start no operator any more; the first error is the run's. Ends the run when nobody runs anything."""
        with self._lock:
            first = not (self.stopped or self._finished)
            if first:
                self._error, self._canceller, self.stopped = error, threading.get_ident(), True
                for queue in self._queues.values():
                    queue.ready.clear()
            elif not (self._finished or isinstance(error, Exception)) and isinstance(self._error, Exception):
                self._error = error  # an interrupt is never lost
        if first:
            try:
                self._cancel_waiting()
            finally:
                self._canceller = 0
        with self._lock:
            over = self._is_over()
        if over:
            self._finish()

    def _cancel_waiting(self) -> None:
        """Ask operators that may wait for something to give up; the run does not end before all were asked."""
        for task in self._tasks:
            if task.blocking:
                for operator in task.operators:
                    try:
                        operator.cancel()
                    except Exception:
                        logger.exception("%r could not be cancelled", operator)

    # -- tasks ---------------------------------------------------------------------------------------------------------

    def _push(self, task: ChainTask) -> None:
        heappush(self._queues[task.post].ready, (-task.priority, next(self._order), task))

    def _next(self, former: ChainTask | None, queue: ReadyQueue) -> ChainTask | None:
        """Take what is most urgent, after `former` was run; with None, the thread is a worker no more."""
        polls = self._policy.waits == "poll"
        while True:
            with self._lock:
                if former is not None:
                    self._settle(former)
                    former = None
                task = self._take(queue)
                over = task is None and self._is_over()
                asks = polls and task is None and not over and bool(self._pending)
                if task is None and not asks:
                    queue.workers -= 1
                woken = self._wanted(queue, task)
            for one in woken:
                self._wake(one)
            if over:
                self._finish()
            if not asks:
                return task
            self._ask_events()

    def _settle(self, task: ChainTask) -> None:
        """Count a task as run: ended, where it was not launched on a device."""
        if not task.asynchronous and self._leave(task):
            self._end(task)

    def _leave(self, task: ChainTask) -> bool:
        """Say that nobody runs a task any more; False when that was said before."""
        if self._runner[task.number] == 0:
            return False
        self._runner[task.number] = 0
        self._busy -= 1
        return True

    def _end(self, task: ChainTask) -> None:
        self._open -= 1
        if not self.stopped:
            for child in task.children:
                if not self._followed(task, child):
                    self._release(child)

    def _followed(self, task: ChainTask, child: ChainTask) -> bool:
        """Whether a child follows at the launch of a task, since its stream waits."""
        return task.asynchronous and child.asynchronous and task.place.kind == child.place.kind and not self._waits

    @property
    def _waits(self) -> bool:
        return self._policy.waits == "chain"

    def _release(self, task: ChainTask) -> None:
        self._left[task.number] -= 1
        if self._left[task.number] == 0:
            self._push(task)

    def _take(self, queue: ReadyQueue) -> ChainTask | None:
        if not queue.ready:
            return None
        task = heappop(queue.ready)[2]
        self._runner[task.number] = threading.get_ident()
        self._busy += 1
        return task

    def _wanted(self, queue: ReadyQueue | None, task: ChainTask | None) -> list[ReadyQueue]:
        """Return the queues to wake a worker of, one for each, while a worker of `queue` runs `task`.

        That worker goes on with what is ready in its own queue, so others are woken only for work that is worth it.
        """
        found: list[ReadyQueue] = []
        for other in self._queues.values():
            if not other.ready:
                continue
            wanted = len(other.ready)
            if other is queue and task is not None:
                worth_s = self._workers.worth_s
                wanted = 0 if task.serial_s < worth_s else sum(one.serial_s >= worth_s for _, _, one in other.ready)
                if task.blocking and wanted == 0:  # what it waits for may depend on a task however small
                    wanted = 1
            wakes = min(wanted, other.most - other.workers)
            if wakes > 0:
                other.workers += wakes
                found.extend([other] * wakes)
        return found

    def _wake(self, queue: ReadyQueue) -> None:
        """Let another thread work for a queue, which counts it already: the one that sleeps, else one of the pool."""
        if self._wake_sleeper(queue):
            return
        with self._lock:
            queue.called += 1
        try:
            queue.pool.submit(partial(self._come, queue))
        except RuntimeError as error:  # closed, or the system has no more threads: those that are there do the work
            with self._lock:
                queue.called -= 1
                queue.workers -= 1
                lost = bool(queue.ready) and queue.workers == 0 and not self._attended
            if lost:
                self.stop(error)

    def _come(self, queue: ReadyQueue) -> None:
        with self._lock:
            late = queue.called == 0
            queue.called -= not late
        if not late:
            self.work(queue)

    def _wake_sleeper(self, queue: ReadyQueue | None) -> bool:
        """Wake the thread that waits for the run, if it sleeps, to work for a queue, or to see that the run is over."""
        with self._lock:
            gate, self._sleeper = self._sleeper, None
            if gate is None:
                return False
            self._wake_reason = queue
        gate.release()
        return True

    def _is_over(self) -> bool:
        """Whether this thread is the one that has to finish the run."""
        if self._finished or self._busy or self._canceller or (self._open and not self.stopped):
            return False
        self._notifier, self._finished = threading.get_ident(), True  # in one step: see `settle`
        return True

    def _finish(self) -> None:
        error, self._error = self._error, None  # its traceback leads here: a cycle
        if error is not None:
            recover({task.stream for task in self._tasks if task.stream is not None})
        self._ended(error, self._done)
        with self._lock:
            self._notified = True
        self._wake_sleeper(None)

    def _hand_over(self) -> None:
        """Let another thread finish the run: this one belongs to a device, which it must not call."""
        if self._attended:
            with self._lock:
                self._notifier = 0
            self._wake_sleeper(None)
            return
        try:
            self._hosts.pool.submit(self._finish)
        except RuntimeError:
            self._finish()

    # -- running one ---------------------------------------------------------------------------------------------------

    def _perform(self, task: ChainTask, host: Context) -> None:
        try:
            if self.stopped:
                raise Halt
            if task.asynchronous:
                self._launch(task, host)
            else:
                self._run_operators(task, host)
        except Halt:
            self._halted(task)
        except BaseException as error:  # an interrupt too: the run ends with it, once the others are drained
            self._failed(task, error)

    def _run_operators(self, task: ChainTask, host: Context) -> None:
        budget = self._workers.budget
        start = time.perf_counter()
        try:
            task.bound.run(host, budget, self._halt, piecewise=self._run is not None)
        finally:
            self._done += task.bound.done  # a count for messages: two threads may lose one of each other's
        seconds = time.perf_counter() - start
        task.note(seconds, seconds if budget is None else task.bound.serial_s)

    def _halt(self) -> None:
        """Raise where no operator may start any more."""
        if self.stopped or not self._check():
            raise Halt

    def _failed(self, task: ChainTask, error: BaseException) -> None:
        if isinstance(error, TazzaError):
            error.add_context(f"on thread {threading.current_thread().name!r}")
        elif isinstance(error, Exception):
            error.add_note(f"on thread {threading.current_thread().name!r}")
        self.stop(error)
        self._halted(task)

    def _halted(self, task: ChainTask) -> None:
        """A task that queues work on a device ends here and not with an event: wait for what it has queued."""
        if task.asynchronous and task.stream is not None:
            drain(task.stream)
            self._arrived(task, None)

    # -- devices with streams ------------------------------------------------------------------------------------------

    def _launch(self, task: ChainTask, host: Context) -> None:
        """Queue the work of a task on its stream, after the events of what it follows."""
        stream = task.stream
        assert stream is not None, "asynchronous tasks have one"
        with streaming(stream):
            context = current_context(task.place)
            for parent in task.followed:
                if parent.stream is not stream and not self._waits:
                    stream.wait_for(parent.event)
            self._run_operators(task, host)
            task.event = event = recorded(context)
        self._launched(task, event)

    def _launched(self, task: ChainTask, event: Event) -> None:
        if self._waits:
            await_event(event)
            self._arrived(task, event)
            return
        with self._lock:
            if not self.stopped:
                for child in task.children:
                    if self._followed(task, child):
                        self._release(child)
            self._runner[task.number] = LAUNCHED
            if self._policy.waits == "poll":
                self._pending[task] = None
        if self._policy.waits == "event":
            event.on_done(lambda done: self._arrived(task, done, called_back=True))

    def _arrived(self, task: ChainTask, event: Event | None, *, called_back: bool = False) -> None:
        """The work of a task has ended: let others follow, in threads of their own where there is more than one."""
        error = None if event is None else event.error
        if error is not None:
            if isinstance(error, TazzaError):
                error.add_context(f"found on stream {task.stream}")
            self.stop(error)
        with self._lock:
            left = self._leave(task)
            self._pending.pop(task, None)
            if not left:
                return  # another thread has seen it
            self._end(task)
            over = self._is_over()
            woken = self._wanted(None, None)
        for one in woken:
            self._wake(one)
        if over and called_back:
            self._hand_over()
        elif over:
            self._finish()

    def _ask_events(self) -> None:
        with self._lock:
            asked = list(self._pending)
        ended = [task for task in asked if task.event.query()]
        for task in ended:
            self._arrived(task, task.event)
        if not ended:
            time.sleep(POLL_S)
            self._check()
