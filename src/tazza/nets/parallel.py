"""Net types whose operators run side by side: one executor (`nets.executor`), and what each type does differently.

    type               waits for a device          threads                     `run_async` returns
    dag, prof_dag      after every chain           of its own                  when the run has ended
    async_dag          when somebody needs it      of its own                  when the run has ended
    async_scheduling   when somebody needs it      shared by nets of one size  at once
    async_polling      by asking again and again   shared by nets of one size  at once
    parallel           when somebody needs it      shared by nets of one size  at once; needs `num_workers`

`prof_dag` also keeps statistics of every operator.

Operators wait for each other where they share a blob and one of them writes it; so every type gives the results of
`simple`, to the last bit: an operator runs on as many threads as there, and draws its own random numbers. Workers share
the threads of the process: operators that run on several do so while others wait, small ones run side by side. The
argument `threads_per_operator` of a NetDef bounds the threads of one operator, for nets with wide graphs; sums may then
be rounded otherwise than by `simple`.

What runs side by side is decided by times. The first runs measure; then tasks for which a second worker would come too
late are merged (`executor.merging`), at the end maybe to one, and the net runs as a `simple` one does.

Copies of a device (what a schema says of itself, `copies`) are queued by one thread and on streams of their own, of
high priority, beside what computes there: a copy from or to the host may block the thread that queues it.

Constant state: the finest tasks and the pools. Changing state, of the one run at a time: the tasks in use, estimates. A
run belongs to an `Execution`. The thread that calls `run` is one of the workers.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from tazza.device import current_context
from tazza.errors import NetError, RunCancelledError, TazzaError
from tazza.graph.dependency import shared_memory, touched_blobs
from tazza.nets.base import NetBase, Owner, net_type, new_owner, progress_note
from tazza.nets.bound_run import BoundRun
from tazza.nets.executor.execution import Execution
from tazza.nets.executor.merging import merged
from tazza.nets.executor.policy import Policy
from tazza.nets.executor.task import HOST, ChainTask, Post, set_priorities, tasks_of
from tazza.nets.executor.workers import Workers
from tazza.nets.run import Run
from tazza.operator import find_argument
from tazza.runtime.budget import ThreadBudget
from tazza.runtime.fork import freed_in_child
from tazza.runtime.openmp import SPIN_S
from tazza.runtime.threads import allowed_cpus, at_most_threads, thread_count
from tazza.runtime.workers import WorkerPool, own_pool
from tazza.tensor import CPUPlace
from tazza.tensor.storage import SHARINGS

MEASURED_RUNS = 5
"""Before this run, tasks are merged by the times of the runs before it."""
RUNS_PER_PRIORITY = 32
"""After so many runs the critical path is computed anew from the times of the tasks."""

WORTH_S = 40e-6
"""From how many seconds on a task is worth waking another worker: handing it over takes some 10 microseconds."""
TEAM_WORTH_S = 2 * SPIN_S + WORTH_S
"""The same where operators run on teams of threads: those look for more work for a while, on the other's processor."""
MEASURING_WORTH_S = 0.5
"""The same in the runs that measure."""

_shared: weakref.WeakValueDictionary[tuple[Post, int], WorkerPool] = weakref.WeakValueDictionary()
_shared_lock = freed_in_child(threading.Lock())


def shared_pool(post: Post, size: int) -> WorkerPool:
    """Return the pool that all nets with `size` workers share for a post."""
    with _shared_lock:
        size = post.most(size)
        found = _shared.get((post, size))
        if found is None:
            found = _shared[post, size] = WorkerPool(size, f"tazza-{post}-{size}")
        return found


def _close_pools(pools: Mapping[Post, WorkerPool], wait: bool) -> None:
    for pool in pools.values():
        pool.close(wait=wait)


class ParallelNet(NetBase):
    """Runs tasks side by side, by the policy of its class."""

    policy: ClassVar[Policy]

    def _create(self, strict: bool) -> None:
        super()._create(strict)
        self._workers = self._worker_count()
        self._most = self._threads_per_operator()
        self._blobs = touched_blobs(self.operators)
        self._sharings, self._shared = SHARINGS.times, shared_memory(self._blobs)
        self._finest = tasks_of(self.operators, self._fused, self._shared)
        self._tasks: list[ChainTask] = self._finest
        self._teams = True  # operators may run on several threads, as far as is known
        self._broken = False
        self._under_way: Execution | None = None
        self._runs = 0
        self._worth_s = WORTH_S
        self._budget: tuple[tuple[int, bool], ThreadBudget | None] = ((0, True), None)
        own = self.policy.own_pool
        name = f"tazza-{self.name}"
        self._pools = {
            post: WorkerPool(post.most(self._workers), f"{name}-{post}") if own else shared_pool(post, self._workers)
            for post in {HOST, *(task.post for task in self._tasks)}
        }
        if own:
            weakref.finalize(self, _close_pools, self._pools, wait=False)

    def _worker_count(self) -> int:
        given = self.definition.num_workers
        if given < 0 or (given == 0 and self.policy.needs_workers):
            raise NetError(
                f"net {self.name!r} of type {self.definition.type!r} has num_workers = {given}",
                hint="num_workers has to be above 0",
            )
        return given if given > 0 else thread_count()

    def _threads_per_operator(self) -> int:
        found = find_argument(self.definition, "threads_per_operator")
        if found is None:
            return 0
        if found.i < 1:
            raise NetError(
                f"net {self.name!r} has threads_per_operator = {found.i}", hint="give a number above 0, or leave it out"
            )
        return found.i

    # -- running -------------------------------------------------------------------------------------------------------

    def _run(self, run: Run | None) -> None:
        self._choose_tasks()
        if run is None and len(self._tasks) == 1 and self._tasks[0].place.is_host:
            self._run_alone(self._tasks[0].bound)
            return
        found: list[BaseException | None] = []
        self._under_way = execution = self._execution(run, found.append)
        try:
            execution.work_to_the_end()
        finally:
            self._under_way = None
            del execution
        error = found[0]
        if error is not None:
            try:
                raise error
            finally:
                del error, found  # the traceback would keep them alive in a cycle

    def _run_alone(self, bound: BoundRun) -> None:
        """Run the one task that all operators were merged to, or always were."""
        try:
            with np.errstate(all="ignore"), at_most_threads(self._most):
                bound.run(current_context(CPUPlace()), check=partial(self.check, None))
        except TazzaError as error:
            progress_note(error, self, bound.done)
            raise

    def run_async(self, *, timeout_s: float | None = None) -> Run:
        """Start a run and return it; it has ended already on return where the type blocks.

        Raises:
            NetError: the net is running already, or closed.
        """
        if self.policy.blocks:
            return super().run_async(timeout_s=timeout_s)
        run = Run(self.name, timeout_s)
        owner = new_owner()
        execution: Execution | None = None
        try:
            self.claim(owner)
            self._present = run
            if self.observers:
                self.start_all()
            self._choose_tasks()
            self._under_way = execution = self._execution(run, lambda error: self._ended_async(run, owner, error))
            run.set_running_or_notify_cancel()
            run.on_cancel(lambda: self._stop(run, execution))
            run.start_clock(lambda: self._stop(run, execution))
            self._pools[HOST].submit(execution.work)
        except BaseException as error:  # no more threads, or an interrupt: the run is over before it began
            if execution is None:
                if self._owner is owner:
                    self._owner = None
                    if self._closed:
                        self._end_once()
                raise
            execution.stop(error)
            if not isinstance(error, Exception):
                raise
        return run

    @staticmethod
    def _stop(run: Run, execution: Execution) -> None:
        reason = run.why_stop()
        if reason is not None:
            try:
                execution.stop(reason)
            except BaseException:  # an interrupt, before the run was told to stop, or before it ended
                execution.settle(reason)
                raise

    def _ended_async(self, run: Run, owner: Owner, error: BaseException | None) -> None:
        if self.observers:
            self.stop_all()
        self._under_way = self._present = None
        try:
            self.disclaim(owner)
        finally:
            run.end(error)

    def _execution(self, run: Run | None, ended: Callable[[BaseException | None], object]) -> Execution:
        def finish(error: BaseException | None, done: int) -> None:
            if isinstance(error, TazzaError):
                progress_note(error, self, done)
            ended(error)

        return Execution(self._tasks, self._workers_now(), self.policy, run, finish)

    def _choose_tasks(self) -> None:
        """Decide which tasks the next run has, and who goes first, by the times of the runs before."""
        if self._sharings != SHARINGS.times:
            self._look_at_memory()
        if self._broken:  # other shapes than those that were measured
            self._broken, self._teams = False, True
            for task in self._finest:
                task.runs = 0
            self._tasks, self._runs = self._finest, 0
        self._runs += 1
        if self._runs == MEASURED_RUNS:
            self._teams = any(task.bound.width > 1 for task in self._tasks)
            self._worth_s = TEAM_WORTH_S if self._teams else WORTH_S
            self._tasks = merged(self._finest, self._worth_s, self._fused)
            for task in self._tasks:
                task.bound.on_break = self._note_break
        elif self._runs < MEASURED_RUNS:
            # Alone, tasks take the time that they need; what takes very long, or may wait for another, is never alone.
            self._worth_s = WORTH_S if self._runs == 1 else MEASURING_WORTH_S
        elif self._runs % RUNS_PER_PRIORITY == 0:
            set_priorities(self._tasks)

    def _look_at_memory(self) -> None:
        """Find tasks anew where other blobs than before share memory."""
        self._sharings, shared = SHARINGS.times, shared_memory(self._blobs)
        if shared != self._shared:
            self._shared = shared
            for task in self._finest:
                task.bound.forget()
            self._tasks = self._finest = tasks_of(self.operators, self._fused, self._shared)
            self._runs = 0

    def _note_break(self) -> None:
        self._broken = True

    def _workers_now(self) -> Workers:
        """Return who works in a run that starts now: the number of threads may have changed since the last one."""
        threads = thread_count()
        key = threads, self._teams
        known, budget = self._budget
        if known != key:
            total = max(threads, min(self._workers, allowed_cpus()))
            shared = self._workers > 1 and ((threads > 1 and self._teams) or self._workers > total)
            budget = ThreadBudget(total) if shared else None
            self._budget = key, budget
        return Workers(self._pools, self._workers, budget, self._most, self._worth_s)

    def check_present(self) -> None:
        """Raise where the present run has to end, another operator's failure included."""
        super().check_present()
        execution = self._under_way
        if execution is not None and execution.stopped:
            raise RunCancelledError(f"an operator of net {self.name!r} failed meanwhile")

    def _stop_run(self) -> None:
        execution = self._under_way
        if execution is not None:
            execution.stop(RunCancelledError(f"net {self.name!r} was closed while it ran"))
        super()._stop_run()

    def _end(self) -> None:
        super()._end()
        for task in getattr(self, "_finest", ()):
            task.bound.forget()
        if self.policy.own_pool:
            _close_pools(getattr(self, "_pools", {}), wait=own_pool() is None)


@net_type("dag", help="side by side on threads of its own; waits for devices after every chain")
class DagNet(ParallelNet):
    """The oldest parallel type."""

    policy = Policy(waits="chain", own_pool=True, blocks=True)


@net_type("async_dag", help="side by side on threads of its own; waits for devices where something needs it")
class AsyncDagNet(ParallelNet):
    """Between `dag` and `async_scheduling`."""

    policy = Policy(waits="event", own_pool=True, blocks=True)


@net_type("async_scheduling", help="side by side on threads that nets share; events instead of waits between devices")
class AsyncSchedulingNet(ParallelNet):
    """The parallel type to take."""

    policy = Policy(waits="event")


@net_type("async_polling", help="as async_scheduling, but free workers ask devices again and again")
class AsyncPollingNet(ParallelNet):
    """For devices that cannot call back."""

    policy = Policy(waits="poll")


@net_type("parallel", help="as async_scheduling, with the number of workers that num_workers has to give")
class CountedNet(ParallelNet):
    """Refuses to guess how many workers."""

    policy = Policy(waits="event", needs_workers=True)
