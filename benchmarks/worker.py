"""A contender's process: imports one runtime, loads one net, and does what it is told, by lines of JSON.

    python -m benchmarks.worker MODULE JOB SPAWNED_S

Requests come on standard input, answers go to what was standard output; what libraries print goes to standard error.
`SPAWNED_S` is the reading of `time.monotonic` when the process was started.

    {"do": "start", "results": FILE, "runs": 3}    import, load, run so often; the results go into the file
    {"do": "time", "seconds": 0.3, "warm": 0.03}    run for that long, after a warm-up
    {"do": "memory"}                                 what was used
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO, cast

from benchmarks.memory import peak_bytes, reset_peak, resident_bytes

if TYPE_CHECKING:
    from benchmarks.job import Session

LEAST_RUNS = 1
MOST_TIMES = 200_000
"""Runs after which a round ends, whatever time is left."""


class Worker:
    """Answers requests; the first must be `start`."""

    session: Session

    def __init__(self, module: str, job: str, spawned_s: float) -> None:
        """Remember what to do; nothing is imported yet."""
        self._module, self._job, self._spawned_s = module, job, spawned_s
        self._import_bytes = self._import_peak = 0
        self._reset = False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do what is asked, and return what came out."""
        actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
            "start": self._start,
            "time": self._time,
            "memory": self._memory,
        }
        return actions[request["do"]](request)

    def _start(self, request: dict[str, Any]) -> dict[str, Any]:
        began = time.monotonic()
        module: Any = import_module(self._module)
        job_module: Any = import_module("benchmarks.job")
        imported = time.monotonic()
        self._import_bytes, self._import_peak = resident_bytes(), peak_bytes()
        self._reset = reset_peak()
        after_reset = time.monotonic()
        self.session = module.start(job_module.Job.of(self._job))
        self.session.load()
        loaded = time.monotonic()
        self.session.run()
        first, first_cpu = time.monotonic(), time.process_time()
        numpy: Any = import_module("numpy")
        results = [self.session.result()]
        for _ in range(int(request["runs"]) - 1):
            self.session.run()
            results.append(self.session.result())
        numpy.save(request["results"], numpy.stack(results))
        return {
            "process_s": began - self._spawned_s,
            "import_s": imported - began,
            "load_s": loaded - after_reset,
            "first_run_s": first - loaded,
            "first_result_s": first - self._spawned_s,
            "first_result_cpu_s": first_cpu,
            "note": self.session.note(),
        }

    def _time(self, request: dict[str, Any]) -> dict[str, Any]:
        return summary(run_times(self.session.run, float(request["seconds"]), float(request["warm"])))

    def _memory(self, request: dict[str, Any]) -> dict[str, Any]:
        del request
        peak = peak_bytes()
        return {
            "import_bytes": self._import_bytes,
            "above_import_bytes": max(0, peak - self._import_bytes),
            "peak_bytes": max(peak, self._import_peak),
            "reset": self._reset,
        }


def run_times(
    run: Callable[[], None], seconds: float, warm: float, clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Return the time of each run, in seconds: at least one, and so many as fill `seconds`, after `warm` seconds."""
    until = clock() + warm
    while clock() < until:
        run()
    times: list[float] = []
    now = clock()
    until = now + seconds
    while (now < until and len(times) < MOST_TIMES) or len(times) < LEAST_RUNS:
        run()
        then = clock()
        times.append(then - now)
        now = then
    return times


def summary(times: list[float]) -> dict[str, Any]:
    """Return median, least and tenths of some times, in seconds.

    >>> summary([3.0, 1.0, 2.0])["median_s"]
    2.0
    """
    ordered = sorted(times)
    last = len(ordered) - 1
    middle = (ordered[last // 2] + ordered[(last + 1) // 2]) / 2
    return {
        "runs": len(ordered),
        "median_s": middle,
        "least_s": ordered[0],
        "tenth_s": ordered[last // 10],
        "nine_tenths_s": ordered[last - last // 10],
    }


def serve(worker: Worker, requests: TextIO, answers: TextIO) -> None:
    """Answer requests until there are no more; an error is an answer as well."""
    for line in requests:
        try:
            answer = worker.answer(json.loads(line))
        except Exception as error:
            traceback.print_exc()
            text = str(error).strip().partition("\n")[0]
            answer = {"error": f"{type(error).__name__}: {text}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def main() -> None:
    """Serve on the standard streams."""
    module, job, spawned_s = sys.argv[1:]
    answers = cast("TextIO", os.fdopen(os.dup(1), "w", encoding="utf-8"))
    os.dup2(2, 1)
    serve(Worker(module, job, float(spawned_s)), sys.stdin, answers)
    os._exit(0)  # what libraries do on their way out is not our affair, and some hang


if __name__ == "__main__":
    main()
