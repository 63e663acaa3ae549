"""Text with headers, lists, tables and code; `Markdown` writes that of its name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from caffe2.python.docs.parser import Parser

__all__ = ["Formatter", "Markdown", "Parser"]


class Formatter:
    """Gathers a text; one's own defines the `add` methods."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.content = ""

    def clone(self) -> Any:
        """Return an empty one of this kind."""
        return self.__class__()

    def dump(self) -> str:
        """Return what was gathered."""
        return self.content

    def parseAndAdd(self, text: str) -> None:
        """Add a text whose marks are formatted."""
        self.addRaw(Parser(text, self).parse())

    def _missing(self) -> NotImplementedError:
        return NotImplementedError(f"{type(self).__name__} has to define this")

    def addRaw(self, text: str) -> None:
        """Add a text as it is."""
        raise self._missing()

    def addLine(self, text: str) -> None:
        """Add a line."""
        raise self._missing()

    def addLinebreak(self) -> None:
        """End a line."""
        raise self._missing()

    def addHeader(self, text: str) -> None:
        """Add a header."""
        raise self._missing()

    def addEmphasis(self, text: str) -> None:
        """Add what is emphasized."""
        raise self._missing()

    def addList(self, textList: Sequence[str]) -> None:
        """Add a list."""
        raise self._missing()

    def addLink(self, text: str, url: str) -> None:
        """Add a link."""
        raise self._missing()

    def addCode(self, text: str) -> None:
        """Add code."""
        raise self._missing()

    def addCodeLink(self, text: str) -> None:
        """Add a link to code."""
        raise self._missing()

    def addTable(self, table: Sequence[Sequence[str]]) -> None:
        """Add a table."""
        raise self._missing()

    def addBreak(self) -> None:
        """Add a line between parts."""
        raise self._missing()


class Markdown(Formatter):
    """Gathers Markdown."""

    def addRaw(self, text: str) -> None:
        """Add a text as it is."""
        self.content += text

    def addLine(self, text: str, new_line: bool = False) -> None:
        """Add a line, with an empty one in front if it is a `new_line`."""
        self.content += f"{chr(10) if new_line else ''}{text}\n"

    def addLinebreak(self) -> None:
        """End a line."""
        self.content += "\n"

    def addHeader(self, text: str, h: int = 1) -> None:
        """Add a header of a level."""
        self.addLine(f"{'#' * h} {text}", True)

    def addEmphasis(self, text: str, s: int = 1) -> None:
        """Add what is emphasized, with so many stars."""
        self.addRaw(f"{'*' * s}{text}{'*' * s}")

    def addList(self, textList: Sequence[str]) -> None:
        """Add a list."""
        for text in textList:
            self.addLine(f"- {text}", True)
        self.content += "\n"

    def addLink(self, text: str, url: str) -> None:
        """Add a link."""
        self.addRaw(f"[{text}]({url})")

    def addCodeLink(self, path: str, options: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] -- the old name
        """Add a path of code."""
        self.addRaw(f"({path})")

    def addCode(self, text: str, inline: bool = False) -> None:
        """Add code, in a block of its own unless it is `inline`."""
        self.addRaw(f"`{text}`" if inline else f"\n\n```\n{text}```\n\n")

    def addTable(self, table: Sequence[Sequence[str]], noTitle: bool = False) -> None:
        """Add a table whose first row is the title, unless it has none."""
        assert len(table) > 1, "a table has two rows at least"
        self.addLinebreak()
        title = [" "] * len(table[0]) if noTitle else list(table[0])
        self.addLine(" | ".join(title))
        self.addLine(" | ".join(["----"] * len(table[0])))
        for row in table if noTitle else table[1:]:
            self.addLine(" | ".join(row))
        self.addLinebreak()

    def addBreak(self) -> None:
        """Add a line between parts."""
        self.addLine("\n---\n", True)
