"""Things that `with` closes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Base of what holds files, threads or nets: `with thing: ...` closes it at the end, on errors too.

    >>> class Door(Closing):
    ...     def close(self):
    ...         print("closed")
    >>> with Door() as door:
    ...     print("open")
    open
    closed
    """

    @abstractmethod
    def close(self) -> None:
        """Give back what is held; closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
