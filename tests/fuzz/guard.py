"""Judges one input in this process: what it raised, which files it touched, which threads it left behind.

State: one audit hook for the process, since hooks cannot be taken out again; it only looks while an input is tried.
"""

from __future__ import annotations

import gc
import os
import re
import resource
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tazza.errors import KernelError, TazzaError
from tests.fuzz.case import Case, Finding

Attempt = Callable[[Case, Path], None]
"""Does with an input what is to be done with it, in a folder; raises what it raises."""

READABLE = tuple(
    dict.fromkeys(
        os.path.realpath(path)
        for path in (
            *sys.path,
            sys.prefix,
            sys.base_prefix,
            Path(__file__).parents[2],
            "/proc",
            "/sys",
            "/dev",
            "/usr",
            "/lib",
            "/etc/mime.types",
            "/etc/localtime",
        )
        if path
    )
)
"""Where code and the system lie: reading there is no business of an input."""
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATHS_OF = {
    "os.remove": (0,),
    "os.rename": (0, 1),
    "os.mkdir": (0,),
    "os.rmdir": (0,),
    "os.link": (0, 1),
    "os.symlink": (1,),
    "os.truncate": (0,),
    "os.chmod": (0,),
}
"""Events that change a file -> which of their arguments are paths."""
FORBIDDEN = frozenset(
    {
        "subprocess.Popen",
        "os.system",
        "os.exec",
        "os.fork",
        "os.posix_spawn",
        "socket.connect",
        "socket.bind",
        "pickle.find_class",
    }
)
INNER = "they are wrong, not the net"
"""What an error says that no net should be able to raise. The bare root of the family says too little, too."""
PATIENCE_S = 2.0
"""How long a thread may take to end after its net has been closed."""
SHARED = ("tazza-cpu-", "tazza-stream-")
"""How the names of threads begin that nets share; they end by themselves."""
SHARED_MAX = 64
MIB = 2**20


@dataclass
class Guard:
    """What an input may touch: `folders` it may write to; `outside` lists what else it touched."""

    folders: tuple[str, ...] = ()
    outside: list[str] = field(default_factory=list[str])
    lost: list[BaseException | None] = field(default_factory=list["BaseException | None"])
    """What finalizers and threads raised, which nobody catches."""
    threads: int = 0
    watching: bool = False

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Take an audit event of the interpreter."""
        if not self.watching:
            return
        if event == "open":
            path, mode, flags = arguments
            self._touched(path, "opened", changes=_changes(mode, flags))
        elif event in PATHS_OF:
            for position in PATHS_OF[event]:
                self._touched(arguments[position], event, changes=True)
        elif event in FORBIDDEN:
            self.outside.append(f"{event} {arguments!r:.200}")

    def _touched(self, path: Any, act: str, *, changes: bool) -> None:
        if isinstance(path, int) or path is None:
            return
        self.watching = False  # what asks for the real path opens nothing, but may be asked about
        try:
            real = os.path.realpath(os.fsdecode(path))
        finally:
            self.watching = True
        if real in (os.devnull, f"/proc/{os.getpid()}/clear_refs"):
            return
        allowed = self.folders if changes else (*self.folders, *READABLE)
        if any(real == folder or real.startswith(f"{folder}{os.sep}") for folder in allowed):
            return
        self.outside.append(f"{act} {real}{' to change it' if changes else ''}")
        if changes:
            raise PermissionError(f"{real} is outside of what an input may change")


def _changes(mode: Any, flags: Any) -> bool:
    return any(letter in mode for letter in "wax+") if isinstance(mode, str) else bool(flags & WRITING)


_GUARD = Guard()
_hooked: list[bool] = []


def arm(*folders: Path) -> None:
    """Say where inputs may write from now on, besides which nothing may change; files of the system may be read."""
    _GUARD.folders = tuple(os.path.realpath(folder) for folder in folders)
    _GUARD.threads = _threads()
    if not _hooked:
        _hooked.append(True)
        sys.addaudithook(_GUARD.hear)
        sys.unraisablehook = lambda lost: _GUARD.lost.append(lost.exc_value)
        threading.excepthook = lambda lost: _GUARD.lost.append(lost.exc_value)


def limit_memory(more_bytes: int) -> None:
    """Let the process map so much more than it does now; what asks for more gets a `MemoryError`."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + more_bytes, hard))


def judge(case: Case, attempt: Attempt, folder: Path) -> Finding | None:
    """Try an input; return what is wrong with the outcome, or None when it is a result or a typed error."""
    _GUARD.outside.clear()
    _GUARD.lost.clear()
    found: tuple[str, str, str] | None = None
    with warnings.catch_warnings(), np.errstate(divide="warn", over="warn", invalid="warn", under="ignore"):
        warnings.simplefilter("error")
        _GUARD.watching = True
        try:
            attempt(case, folder)
        except KernelError as error:
            found = _told(error)
        except TazzaError as error:
            found = _told(error) if type(error) is TazzaError or INNER in str(error) else None
        except Exception as error:
            found = _told(error)
        finally:
            _GUARD.watching = False
    if _GUARD.outside:
        found = ("touched what is outside", _GUARD.outside[0], "\n".join(_GUARD.outside))
    # A finalizer that the garbage collector runs deep within a recursion has no room; that is nobody's mistake.
    error = next((error for error in _GUARD.lost if not isinstance(error, RecursionError | None)), None)
    if found is None and error is not None:
        what, _, detail = _told(error)  # raised wherever the garbage was collected
        found = f"{what} that nobody catches", re.sub(r"'[^']*/|\d+", "", str(error))[:80], detail
    if found is None and _threads() > _GUARD.threads:
        found = _left_threads()
    return None if found is None else Finding(*found, case)


def _told(error: BaseException) -> tuple[str, str, str]:
    """Return what to call an error, where it was raised, and its traceback."""
    cause = error.__cause__ if isinstance(error, KernelError) and error.__cause__ is not None else error
    steps = traceback.extract_tb(cause.__traceback__)
    own = [step for step in steps if f"{os.sep}tazza{os.sep}" in step.filename]
    last = own[-1] if own else steps[-1] if steps else traceback.FrameSummary("?", 0, str(cause)[:40])
    name = type(cause).__name__ if cause is error else f"KernelError of {type(cause).__name__}"
    place = last.filename.rpartition(f"{os.sep}tazza{os.sep}")[2] if own else Path(last.filename).name
    where = f"{place}:{last.name}"
    return name, where, "".join(traceback.format_exception(error))


def _threads() -> int:
    """Return how many threads there are, without those of shared pools that wait a while for more work."""
    names = [thread.name for thread in threading.enumerate()]
    shared = [name for name in names if name.startswith(SHARED)]
    return len(names) if len(shared) > SHARED_MAX else len(names) - len(shared)


def _left_threads() -> tuple[str, str, str] | None:
    end = time.monotonic() + PATIENCE_S
    gc.collect()
    while (now := _threads()) > _GUARD.threads:
        if time.monotonic() > end:
            names = sorted(thread.name for thread in threading.enumerate())
            count, _GUARD.threads = now - _GUARD.threads, now  # they are told once
            return "threads stay behind", f"{names[-1].rstrip('0123456789-_ ')}", f"{count} more: {', '.join(names)}"
        time.sleep(0.01)
    return None


def peak_bytes(*, reset: bool = False) -> int:
    """Return the most memory that the process has held since the last `reset`; 0 where the system does not say."""
    try:
        if reset:
            Path("/proc/self/clear_refs").write_text("5")
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(text.partition("VmHWM:")[2].split()[0]) * 1024
