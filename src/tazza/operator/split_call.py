"""Calls in two parts: what the host does anew in each run, and what is queued on a device, the same each time.

A device that records calls keeps the second part alone; whoever lets the recording run makes the first part before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.data_class import dataclass
from tazza.operator.kernel import Call, CallChain

HostPart = Callable[[], object]
"""What the host does. Parts that are equal do the same, which need not be done twice before one recording."""


@dataclass(frozen=True, slots=True)
class SplitCall:
    """A call of a launch that is `capturable`, though the host has a part in it.

    That part changes nothing on the device that other launches may use: it can be made before all of a recording.
    """

    host: HostPart
    queued: Call

    def __call__(self) -> None:
        """Do both."""
        self.host()
        self.queued()


def split(calls: Sequence[Call]) -> tuple[list[HostPart], list[Call]]:
    """Return what the host does for calls one after the other, each part once, and what is queued.

    >>> hosts, queued = split([CallChain((SplitCall(print, len), len)), SplitCall(print, repr)])
    >>> hosts == [print], queued == [len, len, repr]
    (True, True)
    """
    hosts: dict[HostPart, None] = {}
    queued: list[Call] = []
    for call in calls:
        if isinstance(call, SplitCall):
            hosts[call.host] = None
        parts = (call.queued,) if isinstance(call, SplitCall) else call.calls if isinstance(call, CallChain) else None
        if parts is None:
            queued.append(call)
            continue
        own, inner = split(parts)
        hosts.update(dict.fromkeys(own))
        queued += inner
    return list(hosts), queued
