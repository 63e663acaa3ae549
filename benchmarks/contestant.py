"""The parent's end of a worker process: ask, wait for the answer, stop it while another one is timed."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

LOG_TAIL = 2000
"""Characters of a log that are looked at."""


def _inherited() -> dict[str, str]:
    """Return this process's environment, without what would make every start compile Python files anew."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


class ContestantError(RuntimeError):
    """A worker failed, died, or took too long."""


class Contestant:
    """One worker process, with a session of its own so that it can be stopped with all that it started.

    State: `running` says whether it was stopped by `pause`; whoever asks resumes it first.
    """

    def __init__(
        self, command: Sequence[str], *, folder: Path, log: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the process.

        Args:
            command: the reading of `time.monotonic` at the start is put behind it.
            folder: where it runs.
            log: gets what it prints.
            environment: what is set on top of this process's own.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        self.log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, repr(time.monotonic())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=folder,
                env={**_inherited(), **({} if environment is None else environment)},
                start_new_session=True,
            )
        self.running = True
        self._read = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self, request: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return the answer.

        Raises:
            ContestantError: the worker answers with an error, is gone, or does not answer in time (it is killed then).
        """
        if not self.running:
            self.resume()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(dict(request)).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise ContestantError(f"the process ended: {self._last_words()}") from None
        answer: dict[str, Any] = json.loads(self._line(timeout_s))
        if "error" in answer:
            raise ContestantError(str(answer["error"]))
        return answer

    def _line(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        source = self._process.stdout.fileno()
        until = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            selector.register(source, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(0.0, until - time.monotonic())):
                    self._kill()
                    raise ContestantError(f"no answer within {timeout_s:.0f} s")
                found = os.read(source, 1 << 16)
                if not found:
                    raise ContestantError(f"the process ended: {self._last_words()}")
                self._read += found
        line, _, rest = bytes(self._read).partition(b"\n")
        self._read = bytearray(rest)
        return line

    def _last_words(self) -> str:
        status = self._process.wait(timeout=10)
        with contextlib.suppress(OSError):
            text = self.log.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL:].strip()
            if text:
                return f"status {status}, {text.splitlines()[-1]}"
        return f"status {status}"

    def pause(self) -> None:
        """Stop the process and all its threads; returns when it stands."""
        if self.running and self._process.poll() is None:
            self._signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.running = False

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)
        self.running = True

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """End the process; closing twice is allowed."""
        self._kill()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
