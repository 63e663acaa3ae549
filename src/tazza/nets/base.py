"""Nets: operators bound to a workspace, in the order and by the policy that the net's type says.

Constant state: definition and operators. Who runs a net owns it for that time; two threads must not run one net at
once. Who owns it is told by `_owner`, which changes from nobody to somebody under `_claiming`: an interrupt (Ctrl-C)
may come before or behind that, but whoever owned the net finds out by looking, and gives it back by an assignment, in
which nobody is interrupted.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from tazza.device import Generator, merge
from tazza.errors import InitError, NetError, RunCancelledError, TazzaError
from tazza.graph.verify import check_net
from tazza.nets.device import check_devices
from tazza.nets.explanation import Explanation, StepWatcher, operator_row
from tazza.nets.run import Run
from tazza.operator import BlobOwner, Observable, Operator, find_argument, ignored_text
from tazza.operator.bound_section import Standing
from tazza.operator.owner import NET_MAKER
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.registry import Registry
from tazza.runtime.flags import flag
from tazza.runtime.fork import freed_in_child, in_forked_child
from tazza.runtime.invariance import BATCH_INVARIANT
from tazza.runtime.log import logger
from tazza.runtime.modules import watch
from tazza.runtime.workers import own_pool

DEFAULT_TYPE = "simple"
"""The type of a net that names none."""
OVERRIDES = flag(
    "caffe2_override_executor", "", "net types that others replace, in pairs: dag,simple runs every dag net as simple"
)
AS_PLANS = flag("nets_as_plans", False, "run nets that a workspace keeps as plans, any blob of which can be fetched")
CLOSING_S = 1e-3
"""Who closes a net that runs looks again after this time whether the run has ended."""

Owner = tuple[object, int]
"""Who runs a net, by identity: the process and the thread that began the run."""

_claiming = freed_in_child(threading.Lock())
_process = object()


def _leave_fork() -> None:
    """A forked child: the runs that may have been under way are the parent's."""
    global _process
    _process = object()


in_forked_child(_leave_fork)


def new_owner() -> Owner:
    """Return somebody who may run a net, in the calling thread."""
    return _process, threading.get_ident()


class NetBase(Observable):
    """Base of all net types. A created net is a snapshot: later changes of the NetDef do not reach it."""

    runs_operators: ClassVar[bool] = True
    """Whether a run is that of `operators`, which can be observed; else `watch` tells what its steps are."""
    recalls: ClassVar[bool] = False
    """Whether it has to be told what is asked for (`nets.plan.recall`)."""

    def __init__(
        self,
        definition: NetDef,
        workspace: BlobOwner,
        *,
        strict: bool = False,
        copy: bool = True,
        within: Operator | None = None,
    ) -> None:
        """Check the net as a whole, then make its operators.

        Args:
            definition: what to run.
            workspace: whose blobs it works on. All output blobs are made at once, still empty.
            strict: refuse arguments that a schema does not know; else one line per net tells which.
            copy: keep a copy of the definition, which somebody may change; it may hold all weights of a model.
            within: the operator that runs this net; a run ends where that of the operator's net has to end.

        Raises:
            NetError: a blob is read before anything makes it, or a declared output is never made.
            UnknownOperatorError: nothing computes an operator on the device that it is saved for.
            TazzaError: an operator is not legal; the message names it.
        """
        super().__init__()
        self.definition = deepcopy(definition) if copy else definition
        self.workspace = workspace
        self.within = within
        self.batch_invariant = wants_invariance(self.definition, within)
        self._present: Run | None = None
        self._reported: set[str] = set()
        check_net(self.definition)
        check_devices(self.definition)
        self.operators: list[Operator] = []
        self._pairs: dict[int, Operator] = {}
        self._owner: Owner | None = None
        self._closed = False
        self._ended = False
        try:
            self._create(strict)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self.operators)} operators)"

    def _repr_html_(self) -> str:
        """Return it for a notebook: a row for each operator; `explain()` tells engines and times."""
        from tazza.graph.html import net_html

        return net_html(self.definition, repr(self))

    @property
    def name(self) -> str:
        """The net's name."""
        return self.definition.name

    def by_operators(self) -> NetBase:
        """Return a net on the same blobs run as the definition says: this one, or one that the caller closes."""
        return self

    def _create(self, strict: bool) -> None:
        """Make what `_run` needs; here an operator for each of the definition."""
        for position, op in enumerate(self.definition.op):
            self.operators.append(self._operator(position, op, strict))
        ignored = ignored_text(name for operator in self.operators for name in operator.ignored)
        if ignored:
            self._report_once(ignored, ignored)

    def _operator(self, position: int, definition: OperatorDef, strict: bool) -> Operator:
        return Operator(
            with_device_of(self.definition, definition),
            self.workspace,
            strict=strict,
            report=self._report_once,
            label=f" (operator {position} of net {self.name!r})",
            copy=False,  # the net has its own
            check=self.check_present,
            batch_invariant=self.batch_invariant,
        )

    def _fused(self, position: int, definition: OperatorDef) -> Operator:
        """Return the operator that stands for the one at `position` and the one behind it, made at the first call."""
        if position not in self._pairs:
            self._pairs[position] = self._operator(position, definition, strict=False)
        return self._pairs[position]

    def _report_once(self, key: str, message: str) -> None:
        if key in self._reported:
            return
        self._reported.add(key)
        if self.within is None:
            logger.warning("net %r: %s", self.name, message)
        else:  # the operator may have many such nets
            self.within.report(f"net {self.name!r}: {key}", f"net {self.name!r}: {message}")

    def run(self, *, timeout_s: float | None = None) -> None:
        """Run every operator once and return when all have ended.

        Args:
            timeout_s: how long it may take; a run that takes longer ends at the next operator.

        Raises:
            TazzaError: the first error; every blob stays valid, parameters may be partly updated.
            DeadlineError: it took longer than `timeout_s`.
            NetError: the net is running already, or closed.
        """
        if timeout_s is None:
            self.run_exclusively(self._observed)
            return
        run = Run(self.name, timeout_s)
        owner = new_owner()
        try:
            # A clock that an interrupt left going finds that the run is over.
            run.start_clock(lambda: self.cancel_waiting() if self._owner is owner else None)
            self.run_exclusively(lambda: self._observed(run), owner)
        except Exception as error:
            reason = run.why_stop()
            if reason is None or isinstance(error, (type(reason), NetError)):
                raise
            try:
                raise reason from error  # such as that of an operator which was asked to give up
            finally:
                del reason  # its traceback holds this frame
        finally:
            run.stop_clock()

    def _observed(self, run: Run | None = None) -> None:
        try:
            self._present = run
            if self._observers:
                self.start_all()
            self._run(run)
        finally:
            self._present = None
            if self._observers:
                self.stop_all()

    def run_exclusively(self, work: Callable[[], None], owner: Owner | None = None) -> None:
        """Do `work` as the one run of this net, by a new owner unless one is given.

        Raises:
            NetError: the net is running already, or closed.
        """
        owner = (_process, threading.get_ident()) if owner is None else owner  # no calls: small nets run often
        try:
            if self._closed or not self._taken_by(owner):
                raise self._refusal()
            work()
        finally:
            if self._owner is owner:
                self._owner = None
                if self._closed:
                    self._end_once()

    def claim(self, owner: Owner) -> None:
        """Begin the one run of this net, inside of a `try` whose `finally` or `except` gives it back (`disclaim`).

        Raises:
            NetError: the net is running already, or closed.
        """
        if self._closed or not self._taken_by(owner):
            raise self._refusal()

    def _refusal(self) -> NetError:
        if self._closed:
            return NetError(f"net {self.name!r} is closed", hint="create it again")
        return NetError(f"net {self.name!r} is running already", hint="create a second net, or wait for the first run")

    def _taken_by(self, owner: Owner) -> bool:
        """Give the net to an owner unless it has one in this process; whether it is that owner's now."""
        with _claiming:
            former = self._owner
            if former is None or former[0] is not _process:
                self._owner = owner
        return self._owner is owner

    def disclaim(self, owner: Owner) -> None:
        """End the run, in any thread, if it is this owner's.

        Where an interrupt may come, ask `_owner` and assign instead: there a call may end before it begins.
        """
        if self._owner is owner:
            self._owner = None
            if self._closed:
                self._end_once()

    def _run(self, run: Run | None) -> None:
        """Run all operators; `run` is there when it may be cancelled or has a deadline."""
        raise NotImplementedError

    def run_async(self, *, timeout_s: float | None = None) -> Run:
        """Start a run and return it; types without own threads have ended on return.

        Raises:
            NetError: the net is running already, or closed; other errors are the run's.
        """
        run = Run(self.name, timeout_s)
        error: Exception | None = None
        try:
            self.run_exclusively(lambda: self._begun(run))
        except Exception as found:
            if not run.running():
                raise
            error = found
        run.end(error)
        return run

    def _begun(self, run: Run) -> None:
        run.set_running_or_notify_cancel()
        self._observed(run)

    def watch(self, watcher: StepWatcher) -> None:
        """Tell somebody of every run from now on, step by step, where steps are no operators; see `runs_operators`."""
        raise NetError(f"net {self.name!r} runs its operators", hint="attach observers to these")

    def unwatch(self, watcher: StepWatcher) -> None:
        """Tell somebody no more."""

    def standing(self) -> Standing | None:
        """Return what the last run was, in this thread, where the next one is nothing but the same native calls."""
        return None

    def generators(self) -> dict[str, Generator]:
        """Return the random generators that operators drew from so far, by what tells operators of the net apart."""
        drawn = ((str(position), operator.drawn_from) for position, operator in enumerate(self.operators))
        return {key: generator for key, generator in drawn if generator is not None}

    def restore_generator(self, key: str, state: NDArray[np.int32]) -> None:
        """Let the operator with a key of `generators` draw from a state of its generator on.

        A key that this net would not give, such as one of another net type, changes nothing.

        Raises:
            FormatError: these numbers are no state.
        """
        if key.isdecimal() and int(key) < len(self.operators):
            self.operators[int(key)].generator().restore(state)

    def explain(self, *, times: bool = False) -> Explanation:
        """Return what runs: a row for each step, with the engine and why others were passed over; complete after a run.

        Args:
            times: run the steps once more and say how long each takes, where the net type can.
        """
        del times
        return Explanation(tuple(operator_row(operator) for operator in self.operators))

    def why_missing(self, name: str) -> str | None:
        """Return why a blob of the definition is not in the workspace after a run, or None when it is no such blob."""
        del name
        return None

    def check(self, run: Run | None) -> None:
        """Raise where the present run has to end: before each operator, by those types that look themselves.

        Raises:
            RunCancelledError: it was cancelled, or the net was closed meanwhile.
            DeadlineError: its deadline has passed.
        """
        if self._closed:
            raise RunCancelledError(f"net {self.name!r} was closed while it ran")
        if run is not None:
            run.check()
        if self.within is not None:
            self.within.check()

    def check_present(self) -> None:
        """Raise where the present run has to end: asked by nets within its operators, in any thread of the run.

        Raises:
            RunCancelledError, DeadlineError: as `check`.
        """
        self.check(self._present)

    def close(self) -> None:
        """End what the net keeps between runs; it cannot run afterwards.

        A run that is under way is asked to stop, and waited for. Within that run, and in threads that work for nets,
        this returns at once instead, and the end of the run does the rest.
        """
        self._closed = True
        if self._end_once():
            return
        self._stop_run()
        owner = self._owner
        if (owner is not None and owner[1] == threading.get_ident()) or own_pool() is not None:
            return
        while not self._end_once():
            time.sleep(CLOSING_S)

    def _end_once(self) -> bool:
        """End the net unless a run is under way, or that was done; False where a run is under way."""
        owner = new_owner()
        try:
            if not self._taken_by(owner):
                return False
            if not self._ended:
                self._end()
                self._ended = True
        finally:
            if self._owner is owner:
                self._owner = None
        return True

    def _stop_run(self) -> None:
        """Ask a run to stop; it asks `check` itself."""
        self.cancel_waiting()

    def cancel_waiting(self) -> None:
        """Ask operators that wait for something to give up."""
        for operator in self.operators:
            operator.cancel()

    def _end(self) -> None:
        """End what the operators keep; no run is under way."""
        for operator in (*self.operators, *self._pairs.values()):
            operator.close()


def wants_invariance(net: NetDef, within: Operator | None) -> bool:
    """Whether a net says that each image shall have the same bits in any batch; one within another does as that."""
    found = find_argument(net, BATCH_INVARIANT.name)
    if found is not None:
        return bool(found.i)
    return within is not None and within.op.of_invariant_net


def with_device_of(net: NetDef, definition: OperatorDef) -> OperatorDef:
    """Return the operator with the net's device option below its own."""
    if not net.HasField("device_option"):
        return definition
    merged = OperatorDef()
    merged.CopyFrom(definition)
    own = definition.device_option if definition.HasField("device_option") else DeviceOption()
    merged.device_option.CopyFrom(merge(net.device_option, own))
    return merged


def _load_type(name: str) -> None:
    """Import the module that is called like the type; else all, since a module may bring several types."""
    for module in [name] if name in _modules() else sorted(_modules()):
        importlib.import_module(f"tazza.nets.{module}")


@cache
def _modules() -> frozenset[str]:
    return frozenset(found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)]))


def _listed_types() -> frozenset[str]:
    _load_type("")
    return frozenset()  # all of them are registered now


PLAN = "plan"
"""The net type that compiles."""

NETS: Registry[str, type[NetBase]] = Registry("net type", loader=_load_type, listed=_listed_types)
watch(NETS)


N = TypeVar("N", bound=NetBase)


def net_type(name: str, *, help: str) -> Callable[[type[N]], type[N]]:
    """Return a decorator that registers a class of nets under a type name."""

    def register(made: type[N]) -> type[N]:
        NETS.register(name, made, help=help)
        return made

    return register


def create_net(
    definition: NetDef,
    workspace: BlobOwner,
    *,
    strict: bool = False,
    copy: bool = True,
    within: Operator | None = None,
) -> NetBase:
    """Make a runnable net of the type that the definition names (`simple` when it names none); see `NetBase`.

    Raises:
        NetError: an unknown type.
    """
    return net_class(definition)(definition, workspace, strict=strict, copy=copy, within=within)


def net_class(definition: NetDef) -> type[NetBase]:
    """Return the class of the net that a definition is run as.

    Raises:
        NetError: an unknown type.
    """
    name = definition.type if definition.type else DEFAULT_TYPE
    name = overrides().get(name, name)
    found = NETS.get(name)
    if found is None:
        raise NetError(f"net {definition.name!r} has the unknown type {name!r}", hint=NETS.near(name))
    return found


def _create_within(definition: NetDef, workspace: BlobOwner, *, within: Operator | None = None) -> NetBase:
    """Make a net for an operator, as strict as the operator is about what its schema does not know."""
    return create_net(definition, workspace, strict=within is not None and within.strict, within=within)


NET_MAKER.fill(_create_within)


def overrides() -> dict[str, str]:
    """Return what the flag `caffe2_override_executor` says: net type -> the type that runs instead.

    Of pairs with the same first name the last one counts; what runs instead is not replaced in turn. A comma at the end
    says nothing.

    Raises:
        InitError: the flag is not a list of pairs.
    """
    names = [name.strip() for name in OVERRIDES.value.split(",")]
    if not names[-1]:
        names.pop()
    if len(names) % 2:
        raise InitError(
            f"flag {OVERRIDES.name} takes pairs of net types, got {OVERRIDES.value!r}", hint="dag,simple,rnn,dag"
        )
    return dict(zip(names[::2], names[1::2], strict=True))


def progress_note(error: TazzaError, net: NetBase, done: int) -> None:
    """Tell in `error` how far a net came."""
    if done:
        error.add_context(
            f"net {net.name!r} stopped after {done} of {len(net.operators)} operators; "
            "blobs are valid, parameters may be partly updated"
        )
