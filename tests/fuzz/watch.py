"""Watches children that try inputs: notices signals, hangs and memory, notes findings, goes on at the next input.

A child is told a kind and a row of seeds. Before each input it writes the seed and a count into shared memory
(`PROGRESS`); findings go as JSON lines into its pipe, Python's stacks at a crash into a file.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import resource
import selectors
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.case import Case, Finding
from tests.fuzz.kinds import kind_named

PROGRESS = struct.Struct("=QQQ")
"""Seed of the input under way, how many were begun, microseconds of the slowest."""
ROOT = Path(__file__).parents[2]
START_S = 120.0
"""How long a child may take until its first input."""
LOOK_S = 0.05
RESIDENT_BYTES_MAX = 3 * 2**30
"""A child that holds more is ended: the limit on what it maps should have stopped it before."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Job:
    """Inputs of one kind: seeds `first`, `first + step` ... below `end`; `hang_s` is how long one may take."""

    kind: str
    first: int
    end: int
    step: int = 1
    hang_s: float = 20.0
    modules: tuple[str, ...] = ()
    """Modules whose `install` registers further kinds in the child; for tests."""


@dataclass
class Tally:
    """What came out so far: how many inputs, which findings and how often each."""

    tried: int = 0
    slowest_s: float = 0.0
    seconds: float = 0.0
    found: dict[str, Finding] = field(default_factory=dict[str, Finding])
    times: dict[str, int] = field(default_factory=dict[str, int])

    def note(self, finding: Finding) -> None:
        """Count a finding; the first of equal ones is kept."""
        self.found.setdefault(finding.key, finding)
        self.times[finding.key] = self.times.get(finding.key, 0) + 1


def watch(
    job: Job,
    tally: Tally,
    *,
    stop: Callable[[], bool] = lambda: False,
    tell: Callable[[Finding], object] = lambda finding: None,
) -> None:
    """Try all inputs of a job, in as many children one after the other as it takes; `tell` hears of findings."""
    begun = time.monotonic()
    seed: int | None = job.first
    before = tally.tried
    while seed is not None and seed < job.end and not stop():
        with _Child(job, seed) as child:
            for finding in child.findings():
                if finding is not None:
                    tally.note(finding)
                    tell(finding)
                tally.tried = before + child.count
                if stop():
                    break
            before += child.count
            tally.tried = before
            tally.slowest_s = max(tally.slowest_s, child.slowest_s)
            seed = child.next_seed
    tally.seconds += time.monotonic() - begun


class _Child:
    """A process that tries inputs, with its pipe, its shared memory and its folder."""

    def __init__(self, job: Job, seed: int) -> None:
        self._job, self._first = job, seed
        self._folder = Path(tempfile.mkdtemp(prefix="tazza-fuzz-"))
        path = self._folder / "progress"
        path.write_bytes(bytes(PROGRESS.size))
        with path.open("r+b") as file:
            self._shared = mmap.mmap(file.fileno(), PROGRESS.size)
        self._stacks = self._folder / "stacks"
        self._last: bytes | None = None
        self.next_seed: int | None = seed
        words = [job.kind, str(seed), str(job.end), str(job.step), str(self._folder), *job.modules]
        with self._stacks.open("wb") as stacks:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.worker", *words],
                cwd=ROOT,
                env={**os.environ, **dict.fromkeys(THREADS, "1"), "MALLOC_ARENA_MAX": "2"},
                stdout=subprocess.PIPE,
                stderr=stacks,
            )

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._shared.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def _seed(self) -> int:
        return PROGRESS.unpack(self._state)[0]

    @property
    def _state(self) -> bytes:
        return self._shared[:] if self._last is None else self._last

    @property
    def count(self) -> int:
        """How many inputs were begun."""
        return PROGRESS.unpack(self._state)[1]

    @property
    def slowest_s(self) -> float:
        """How long the slowest input took."""
        return PROGRESS.unpack(self._state)[2] / 1e6

    def findings(self) -> Iterator[Finding | None]:
        """Yield findings as they come, None now and then meanwhile; the last may be how the child ended."""
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        looks, moved, count, text = 0, time.monotonic(), -1, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while True:
                ready = selector.select(LOOK_S)
                data = os.read(self._process.stdout.fileno(), 1 << 16) if ready else None
                if data:
                    *lines, text = (text + data).split(b"\n")
                    yield from (_finding(line) for line in lines)
                    continue
                if data == b"":
                    break
                yield None
                if self.count != count:
                    count, moved = self.count, time.monotonic()
                if time.monotonic() - moved > (self._job.hang_s if count else START_S):
                    yield self._end("hang")
                    return
                looks += 1
                if looks % 10 == 0 and self._resident() > RESIDENT_BYTES_MAX:
                    yield self._end("memory")
                    return
        yield from self._ended()

    def _ended(self) -> Iterator[Finding]:
        """Tell how the child ended, when its pipe is closed."""
        try:
            status = self._process.wait(self._job.hang_s)
        except subprocess.TimeoutExpired:
            yield self._end("does not end")
            return
        if status == 0:
            self.next_seed = None
        elif status == AGAIN:
            self.next_seed = self._seed + self._job.step
        elif self.count == 0:
            raise RuntimeError(f"a child cannot start: {self._stacks.read_text(errors='replace')[-2000:]}")
        else:
            what = signal.Signals(-status).name if status < 0 else f"exit {status}"
            yield self._end(what, self._stacks.read_text(errors="replace"))

    def _end(self, what: str, stack: str | None = None) -> Finding:
        """Return the finding that the input under way is, after which a new child goes on."""
        self._last = self._shared[:]  # before it is asked for its stack, by a signal that may wake it
        seed = self._seed
        stack = self._stack_of_now() if stack is None else stack
        self.next_seed = seed + self._job.step
        if self.count == 0:
            raise RuntimeError(f"a child does not start: {stack[-2000:]}")
        steps = [
            line.strip() for line in stack.partition(BEGAN_LAST)[2].splitlines() if "/tazza/" in line or PLANTED in line
        ]
        where = re.sub(r'.*/|"|, line \d+', "", steps[0]) if steps else "?"
        return Finding(what, where, stack[-4000:], kind_named(self._job.kind).draw(seed))

    def _stack_of_now(self) -> str:
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.2)
        return self._stacks.read_text(errors="replace")

    def _resident(self) -> int:
        try:
            return int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        except (OSError, IndexError):
            return 0


BEGAN_LAST = "(most recent call first)"
"""Behind it stand the calls of a thread, in the stacks that Python tells at a signal."""
PLANTED = "/tests/fuzz/planted"
AGAIN = 75
"""Exit status of a child that wants to be followed by a fresh one."""


def _finding(line: bytes) -> Finding:
    told = json.loads(line)
    return Finding(told["what"], told["where"], told["detail"], Case.of(told["case"]))
