"""Planted faults: an operator whose kernel fails in every way that the harness must notice."""

from __future__ import annotations

import ctypes
import os
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tazza.errors import NumericError
from tazza.operator import OpView, arg, blob, ends, kernel, operator_def, schema
from tazza.operator.letter import FLOAT
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.fuzz.case import Case
from tests.fuzz.kinds import KINDS, Kind

TRAP = "trap"
"""A file beside the folder of a child, which nobody may write."""
WRITTEN = 9
"""Exit status of a child that did."""


def _nothing() -> None:
    pass


def _refuse() -> None:
    raise NumericError("a typed error is a right outcome")


def _key_error() -> None:
    raise KeyError("planted")


def _hang() -> None:
    while True:
        time.sleep(0.01)


def _spin() -> None:
    ctypes.CDLL(None).pause()  # without Python's lock, and no signal that Python would see


def _segfault() -> None:
    ctypes.string_at(8)


def _abort() -> None:
    os.abort()


def _exit() -> None:
    os._exit(3)


def _write() -> None:
    trap = Path.cwd().parent / TRAP
    try:
        trap.write_text("trap")
    finally:
        if trap.exists():
            os._exit(WRITTEN)


def _warn() -> None:
    warnings.warn("planted", RuntimeWarning, stacklevel=1)


def _allocate() -> None:
    bytearray(1 << 36)


def _leave_thread() -> None:
    threading.Thread(target=time.sleep, args=(60,), daemon=True, name="planted").start()


class _Late:
    def __del__(self) -> None:
        raise LookupError("planted")


def _late() -> None:
    _Late()


FAULTS: dict[str, tuple[Callable[[], None], str | None]] = {
    "nothing": (_nothing, None),
    "typed error": (_refuse, None),
    "key error": (_key_error, "KernelError of KeyError"),
    "hang": (_hang, "hang"),
    "spin": (_spin, "hang"),
    "segfault": (_segfault, "SIGSEGV"),
    "abort": (_abort, "SIGABRT"),
    "exit": (_exit, "exit 3"),
    "file": (_write, "touched what is outside"),
    "warning": (_warn, "KernelError of RuntimeWarning"),
    "memory": (_allocate, None),
    "thread": (_leave_thread, "threads stay behind"),
    "finalizer": (_late, "LookupError that nobody catches"),
}
"""Name -> what the kernel does, and what the finding must be called; None: a right outcome."""
NAMES = tuple(FAULTS)


def draw(seed: int) -> Case:
    """Return the fault of that number."""
    return Case("planted", seed, {}, (NAMES[seed % len(NAMES)],))


def attempt(case: Case, folder: Path) -> None:
    """Run a net with the fault in it."""
    workspace = Workspace(root=folder)
    fault = operator_def("PlantedFault", [], ["y"], fault=case.words[0])
    workspace.run_net_once(NetDef(name="planted", op=[fault]))


def prepare() -> None:
    """Load what running a net loads."""
    attempt(draw(0), Path())


KIND = Kind(draw, attempt, prepare)


def install() -> None:
    """Register the operator and the kind; in a child only, since other tests look at all operators."""
    declared = schema(
        "PlantedFault",
        "Fails.",
        inputs=[],
        outputs=[blob("Y", FLOAT, "1")],
        args=[arg("fault", str, doc="which")],
        no_gradient=ends("it fails"),
        source="here",
    )

    @kernel(declared)
    def planted_fault(op: OpView, Y: Any) -> None:
        Y[...] = 0
        FAULTS[op.fault][0]()

    del planted_fault
    KINDS["planted"] = KIND
