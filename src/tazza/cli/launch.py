"""`tazza launch`: a command on several ranks, which are started here or were started by somebody else.

Without a world it starts `mpiexec` with itself on each rank. Within one, it runs the command in a process below it and
watches that: where it is killed, it says so, and stays for a moment, so that starters that end a job as soon as one of
their processes has gone leave the others time to end in order and to say who is missing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO

import typer

from tazza.cli.ranks import RANK_VARIABLE, TRACE_VARIABLE
from tazza.data_class import dataclass
from tazza.distributed.starting import rank_here, size_here, start_command
from tazza.errors import ArgumentError, FileError
from tazza.runtime.files import kind_of, make_folder, open_log, resolved, shown, write_bytes_atomically
from tazza.runtime.threads import threads_allowed

GRACE_S = 7.0
"""How long a process that watched a rank stays behind its end: longer than `distributed.watch.END_S`."""
ENDING_S = 0.5
"""How much longer the whole job may go on then, before it is ended."""
LOOK_S = 0.25
FAILED_VARIABLE = "TAZZA_RANK_FAILED"
"""Set to a file that who watches a rank writes when that fails; where one process started all of them."""
LAST_LINES = 5
"""Of the log of a rank that failed, which are printed."""
THREADS = "OMP_NUM_THREADS"


def launch(words: Sequence[str], ranks: int | None, logs: Path | None, trace: Path | None) -> None:
    """Run a command on several ranks; ends the process with its status.

    Args:
        words: the command, such as `train lenet`.
        ranks: how many, which are started on this machine; None where somebody else has started them.
        logs: folder for what each rank prints; None keeps that of rank 0 only, at the terminal.
        trace: file for what all ranks compute and exchange in some steps; None: that is not recorded.

    Raises:
        FileError: there is no folder for the trace.
        ArgumentError: no command, or another number of ranks than somebody else has started.
        UnavailableError: there is no MPI.
    """
    if not words:
        raise ArgumentError("launch takes a command", hint="tazza launch --ranks 2 train lenet")
    if trace is not None and kind_of(resolved(trace).parent) != "folder":
        raise FileError(f"there is no folder {shown(trace.parent)} for the trace", hint="make it, or name another")
    here, there = rank_here(), size_here()
    if here is None:
        if ranks is None:
            raise ArgumentError(
                "nobody says how many ranks there are", hint="--ranks 4, or start this command by mpirun or srun"
            )
        raise typer.Exit(_start(words, ranks, {"--logs": logs, "--trace": trace}))
    if ranks is not None and there is not None and ranks != there:
        raise ArgumentError(f"--ranks {ranks}, and {there} were started", hint="leave --ranks out")
    raise typer.Exit(_Rank(here, logs, trace).run(words))


def _start(words: Sequence[str], ranks: int, files: Mapping[str, Path | None]) -> int:
    """Start ranks on this machine, which share its threads; return the status of the job."""
    options = [word for name, path in files.items() if path is not None for word in (name, str(resolved(path)))]
    command = start_command(ranks, [sys.executable, "-m", "tazza", "launch", *options, *words])
    environment = {**os.environ, **command.environment}
    environment.setdefault(THREADS, str(max(1, threads_allowed() // ranks)))
    with TemporaryDirectory(prefix="tazza-launch-") as folder:
        failed = Path(folder) / "failed"
        environment[FAILED_VARIABLE] = str(failed)
        job = subprocess.Popen(command.words, env=environment)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda got, _: job.send_signal(got) if got == signal.SIGTERM else None)
        status = _waited(job, failed)
    return status if 0 <= status < 128 else 1


def _waited(job: subprocess.Popen[bytes], failed: Path) -> int:
    """Wait until a job has ended, and return its status; end it where it goes on without a rank.

    Those who wait in MPI's beginning for a rank that was killed before its own are told by nobody: not by its starter,
    which has not heard of that rank, and not by a watch, which begins later.
    """
    left_s: float | None = None
    while True:
        try:
            return job.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            if left_s is None and kind_of(failed) is not None:
                left_s = time.monotonic()
            late_s = 0.0 if left_s is None else time.monotonic() - left_s - GRACE_S
            if late_s > 2 * ENDING_S:
                job.kill()
            elif late_s > ENDING_S:
                job.terminate()


@dataclass
class _Rank:
    """A rank whose process is watched."""

    rank: int
    logs: Path | None
    trace: Path | None

    def run(self, words: Sequence[str]) -> int:
        """Run the command in a process below this one, and return its status."""
        environment = {**os.environ, RANK_VARIABLE: str(self.rank)}
        environment[TRACE_VARIABLE] = "" if self.trace is None else str(resolved(self.trace))
        # What PMI handed down, an open file perhaps, is handed down again.
        process = subprocess.Popen(
            [sys.executable, "-m", "tazza.cli.rank", *words],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            close_fds=False,
        )
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda got, _: process.send_signal(got))
        assert process.stdout is not None, "a pipe was asked for"
        last = self._carry(process.stdout)
        status = process.wait()
        if status:
            self._tell(status, last)
        return status if 0 <= status < 128 else 1

    def _carry(self, source: IO[bytes]) -> list[bytes]:
        """Carry what the rank prints to its log, that of rank 0 to the terminal as well; return the last lines."""
        last: list[bytes] = []
        log = None
        if self.logs is not None:
            make_folder(self.logs)
            log = open_log(resolved(self.logs) / f"rank-{self.rank}.log", "log of a rank")
        for line in source:
            last[:] = [*last, line][-LAST_LINES:]
            if log is not None:
                os.write(log, line)
            if self.rank == 0:
                sys.stdout.buffer.write(line)
                sys.stdout.flush()
        if log is not None:
            os.close(log)
        return last

    def _tell(self, status: int, last: Sequence[bytes]) -> None:
        """Say how the rank has ended, and give the others time to do so."""
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"has ended with status {status}"
        text = f"rank {self.rank} {how}\n".encode()
        if self.rank != 0:
            text += b"".join(b"  " + line for line in last)
        os.write(2, text)
        if FAILED_VARIABLE in os.environ:
            write_bytes_atomically(Path(os.environ[FAILED_VARIABLE]), text)
        time.sleep(GRACE_S if status < 0 else 1.0)
