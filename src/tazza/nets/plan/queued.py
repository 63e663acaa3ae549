"""What a run of a plan has queued on devices, and who waits for it: not before something else follows."""

from __future__ import annotations

from tazza.device import Context, current_context
from tazza.errors import TazzaError
from tazza.nets.device import wait_there
from tazza.runtime.log import logger
from tazza.tensor import Place

LEFT = "blobs are valid, parameters may be partly updated"
"""What is said behind an error of a run."""


class Queued:
    """The contexts on which regions have queued work that nobody has waited for; of the one run at a time."""

    def __init__(self, net: str) -> None:
        """Begin with none; `net` is named by errors."""
        self.net = net
        self.contexts: dict[Place, Context] = {}

    def add(self, context: Context) -> None:
        """Note that work was, or will be, queued on a context."""
        self.contexts[context.place] = context

    def wait(self, but: Place | None = None) -> None:
        """Wait until devices have done their work, but for the one whose next work queues behind it.

        Raises:
            TazzaError: the first thing that failed; all have been waited for.
        """
        kept = None if but is None else self.contexts.get(but)
        if kept is not None and current_context(kept.place).stream is kept.stream:
            del self.contexts[kept.place]
        else:
            kept = None
        try:
            while self.contexts:
                wait_there(self.contexts.popitem()[1])
        finally:
            if self.contexts:  # one has failed
                self.wait()
            if kept is not None:
                self.contexts[kept.place] = kept

    def settle(self) -> None:
        """Wait for all at the end of a run; what they found wrong names the net.

        Raises:
            TazzaError: the first thing that failed.
        """
        try:
            self.wait()
        except TazzaError as error:
            error.add_context(f"in net {self.net!r}; {LEFT}")
            raise

    def give_up(self) -> None:
        """Wait for all behind a run that failed, whose error is the one to be raised."""
        try:
            self.wait()
        except TazzaError as error:
            logger.debug("a device failed behind a run of net %r that had failed: %s", self.net, error)
