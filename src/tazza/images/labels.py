"""Labels: what the classes of a net are called, from the files that people have.

Three forms are read. A label in each line, that of class 0 first; the identifiers of ImageNet's synsets in front of
them (`n01440764 tench`) are left out. A number and a label in each line, as in `0: 'tench',` or `0 tench`, in any
order, braces around it or not. JSON: a list, or a table of them by number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from tazza.errors import FormatError
from tazza.runtime.files import AnyPath, one_line, read_text, shown

CLASSES_MAX = 1 << 22
_SYNSET = re.compile(r"n\d{8}[\s,:]+")
_NUMBERED = re.compile(r"""\{?\s*(?P<number>\d+)\s*[:,\t ]\s*(?P<quote>['"]?)(?P<label>.*?)(?P=quote)\s*[,}]*""")


def read_labels(path: AnyPath) -> tuple[str, ...]:
    """Return the label of each class, that of class 0 first; what a numbered file leaves out is the number itself.

    Raises:
        FileError: the file is missing or cannot be read.
        FormatError: it is no text, says two labels of one class, or has none.
    """
    text = read_text(path, "file of labels")
    try:
        found = _from_json(text) if text.lstrip()[:1] in ("[", "{") else None
        labels = _from_lines(text) if found is None else found
    except ValueError as error:
        raise FormatError(
            f"{shown(path)} is no file of labels: {one_line(error)}", hint="one label in each line, class 0 first"
        ) from error
    if not labels:
        raise FormatError(f"{shown(path)} has no labels", hint="one in each line, class 0 first")
    return labels


def _from_json(text: str) -> tuple[str, ...] | None:
    """Return the labels of JSON; None: it is none, such as a table of Python."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return None
    table = cast("dict[str, Any]", found) if isinstance(found, dict) else None
    values: list[Any] = cast("list[Any]", found) if table is None else list(table.values())
    if not all(isinstance(value, str) for value in values):
        raise ValueError("a label that is no text")
    return tuple(values) if table is None else _by_number({int(number): label for number, label in table.items()})


def _from_lines(text: str) -> tuple[str, ...]:
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and line not in ("{", "}")]
    numbered = [_NUMBERED.fullmatch(line) for line in lines]
    matches = [match for match in numbered if match is not None]
    if len(matches) < len(lines):
        return tuple(_SYNSET.sub("", line, count=1) if _SYNSET.match(line) else line for line in lines)
    found: dict[int, str] = {}
    for match in matches:
        number = int(match["number"])
        if number in found:
            raise ValueError(f"class {number} has two labels")
        found[number] = match["label"]
    return _by_number(found)


def _by_number(found: Mapping[int, str]) -> tuple[str, ...]:
    if not found:
        return ()
    most = max(found)
    if min(found) < 0 or most >= CLASSES_MAX:
        raise ValueError(f"classes from {min(found)} to {most}")
    return tuple(found.get(number, str(number)) for number in range(most + 1))
