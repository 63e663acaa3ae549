"""Start-up of the process: early functions, then flags and logging, then functions.

`global_init` is for programs: the `tazza` command calls it, a script may. As a library tazza works without it; then
flags have their defaults and what was registered to run at start-up has not run, of which `require_init` tells once.

Constant state: none. Changing state, all in `Initializer`: `_phase`, `_next` and the registries under `_lock`, which
is held only for moments; `_running` is held by the thread that runs the phases, so that others wait until they end.
Registering never waits for `_running`: a module that is imported by two threads at once cannot lock up. Invariants: a
function runs at most once, and none is left waiting when the phase becomes DONE.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import TypeVar

from tazza.data_class import dataclass
from tazza.errors import InitError
from tazza.registry import Registry
from tazza.runtime import flags, log
from tazza.runtime.fork import freed_in_child

Function = TypeVar("Function", bound=Callable[[], object])


class Phase(IntEnum):
    """How far start-up has come."""

    NONE = 0
    EARLY = 1
    FLAGS = 2
    FUNCTIONS = 3
    DONE = 4


@dataclass(eq=False)
class InitFunction:
    """A function that is to run at start-up; `order` is the place among those of its phase."""

    name: str
    run: Callable[[], object]
    order: int
    started: bool = False


class Initializer:
    """The start-up of one process; the module's functions are those of one instance."""

    def __init__(self) -> None:
        self.early: Registry[str, InitFunction] = Registry("early init function")
        self.functions: Registry[str, InitFunction] = Registry("init function")
        self._phase = Phase.NONE
        self._next = 0
        self._told = False
        self._lock = freed_in_child(threading.Lock())
        self._running = freed_in_child(threading.RLock())
        self._owner: int | None = None

    def initialized(self) -> bool:
        """Tell whether `global_init` has completed."""
        return self._phase is Phase.DONE

    def early_init(self, *, help: str) -> Callable[[Function], Function]:
        """Return a decorator: the function runs in `global_init` before flags are parsed, in the order of registration.

        Raises:
            InitError: on decorating, when the early functions have run.
        """

        def decorate(function: Function) -> Function:
            with self._lock:
                if self._phase > Phase.EARLY:
                    raise InitError(
                        f"early init function {_name(function)} is registered in phase {self._phase.name},"
                        f" after the early functions ran",
                        hint="import its module before global_init, or register it with init_function",
                    )
                self._register(self.early, function, help)
            return function

        return decorate

    def init_function(self, *, help: str) -> Callable[[Function], Function]:
        """Return a decorator: the function runs in `global_init` once flags are parsed, in the order of registration.

        Registered after `global_init` it runs at once.

        Raises:
            InitError: on decorating after `global_init`, when the function fails.
        """

        def decorate(function: Function) -> Function:
            with self._lock:
                made = self._register(self.functions, function, help)
                late = self._phase is Phase.DONE
                made.started = late
            if late:
                _run(made)
            return function

        return decorate

    def global_init(self, argv: Sequence[str]) -> list[str]:
        """Run the phases, or only parse flags if they ran; see the function of this name."""
        if self._owner == threading.get_ident():
            return list(argv)  # a function called back into it
        with self._running:
            self._owner = threading.get_ident()
            try:
                return self._run_phases(argv)
            finally:
                self._owner = None

    def require_init(self, what: str) -> None:
        """Log once in the process that `what` runs before `global_init`.

        It is a warning when functions wait for start-up, since then something is amiss, and else an information:
        running without start-up is allowed.
        """
        if self._told or self._phase is not Phase.NONE:
            return
        with self._lock:
            told, self._told = self._told, True
            waiting = [one.name for one in (*self._waiting(self.early), *self._waiting(self.functions))]
        if told:
            return
        missed = f"; not run so far: {', '.join(waiting)}" if waiting else ""
        level = logging.WARNING if waiting else logging.INFO
        log.logger.log(level, "%s runs before tazza.global_init, so no flags were parsed%s", what, missed)

    def _register(self, into: Registry[str, InitFunction], function: Callable[[], object], help: str) -> InitFunction:
        made = InitFunction(_name(function), function, self._next)
        into.register(made.name, made, help=help)
        self._next += 1
        return made

    def _run_phases(self, argv: Sequence[str]) -> list[str]:
        if self._phase is not Phase.DONE:
            self._run_all(Phase.EARLY, self.early, Phase.FLAGS)
        rest = [*argv[:1], *flags.parse(argv[1:])]
        log.configure()
        if self._phase is not Phase.DONE:
            self._run_all(Phase.FUNCTIONS, self.functions, Phase.DONE)
        return rest

    def _run_all(self, phase: Phase, registry: Registry[str, InitFunction], after: Phase) -> None:
        """Run the functions of one phase that have not run; when none is left enter the phase `after`."""
        while True:
            with self._lock:
                waiting = self._waiting(registry)
                if not waiting:
                    self._phase = after
                    return
                self._phase = phase
                waiting[0].started = True
            _run(waiting[0])

    def _waiting(self, registry: Registry[str, InitFunction]) -> list[InitFunction]:
        found = [registry[name] for name in registry]
        return sorted((one for one in found if not one.started), key=lambda one: one.order)


def _name(function: Callable[[], object]) -> str:
    return f"{function.__module__}.{getattr(function, '__qualname__', repr(function))}"


def _run(one: InitFunction) -> None:
    try:
        one.run()
    except BaseException as error:
        one.started = False  # so that a repeated call tries again
        if not isinstance(error, Exception):
            raise
        raise InitError(
            f"init function {one.name} failed: {error}", hint="see the error above for its cause"
        ) from error


_process = Initializer()
EARLY_FUNCTIONS = _process.early
FUNCTIONS = _process.functions
early_init, init_function = _process.early_init, _process.init_function
initialized, require_init = _process.initialized, _process.require_init


def global_init(argv: Sequence[str] | None = None) -> list[str]:
    """Run early functions, parse flags and set up logging, run functions; return `argv` without the flags.

    A second call only parses flags. A call from inside of a start-up function does nothing. Calls of other threads
    wait for the first; so a start-up function must not wait for a thread that calls this. After an error it may be
    called again, and goes on with the functions that have not completed.

    Args:
        argv: program name and its arguments, as `sys.argv`; None for neither.

    Raises:
        InitError: an unknown flag, a value that a flag does not take, or a function that failed. No flag changes
            then.
    """
    return _process.global_init([] if argv is None else argv)
