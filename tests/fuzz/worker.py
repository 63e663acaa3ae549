"""A child that tries one input after the other: `python -m tests.fuzz.worker KIND FIRST END STEP FOLDER [MODULE ...]`.

It works in a folder of its own, whose content is removed now and then, and asks to be followed by a fresh one after
some thousands of inputs, so that what a process gathers (compiled code above all) stays bounded.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import logging
import mmap
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from tests.fuzz.case import Finding
from tests.fuzz.guard import MIB, arm, judge, limit_memory
from tests.fuzz.kinds import Kind, kind_named
from tests.fuzz.watch import AGAIN, PROGRESS

INPUTS_MAX = 4000
"""How many inputs a child tries."""
MEMORY_BYTES = 1536 * MIB
"""How much more than at its start a child may map."""
SWEEP = 200
"""Inputs after which the folder is emptied."""


def main(words: list[str]) -> int:
    """Try the inputs; returns the exit status."""
    kind, first, end, step, place, *modules = words
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    for module in modules:
        importlib.import_module(module).install()
    tell = os.fdopen(os.dup(1), "w", buffering=1)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 1)  # what inputs print; findings go past it
    logging.getLogger("tazza").addHandler(logging.NullHandler())
    logging.getLogger("tazza").propagate = False
    folder, cache = Path(place) / "inside", Path(place).parent / "tazza-fuzz-cache"
    os.environ.update(TAZZA_CACHE_DIR=str(cache), MPLCONFIGDIR=str(cache), TMPDIR=str(folder))
    folder.mkdir()
    os.chdir(folder)
    found = kind_named(kind)
    found.prepare()
    arm(folder, cache)
    limit_memory(MEMORY_BYTES)
    with (Path(place) / "progress").open("r+b") as file, mmap.mmap(file.fileno(), PROGRESS.size) as shared:
        return _loop(found, range(int(first), int(end), int(step)), folder, shared, lambda one: _tell(tell, one))


def _loop(kind: Kind, seeds: range, folder: Path, shared: mmap.mmap, tell: Callable[[Finding], None]) -> int:
    slowest = 0
    for count, seed in enumerate(seeds, 1):
        shared[:] = PROGRESS.pack(seed, count, slowest)
        begun = time.monotonic()
        finding = judge(kind.draw(seed), kind.attempt, folder)
        if finding is not None:
            tell(finding)
        slowest = max(slowest, int(1e6 * (time.monotonic() - begun)))
        if count % SWEEP == 0:
            for path in folder.iterdir():
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
        if count == INPUTS_MAX:
            return AGAIN
    return 0


def _tell(file: TextIO, finding: Finding) -> None:
    told = {"what": finding.what, "where": finding.where, "detail": finding.detail, "case": finding.case.stored()}
    print(json.dumps(told), file=file, flush=True)


if __name__ == "__main__":
    # At once, without waiting for threads: what stays behind has been told.
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)
