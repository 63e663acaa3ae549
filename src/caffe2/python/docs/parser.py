"""The marks in the texts of operators: code, links, emphasis."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Act = Callable[[str, Any], None]


def _joined(text: str) -> str:
    r"""Return a text without the ends of lines, but for those behind a full stop.

    >>> _joined("a\nb.\nc\n\nd")
    'a b.\nc  d'
    """
    while (shorter := re.sub(r"([^.])\n", r"\1 ", text)) != text:
        text = shorter
    return text


class Parser:
    """Rewrites a text rule by rule; what a rule has written, later ones leave alone."""

    regexes: tuple[tuple[str, Act | None], ...] = (
        (r"````(.+?)````", lambda found, formatter: formatter.addCode(found)),
        (r"```(.+?)```", lambda found, formatter: formatter.addCode(found)),
        (r"((?:(?: {2})+\S.*(?:\n\s*\n|\n))+)", lambda found, formatter: formatter.addCode(found)),
        (r"([^.])\n", None),
        (r"`(.+?)`", lambda found, formatter: formatter.addCode(found, inline=True)),
        (r"(https?://[^\s\"<>\\^`{|}]+)", lambda found, formatter: formatter.addLink(found, found)),
        (r"\*\*(.+?)\*\*", lambda found, formatter: formatter.addEmphasis(found, 2)),
        (r"\*(.+?)\*", lambda found, formatter: formatter.addEmphasis(found, 1)),
    )
    """Pattern, and what a formatter is told of it; None where lines are joined."""

    def __init__(self, text: str, formatter: Any) -> None:
        """Take a text, and what formats its parts."""
        self.text = text
        self.formatter = formatter

    def parse(self) -> str:
        """Return the text in the form of the formatter."""
        self.parseText()
        return self.text

    def parseText(self) -> None:
        """Format the text in place."""
        parts: list[tuple[str, bool]] = [(self.text, False)]  # and whether a rule has written it
        for pattern, act in self.regexes:
            parts = [part for one in parts for part in ([one] if one[1] else self._split(one[0], pattern, act))]
        self.text = " ".join(text for text, _ in parts if text)

    def _split(self, text: str, pattern: str, act: Act | None) -> list[tuple[str, bool]]:
        if act is None:
            return [(_joined(text), False)]
        parts: list[tuple[str, bool]] = []
        end = 0
        for match in re.finditer(pattern, text):
            formatter = self.formatter.clone()
            act(match.group(1), formatter)
            parts += [(text[end : match.start()], False), (formatter.dump(), True)]
            end = match.end()
        return [*parts, (text[end:], False)]
