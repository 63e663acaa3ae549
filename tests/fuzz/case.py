"""One fuzzed input, and what went wrong with one; both as small JSON files that a person can read."""

from __future__ import annotations

import base64
import json
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tazza.runtime.digest import digest_of


@dataclass(frozen=True, slots=True)
class Case:
    """An input: bytes by name, and words that say what is done with them.

    >>> case = Case("files", 3, {"file": b"net"}, ("netdef",))
    >>> Case.of(case.stored()) == case
    True
    """

    kind: str
    seed: int
    parts: Mapping[str, bytes]
    words: tuple[str, ...] = ()

    def stored(self) -> dict[str, Any]:
        """Return what JSON can hold."""
        parts = {name: _written(data) for name, data in self.parts.items()}
        return {
            "kind": self.kind,
            "seed": self.seed,
            "words": [_written(w.encode("utf-8", "surrogatepass")) for w in self.words],
            "parts": parts,
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Case:
        """Return what `stored` gave."""
        words = tuple(_read(word).decode("utf-8", "surrogatepass") for word in stored["words"])
        return cls(stored["kind"], stored["seed"], {k: _read(v) for k, v in stored["parts"].items()}, words)


@dataclass(frozen=True, slots=True)
class Finding:
    """What went wrong: `what` and `where` tell findings apart, `detail` is for people (a traceback, a stack)."""

    what: str
    where: str
    detail: str
    case: Case = field(compare=False)

    @property
    def key(self) -> str:
        """What equal findings have in common."""
        return f"{self.case.kind}-{digest_of(f'{self.what} {self.where}'.encode()).hex()[:10]}"

    def write(self, folder: Path) -> Path:
        """Write the finding to a file of `folder`, which `read_case` reads."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.key}.json"
        told = {
            "what": without_places(self.what),
            "where": without_places(self.where),
            "detail": without_places(self.detail).splitlines()[-40:],
            **self.case.stored(),
        }
        path.write_text(json.dumps(told, indent=1) + "\n")
        return path


def without_places(text: str) -> str:
    """Return a text in which paths begin at the repository, at Python's folders, or at the temporary one."""
    places = {
        Path(__file__).parents[2]: "",
        Path(sys.prefix): "python/",
        Path(sys.base_prefix): "python/",
        Path(tempfile.gettempdir()): "tmp/",
        Path.home(): "~/",
    }
    by_length = {str(form): name for place, name in places.items() for form in (place, place.resolve())}
    for place, name in sorted(by_length.items(), key=lambda each: -len(each[0])):
        text = text.replace(f"{place}/", name)
    return text


def read_case(path: Path) -> Case:
    """Return the input that a file of the corpus or of a finding holds."""
    return Case.of(json.loads(path.read_text()))


def _written(data: bytes) -> str | dict[str, str]:
    """Return text as it is, and other bytes in base64."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    return (
        text
        if text.isprintable() or (text.isascii() and "\0" not in text)
        else {"base64": base64.b64encode(data).decode()}
    )


def _read(stored: str | dict[str, str]) -> bytes:
    return stored.encode() if isinstance(stored, str) else base64.b64decode(stored["base64"])
