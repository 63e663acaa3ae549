"""Procedures: several nets, and the steps that say in which order, how often and until when they run (`PlanDef`).

A step runs nets, or steps, in turn or side by side (`concurrent_substeps`); once, `num_iter` times, or until
`should_stop_blob` is true, which is looked at after each net and each step. With `create_workspace` it runs in a
workspace of its own, below the other; nets that it makes there go with it. A step with `run_every_ms` runs again and
again beside the others of its parent, as `report_net` does beside its step, every `report_interval` seconds.
With `num_concurrent_instances` each of its steps runs that often, all side by side; nets of its own run in turn.

Nets are made in the workspace of the first step that runs them, in place of those of their names, and stay there.

Where one step fails, or Ctrl-C comes, what runs beside it is asked to stop: it ends behind the operator that runs, or
at once where that waits. The error names the step, its round and the net.

Constant state: the message. `_Run` belongs to one call. Which of its nets run, and its first error, change under its
lock: a net begins before that error, and is told of it, or does not begin.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from tazza.device import Event
from tazza.errors import ArgumentError, DTypeError, NetError, NotFoundError, TazzaError
from tazza.nets import NetBase, create_net
from tazza.nets.run import Run
from tazza.proto import ExecutionStep, NetDef, PlanDef
from tazza.runtime.log import logger
from tazza.runtime.workers import start_thread, waiting_for_others
from tazza.tensor import Tensor
from tazza.workspace import Workspace


def run_procedure(definition: PlanDef, workspace: Workspace) -> None:
    """Run the steps of a procedure, one after the other.

    >>> from tazza.operator import operator_def
    >>> count = NetDef(name="count", op=[operator_def("Iter", [], ["n"])])
    >>> workspace = Workspace()
    >>> thrice = ExecutionStep(network=["count"], num_iter=3)
    >>> run_procedure(PlanDef(network=[count], execution_step=[thrice]), workspace)
    >>> workspace.fetch("n")
    array([3])

    Raises:
        NetError: two nets of one name, or a step with both nets and steps.
        NotFoundError: a step names a net that is not there, or a blob that says when to stop and is not there.
        TazzaError: the first error of a net, with the step that ran it; what runs beside that is cancelled.
    """
    run = _Run(definition, workspace)
    nets = _Nets(run, workspace)
    try:
        for step in definition.execution_step:
            _bound(step, nets, ())()
    finally:
        nets.close()
        run.renew()


def run_in_background(definition: PlanDef, workspace: Workspace) -> Run:
    """Run a procedure in a thread of its own; the future holds what it raises."""
    copy = PlanDef()
    copy.CopyFrom(definition)
    future = Run(f"procedure {definition.name}")

    def work() -> None:
        try:
            run_procedure(copy, workspace)
        except BaseException as error:
            future.end(error)
        else:
            future.end(None)

    start_thread(threading.Thread(target=work, name=f"tazza-procedure-{definition.name}", daemon=True))
    return future


_Path = tuple[tuple[object, int], ...]
"""At each floor where steps run side by side: the whole that they belong to, and which one of them it is."""


def _at_once(one: _Path, other: _Path) -> bool:
    """Whether two steps may run at the same time: they are parts of one whole, and not the same part.

    >>> _at_once((("a", 0),), (("a", 1),)), _at_once((("a", 0),), (("a", 0), ("b", 1)))
    (True, False)
    >>> _at_once((("a", 0),), (("b", 1),))  # one whole runs behind the other
    False
    """
    parted = next((pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), None)
    return parted is not None and parted[0][0] == parted[1][0]


class _Run:
    """One run of a procedure: what its nets are, and whether something failed."""

    def __init__(self, definition: PlanDef, workspace: Workspace) -> None:
        self._nets: dict[str, NetDef] = {}
        for net in definition.network:
            if net.name in self._nets:
                raise NetError(
                    f"procedure {definition.name!r} has two nets called {net.name!r}",
                    hint="names of nets tell them apart",
                )
            self._nets[net.name] = net
        self._replaced = {name for name in self._nets if name in workspace.nets()}
        self._lock = threading.Lock()
        self._running: dict[NetBase, str] = {}
        self._told: list[NetBase] = []
        self.error: BaseException | None = None

    @property
    def failed(self) -> bool:
        """Whether nothing begins any more."""
        return self.error is not None

    def act(self, net: NetBase, where: str) -> None:
        """Run a net, unless something failed; `where` says in errors what it is part of."""
        try:
            with self._lock:
                if self.error is not None:
                    return
                self._running[net] = where
            net.run()
        except BaseException as error:
            if isinstance(error, TazzaError):
                error.add_context(f"in {where}")
            else:
                error.add_note(f"in {where}")
            raise
        finally:
            self._running.pop(net, None)

    def fail(self, error: BaseException) -> None:
        """Let nothing begin any more, and ask what runs to stop; an interrupt takes the place of an error."""
        with self._lock:
            if self.error is None or isinstance(self.error, Exception) > isinstance(error, Exception):
                self.error = error
            told = dict(self._running)
            self._told += told
        if not isinstance(error, Exception):
            for where in told.values():
                error.add_note(f"while there was {where}")
        for net in told:
            try:
                net.cancel_waiting()
            except Exception:
                logger.exception("net %r could not be asked to stop", net.name)

    def renew(self) -> None:
        """Make those nets anew that stay and were asked to stop: it is not meant for their next run."""
        for net in dict.fromkeys(self._told):
            home = net.workspace
            if isinstance(home, Workspace) and net.name in home.nets() and home.net(net.name) is net:
                home.create_net(net.definition, overwrite=True)

    def definition(self, step: ExecutionStep, name: str) -> NetDef:
        """Return the net that a step names."""
        found = self._nets.get(name)
        if found is None:
            raise NotFoundError(
                f"step {step.name!r} runs the net {name!r}, which the procedure does not have",
                hint=f"nets: {', '.join(self._nets)}",
            )
        return found

    def kept(self, definition: NetDef, workspace: Workspace) -> NetBase:
        """Return a net that stays in a workspace, made where it is not there yet, or was there before this run."""
        name = definition.name
        with self._lock:
            if name in self._replaced:
                self._replaced.discard(name)
                return workspace.create_net(definition, overwrite=True)
            return workspace.net(name) if name in workspace.nets() else workspace.create_net(definition)


class _Nets:
    """The nets that steps run in one workspace.

    Steps that run in turn share the net of a name, which stays there. What runs at the same time has a net of its own,
    over the same blobs, for as long as this is open.
    """

    def __init__(self, run: _Run, workspace: Workspace) -> None:
        self.run = run
        self.workspace = workspace
        self._lock = threading.Lock()
        self._used: dict[str, list[tuple[list[_Path], NetBase]]] = {}

    def net(self, step: ExecutionStep, name: str, path: _Path) -> NetBase:
        """Return the net of a name, for a step of that path."""
        definition = self.run.definition(step, name)
        with self._lock:
            used = self._used.setdefault(name, [])
            for others, net in used:
                if not any(_at_once(path, other) for other in others):
                    others.append(path)
                    return net
            made = create_net(definition, self.workspace) if used else self.run.kept(definition, self.workspace)
            used.append(([path], made))
            return made

    def close(self) -> None:
        """Forget the nets that do not stay."""
        for used in self._used.values():
            for _, net in used[1:]:
                net.close()


class _Step:
    """A step, bound to a workspace: its nets are made, its steps bound in turn."""

    def __init__(self, definition: ExecutionStep, nets: _Nets, path: _Path) -> None:
        if definition.substep and definition.network:
            raise NetError(f"step {definition.name!r} has nets and steps", hint="put the nets into a step of their own")
        if definition.HasField("should_stop_blob") and definition.HasField("num_iter"):
            raise ArgumentError(
                f"step {definition.name!r} has num_iter and should_stop_blob", hint="a step runs so often, or until"
            )
        self._run = nets.run
        self._definition = definition
        beside_it = object()  # the whole of this step and what runs beside it
        again = [one for one in definition.substep if one.HasField("run_every_ms")]
        beside = [
            (one.run_every_ms / 1000, _bound(one, nets, (*path, (beside_it, count)))) for count, one in enumerate(again)
        ]
        if definition.HasField("report_net"):
            if not definition.HasField("report_interval"):
                raise ArgumentError(f"step {definition.name!r} has a report_net without report_interval")
            report = nets.net(definition, definition.report_net, (*path, (beside_it, len(again))))
            where = f"the report of step {definition.name!r}, net {report.name!r}"
            beside.append((float(definition.report_interval), partial(nets.run.act, report, where)))
        self._beside = beside
        own = (*path, (beside_it, len(beside))) if beside else path
        instances = max(definition.num_concurrent_instances, 1)
        work = [one for one in definition.substep if not one.HasField("run_every_ms") for _ in range(instances)]
        self._at_once = (definition.concurrent_substeps or instances > 1) and len(work) > 1
        self._steps = [
            _bound(one, nets, (*own, (self, count)) if self._at_once else own) for count, one in enumerate(work)
        ]
        self._nets = [nets.net(definition, name, own) for name in definition.network]
        # Behind the nets, any of which may make it.
        self._stop = nets.workspace.blob(definition.should_stop_blob) if definition.should_stop_blob else None

    def run(self) -> None:
        """Run it as often as it says."""
        with self._company():
            for number in self._rounds():
                if self._at_once:
                    self._side_by_side()
                    if self._stopped():
                        return
                    continue
                for act in (*self._steps, *(partial(self._act, net, number) for net in self._nets)):
                    if self._run.failed:
                        return
                    act()
                    if self._stopped():
                        return

    def _act(self, net: NetBase, number: int) -> None:
        self._run.act(net, f"round {number + 1} of step {self._definition.name!r}, net {net.name!r}")

    def _rounds(self) -> Iterator[int]:
        definition = self._definition
        if not definition.HasField("should_stop_blob"):
            return iter(range(definition.num_iter if definition.HasField("num_iter") else 1))
        return iter(range(1)) if definition.only_once else itertools.count()

    def _stopped(self) -> bool:
        """Whether the blob that says so is true; an empty one is not.

        Raises:
            DTypeError: it does not hold one truth value.
            BlobTypeError: it holds no tensor, or a net has freed it: the step would never end.
        """
        if self._stop is None or (self._stop.is_empty and not self._stop.is_freed):
            return False
        found = self._stop.get(Tensor).plain()
        if found.dtype != np.bool_ or found.size != 1:
            raise DTypeError(
                f"step {self._definition.name!r} stops by {self._stop.name!r}, {found.dtype}{list(found.shape)}",
                hint="one truth value (bool) says it",
            )
        return bool(found.ravel()[0])

    def _side_by_side(self) -> None:
        """Run the steps at once, and raise the first error of the run when all have ended."""

        def work(act: Callable[[], None]) -> None:
            try:
                act()
            except BaseException as error:
                self._run.fail(error)

        ended: list[Event] = []
        try:
            ended += (_started(partial(work, act), "tazza-step") for act in self._steps)
            with waiting_for_others():
                for one in ended:
                    one.wait()
        except (
            BaseException
        ) as error:  # an interrupt: what runs works on blobs that are nobody else's until it has ended
            self._run.fail(error)
            for one in ended:
                one.wait()
            raise
        if self._run.error is not None:
            raise self._run.error

    @contextmanager
    def _company(self) -> Generator[None]:
        """Let what runs beside this step do so inside."""
        ended = Event()

        def work(interval_s: float, act: Callable[[], None]) -> None:
            while not ended.wait(interval_s):
                try:
                    act()
                except Exception:
                    logger.exception("what runs beside step %r failed", self._definition.name)

        gone = [_started(partial(work, *each), "tazza-beside-step") for each in self._beside]
        try:
            yield
        finally:
            ended.finish()
            for one in gone:
                one.wait()


def _bound(definition: ExecutionStep, nets: _Nets, path: _Path) -> Callable[[], None]:
    """Return what runs a step: bound now, or anew for each time where it has a workspace of its own."""
    if not definition.create_workspace:
        return _Step(definition, nets, path).run

    def run() -> None:
        outer = nets.workspace
        own = _Nets(nets.run, Workspace(root=outer.root, parent=outer))
        try:
            _Step(definition, own, ()).run()
        finally:
            own.close()

    return run


def _started(work: Callable[[], None], name: str) -> Event:
    """Let a thread of its own do `work`, which raises nothing; the event tells when it has."""
    ended = Event()

    def run() -> None:
        try:
            work()
        finally:
            ended.finish()

    start_thread(threading.Thread(target=run, name=name, daemon=True))
    return ended
