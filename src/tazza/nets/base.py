"""Nets: operators bound to a workspace, in the order and by the policy that the net's type says.

Constant state: definition and operators. Who runs a net owns it for that time; two threads must not run one net at
once.
"""

from __future__ import annotations

import importlib
import pkgutil
import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import ClassVar, TypeVar

from tazza.device import Event, merge
from tazza.errors import NetError, TazzaError
from tazza.graph.verify import check_net
from tazza.nets.explanation import Explanation, operator_row
from tazza.operator import BlobOwner, Observable, Operator, ignored_text
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tazza.registry import Registry
from tazza.runtime.flags import FLAG_SOURCES
from tazza.runtime.log import logger

DEFAULT_TYPE = "simple"
"""The type of a net that names none."""


class NetBase(Observable):
    """Base of all net types. A created net is a snapshot: later changes of the NetDef do not reach it."""

    type_name: ClassVar[str] = ""

    def __init__(self, definition: NetDef, workspace: BlobOwner, *, strict: bool = False) -> None:
        """Check the net as a whole, then make its operators.

        Args:
            definition: what to run; copied.
            workspace: whose blobs it works on. All output blobs are made at once, still empty.
            strict: refuse arguments that a schema does not know; else one line per net tells which.

        Raises:
            NetError: a blob is read before anything makes it, or a declared output is never made.
            TazzaError: an operator is not legal; the message names it.
        """
        super().__init__()
        self.definition = NetDef()
        self.definition.CopyFrom(definition)
        self.workspace = workspace
        self._reported: set[str] = set()
        check_net(self.definition)
        self.operators: list[Operator] = []
        self._running = threading.Lock()
        self._closed = False
        try:
            self._create(strict)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self.operators)} operators)"

    @property
    def name(self) -> str:
        """The net's name."""
        return self.definition.name

    def _create(self, strict: bool) -> None:
        """Make what `_run` needs; here an operator for each of the definition."""
        for position, op in enumerate(self.definition.op):
            self.operators.append(self._operator(position, op, strict))
        ignored = ignored_text(self.operators)
        if ignored:
            logger.warning("net %r: %s", self.name, ignored)

    def _operator(self, position: int, definition: OperatorDef, strict: bool) -> Operator:
        return Operator(
            with_device_of(self.definition, definition),
            self.workspace,
            strict=strict,
            report=self._report_once,
            label=f" (operator {position} of net {self.name!r})",
        )

    def _report_once(self, key: str, message: str) -> None:
        if key not in self._reported:
            self._reported.add(key)
            logger.warning("net %r: %s", self.name, message)

    def run(self) -> None:
        """Run every operator once and return when all have ended.

        Raises:
            TazzaError: the first error; every blob stays valid, parameters may be partly updated.
            NetError: the net is running already, or closed.
        """
        self.run_exclusively(self._observed)

    def _observed(self) -> None:
        try:
            if self._observers:
                self.start_all()
            self._run()
        finally:
            if self._observers:
                self.stop_all()

    def run_exclusively(self, work: Callable[[], None]) -> None:
        """Do `work` as the one run of this net.

        Raises:
            NetError: the net is running already, or closed.
        """
        if self._closed:
            raise NetError(f"net {self.name!r} is closed", hint="create it again")
        if not self._running.acquire(blocking=False):
            raise NetError(
                f"net {self.name!r} is running already", hint="create a second net, or wait for the first run"
            )
        try:
            work()
        finally:
            self._running.release()

    def _run(self) -> None:
        raise NotImplementedError

    def run_async(self) -> Event:
        """Run once and return the event of this run; types without own threads have ended on return."""
        event = Event()
        event.schedule()
        try:
            self.run()
        except Exception as error:
            event.finish(error)
        else:
            event.finish()
        return event

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

    def close(self) -> None:
        """End what the operators keep between runs; the net cannot run afterwards."""
        self._closed = True
        for operator in self.operators:
            operator.close()


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
    """Import the module that is called like the type."""
    if name in _modules():
        importlib.import_module(f"tazza.nets.{name}")


@cache
def _modules() -> frozenset[str]:
    return frozenset(found.name for found in pkgutil.iter_modules([str(Path(__file__).parent)])) - {
        "base",
        "explanation",
    }


NETS: Registry[str, type[NetBase]] = Registry("net type", loader=_load_type, known=_modules)


def _load_types(_: str) -> None:
    """Import every net type, for the flags that they declare."""
    for name in _modules():
        importlib.import_module(f"tazza.nets.{name}")


FLAG_SOURCES.register("nets", _load_types, help="flags that net types declare")

N = TypeVar("N", bound=NetBase)


def net_type(name: str, *, help: str) -> Callable[[type[N]], type[N]]:
    """Return a decorator that registers a class of nets under a type name."""

    def register(made: type[N]) -> type[N]:
        NETS.register(name, made, help=help)
        return made

    return register


def create_net(definition: NetDef, workspace: BlobOwner, *, strict: bool = False) -> NetBase:
    """Make a runnable net of the type that the definition names (`simple` when it names none).

    Raises:
        NetError: an unknown type.
    """
    name = definition.type if definition.type else DEFAULT_TYPE
    found = NETS.get(name)
    if found is None:
        raise NetError(f"net {definition.name!r} has the unknown type {name!r}", hint=NETS.near(name))
    return found(definition, workspace, strict=strict)


def progress_note(error: TazzaError, net: NetBase, done: int) -> None:
    """Tell in `error` how far a net came."""
    if done:
        error.add_context(
            f"net {net.name!r} stopped after {done} of {len(net.operators)} operators; "
            "blobs are valid, parameters may be partly updated"
        )
