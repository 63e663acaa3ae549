"""Recordings: work that calls would queue on a device, kept by the device, and queued as one from then on.

A device that keeps none has no recorder. What is recorded is what was queued, with its addresses: nothing that the host
does between two pieces of work is done again. So a recording holds whatever it was made of, and whoever records sees
to it that the calls do the same each time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tazza.device.context import Context


class Recording(ABC):
    """Work that was recorded; `operations` are the kernels and copies of it."""

    operations: int

    @abstractmethod
    def queue(self) -> None:
        """Queue all of it, in its order, after the work that the context got before.

        Raises:
            KernelError: the device refuses, or work that was queued before has failed.
        """


class Recorder(ABC):
    """Records what calls queue on `context`, and nowhere else; they do not run meanwhile.

    Calls are bound to that context, which nobody else queues on. Recordings are queued on the one that made the
    recorder.
    """

    context: Context

    @abstractmethod
    def record(self, work: Callable[[], object]) -> Recording:
        """Call `work()` and return what it queued.

        Raises:
            KernelError: it did what cannot be recorded: waited, copied from or to the host, took memory of the device.
            UnavailableError: the driver is too old.
        """
