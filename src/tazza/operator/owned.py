"""The nets of one operator: a host kernel that runs nets makes them here, and they end with it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tazza.operator.observable import Observer
from tazza.operator.owner import BlobOwner, RunnableNet
from tazza.proto import NetDef

if TYPE_CHECKING:
    from tazza.operator.operator import Operator


class OwnedNets:
    """Nets that live as long as whoever made them holds them, at most until the operator is closed.

    State: `_nets` and who observes their operators, which the thread that runs the operator changes; others only cancel
    what waits.
    """

    def __init__(self, operator: Operator) -> None:
        """Own none yet."""
        self._operator = operator
        self._nets: list[weakref.ref[RunnableNet]] = []  # copied in one step, which a set of them is not
        self._observers: tuple[Observer[object], ...] = ()

    def __iter__(self) -> Iterator[RunnableNet]:
        return iter([net for reference in list(self._nets) if (net := reference()) is not None])

    def make(self, definition: NetDef, blobs: BlobOwner | None = None) -> RunnableNet:
        """Return a net on the blobs of a workspace, by default the operator's own.

        Raises:
            TazzaError: the net is not legal.
        """
        made = (self._operator.workspace if blobs is None else blobs).net(definition, within=self._operator)
        self._nets = [reference for reference in self._nets if reference() is not None]
        self._nets.append(weakref.ref(made))
        for operator in made.operators:
            for observer in self._observers:
                attach_throughout(operator, observer)
        return made

    def attach(self, observer: Observer[object]) -> None:
        """Attach an observer to every operator of every net, also of those to come."""
        if observer not in self._observers:
            self._observers = (*self._observers, observer)
        for net in self:
            for operator in net.operators:
                attach_throughout(operator, observer)

    def detach(self, observer: Observer[object]) -> None:
        """Detach it from all of them."""
        self._observers = tuple(one for one in self._observers if one is not observer)
        for net in self:
            for operator in net.operators:
                detach_throughout(operator, observer)

    def cancel(self) -> None:
        """Ask what waits in them to give up; a run ends by itself, since its net asks `Operator.check`."""
        for net in self:
            net.cancel_waiting()

    def close(self) -> None:
        """End all nets."""
        for net in self:
            net.close()
        self._nets.clear()


def attach_throughout(operator: Operator, observer: Observer[object]) -> None:
    """Attach an observer to an operator and to all operators of the nets that it runs, now and later."""
    operator.attach(observer)
    if operator.owned is not None:
        operator.owned.attach(observer)


def detach_throughout(operator: Operator, observer: Observer[object]) -> None:
    """Detach it from all of them."""
    operator.detach(observer)
    if operator.owned is not None:
        operator.owned.detach(observer)
