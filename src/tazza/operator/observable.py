"""Observers: objects that see operators and nets start and stop."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from tazza.runtime.log import logger

T = TypeVar("T")


class Observer(Generic[T]):
    """Base of all observers; `subject` is what it is attached to."""

    subject: T

    def attached(self, subject: T) -> None:
        """Called once when the observer is attached to `subject`."""
        self.subject = subject

    def start(self) -> None:
        """Called before each run of the subject."""

    def stop(self) -> None:
        """Called after each run of the subject, failed ones too."""


class Observable:
    """Something that observers attach to.

    An exception inside an observer is logged and swallowed: seeing never breaks a run.

    >>> thing, observer = Observable(), Observer()
    >>> thing.attach(observer) is observer, thing.detach(observer) is observer
    (True, True)
    """

    def __init__(self) -> None:
        """Start without observers."""
        self._observers: tuple[Observer[object], ...] = ()
        self._told: list[weakref.WeakMethod[Callable[[], object]]] = []

    @property
    def observers(self) -> Sequence[Observer[object]]:
        """Who is attached, in the order of attaching."""
        return self._observers

    def tell(self, method: Callable[[], object]) -> None:
        """Call a method whenever an observer comes or goes, as long as its object lives."""
        self._told = [reference for reference in self._told if reference() is not None]
        self._told.append(weakref.WeakMethod(method))

    def note_change(self) -> None:
        """Tell who asked for it that an observer came or went, or that what was prepared is gone."""
        for reference in self._told:
            method = reference()
            if method is not None:
                method()

    def attach(self, observer: Observer[object]) -> Observer[object]:
        """Attach `observer`; attaching the same object twice does nothing."""
        if observer not in self._observers:
            observer.attached(self)
            self._observers = (*self._observers, observer)
            self.note_change()
        return observer

    def detach(self, observer: Observer[object]) -> Observer[object] | None:
        """Detach `observer` and give it back; None when it was not attached."""
        if observer not in self._observers:
            return None
        self._observers = tuple(other for other in self._observers if other is not observer)
        self.note_change()
        return observer

    def start_all(self) -> None:
        """Tell every observer that a run starts."""
        for observer in self._observers:
            try:
                observer.start()
            except Exception:
                logger.exception("observer %r failed at the start of %r", observer, self)

    def stop_all(self) -> None:
        """Tell every observer that a run has ended."""
        for observer in self._observers:
            try:
                observer.stop()
            except Exception:
                logger.exception("observer %r failed at the end of %r", observer, self)
