"""Workers that predict parts: processes of their own, each with one part at a time.

Changing state, all of it of the thread that runs `Crew.run`: the parts that wait, the workers and what each has said,
and how often each part's worker died. A part is in one place: it waits, a worker has it, or it is done. When a worker
dies its part waits again, before all others, and another worker takes its place.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from tazza import errors
from tazza.bulk.job import Job
from tazza.bulk.source import Part
from tazza.data_class import dataclass
from tazza.errors import ArgumentError, TazzaError, UnavailableError
from tazza.runtime.closing import Closing
from tazza.runtime.flags import all_flags
from tazza.runtime.modules import loaded_modules
from tazza.runtime.threads import NUM_THREADS, thread_count

DEATHS_MAX = 5
"""As often as workers may die of one part, or in a row before they are ready."""
PROGRAM = (sys.executable, "-m", "tazza.bulk.worker")
CHUNK = 1 << 16


@dataclass(eq=False, slots=True)
class Worker:
    """A process, what it has said of a line that is not whole yet, its part, and how many items of it are done."""

    process: subprocess.Popen[bytes]
    ready: bool = False
    said: bytes = b""
    part: Part | None = None
    items: int = 0


@dataclass(slots=True)
class Crew(Closing):
    """Predicts parts on `count` workers; `told` hears of the items that are done, those of unfinished parts too.

    Args:
        job: what is done with every image.
        folder: where parts go.
        count: of workers; they divide the threads of this process among themselves.
        told: called now and then, and for each part that is done.
        program: what runs as a worker.
    """

    job: Job
    folder: Path
    count: int
    told: Callable[[int], None] = lambda items: None
    program: Sequence[str] = PROGRAM
    replaced: int = 0
    """Workers that died, and were replaced."""
    _workers: list[Worker] = field(default_factory=list[Worker])
    _waiting: deque[Part] = field(default_factory=deque[Part])
    _deaths: Counter[int] = field(default_factory=Counter[int])
    _deaths_at_start: int = 0
    _done: int = 0

    def __post_init__(self) -> None:
        """Check the number of workers.

        Raises:
            ArgumentError: there are none.
        """
        if self.count < 1:
            raise ArgumentError(f"{self.count} workers predict nothing", hint="give 1 or more")

    @property
    def pids(self) -> list[int]:
        """The processes that are there."""
        return [worker.process.pid for worker in self._workers]

    def run(self, parts: Sequence[Part], *, done: int = 0) -> None:
        """Predict parts; `done` items are done before, which `told` counts too.

        Raises:
            UnavailableError: workers die again and again of one part, or before they do anything.
            TazzaError: what a worker says of the model, or of the images as a whole.
        """
        self._waiting.extend(parts)
        self._done = done
        left = len(parts)
        with selectors.DefaultSelector() as selector:
            for place in range(min(self.count, left)):
                self._start(place, selector)
            while left:
                for key, _ in selector.select():
                    left -= self._hear(key.data, selector)
                self.told(self._done + sum(worker.items for worker in self._workers))
        for worker in self._workers:
            if not worker.ready:
                worker.process.kill()
            with worker.process:  # closes what it is asked by, at which it ends, and waits
                pass
        self._workers.clear()

    def close(self) -> None:
        """End the workers, whatever they are at."""
        for worker in self._workers:
            worker.process.kill()
        for worker in self._workers:
            with worker.process:  # waits, and closes its pipes
                worker.process.wait()
        self._workers.clear()

    def _start(self, place: int, selector: selectors.BaseSelector) -> None:
        root = str(Path(errors.__file__).parents[1])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        process = subprocess.Popen(
            [*self.program, *_flags(place, self.count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": path},
        )
        worker = Worker(process)
        self._workers.insert(place, worker)
        modules = [module.name if module.path is None else module.path for module in loaded_modules()]
        _ask(worker, {"job": self.job.to_dict(), "folder": str(self.folder), "modules": modules})
        assert process.stdout is not None
        selector.register(process.stdout, selectors.EVENT_READ, worker)

    def _hear(self, worker: Worker, selector: selectors.BaseSelector) -> int:
        """Read what a worker says; return how many parts are done by that."""
        assert worker.process.stdout is not None
        read = os.read(worker.process.stdout.fileno(), CHUNK)
        if not read:
            selector.unregister(worker.process.stdout)
            self._buried(worker, selector)
            return 0
        *lines, worker.said = (worker.said + read).split(b"\n")
        return sum(self._answer(worker, json.loads(line)) for line in lines)

    def _answer(self, worker: Worker, said: dict[str, Any]) -> int:
        if "error" in said:
            raise _raised(said)
        if "items" in said:
            worker.items = said["items"]
            return 0
        done = 0
        if "done" in said and worker.part is not None:
            self._done += worker.part.count
            done = 1
        self._deaths_at_start = 0
        worker.ready, worker.part, worker.items = True, None, 0
        if self._waiting:
            worker.part = self._waiting.popleft()
            _ask(worker, asdict(worker.part))
        return done

    def _buried(self, worker: Worker, selector: selectors.BaseSelector) -> None:
        """Put the part of a dead worker back, and another worker in its place.

        Raises:
            UnavailableError: this happens again and again.
        """
        with worker.process:
            ended = worker.process.wait()
        place = self._workers.index(worker)
        self._workers.remove(worker)
        part = worker.part
        if part is not None:
            self._deaths[part.number] += 1
            self._waiting.appendleft(part)
        elif not worker.ready:
            self._deaths_at_start += 1
        if self._deaths_at_start == DEATHS_MAX or (part is not None and self._deaths[part.number] == DEATHS_MAX):
            when = "before they were ready" if part is None else f"at items {part.start} to {part.stop - 1}"
            raise UnavailableError(
                f"{DEATHS_MAX} workers ended {when}, the last one {_how(ended)}",
                hint="for memory, take fewer --workers or a smaller --batch-size; run it again to go on",
            )
        if self._waiting:
            self.replaced += 1
            self._start(place, selector)


def _ask(worker: Worker, question: dict[str, Any]) -> None:
    assert worker.process.stdin is not None
    try:
        worker.process.stdin.write(json.dumps(question).encode() + b"\n")
        worker.process.stdin.flush()
    except BrokenPipeError:
        pass  # it died; the end of what it says tells that too


def _flags(place: int, count: int) -> list[str]:
    """Return the flags of this process as a worker takes them, with its share of the threads."""
    threads = thread_count()
    share = threads // count + (place < threads % count)
    given = [each for each in all_flags() if each.given and each is not NUM_THREADS]
    return [f"--{NUM_THREADS.name}={max(1, share)}", *(f"--{each.name}={each.value}" for each in given)]


def _how(status: int) -> str:
    return f"by the signal {signal.Signals(-status).name}" if status < 0 else f"with the status {status}"


def _raised(said: dict[str, Any]) -> TazzaError:
    """Return the error that a worker met, of its class."""
    found = getattr(errors, said["error"], TazzaError)
    kind = found if isinstance(found, type) and issubclass(found, TazzaError) else TazzaError
    return kind(said["message"], hint=said["hint"])
