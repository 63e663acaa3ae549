"""Waiting for the work of streams whose errors are told elsewhere, or are of no interest any more."""

from __future__ import annotations

from collections.abc import Iterable

from tazza.device import Event, Stream
from tazza.runtime.log import logger


def await_event(event: Event) -> None:
    """Wait until the work of an event has ended; what it raised stays in the event."""
    try:
        event.wait()
    except Exception:
        return  # whoever handles the event takes it from there


def drain(stream: Stream) -> None:
    """Wait for what a task queued before it failed; what that work raises in turn is of no interest."""
    try:
        stream.synchronize()
    except Exception:
        logger.debug("work on stream %s failed behind an error", stream.name)


def recover(streams: Iterable[Stream]) -> None:
    """Let streams forget what failed in a run: other runs use them too."""
    for stream in streams:
        try:
            stream.recover()
        except Exception:
            logger.exception("stream %s could not be recovered", stream.name)
