"""What a team and a slot consist of, in memory: one table of fields each; `<team.done>` in the code is where one lies.

A *team* is a thread that begins regions, and its workers. Its `word` holds the number of the region (32 bits), how many
parts that region has (16) and how many of them are taken (16): one compare-and-swap takes a part, and fails as soon as
the region is another. Whoever took a part reads `function` and `data` after that; they stay as they are until all parts
are done. Every thread has a *slot*, found by a key of pthread: the part it is in, and of how many.
"""

from __future__ import annotations

import re

WORKERS_MAX = 4095
"""Workers of a team. A region that asks for more ends the process with a message, as one does for which the system
gives no threads, here and in libgomp: kernels of oneDNN rely on as many parts as they were made for."""
DEPTH_MAX = 31
"""Regions within regions whose outer parts a slot remembers."""

_TEAM = {
    "word": 0,
    "number": 4,  # the upper half of `word`, which sleeping workers wait on
    "sleepers": 8,
    "stop": 12,
    # a cache line of what the region is
    "function": 64,
    "data": 72,
    "mode": 80,  # MXCSR of the thread that began it
    # a line each for what workers and barriers write
    "done": 128,
    "arrived": 192,
    "passed": 196,
    # a line of what the team is, and its threads
    "workers": 256,
    "process": 260,
    "threads": 512,
}
"""Offsets in bytes; a team is aligned to 64, and its address is that of `word`."""
_SLOT = {
    "own": 0,  # the team that this thread begins regions in
    "team": 8,  # the one of the region that it is in
    "part": 16,
    "parts": 20,
    "active": 24,
    "depth": 28,
    # a loop
    "start": 32,
    "step": 40,
    "chunk": 48,
    "count": 56,
    "turn": 64,
    "end": 72,
    # for each depth what an outer region had from `part` to `end`
    "outer": 128,
}
"""Offsets in bytes; a slot's address is that of `own`."""
_FIELDS = {"team": _TEAM, "slot": _SLOT}
_FIELD = re.compile(r"<(team|slot)\.(\w+)(?: of (%\w+))?>")

TEAM_HEAD_BYTES = _TEAM["threads"]
TEAM_BYTES = TEAM_HEAD_BYTES + 8 * (WORKERS_MAX + 1)
OUTER_BYTES = _SLOT["end"] - _SLOT["part"]
SLOT_BYTES = _SLOT["outer"] + OUTER_BYTES * (DEPTH_MAX + 1)


def with_fields(text: str) -> str:
    """Return LLVM IR in which each `<team.done>` is the address of that field of %team, or `of` another pointer.

    It is computed in a line before, so a field stands in no phi.

    Raises:
        KeyError: there is no such field.

    >>> print(with_fields("store i32 1, ptr <slot.part of %made>"))
      %field0 = getelementptr i8, ptr %made, i64 16
    store i32 1, ptr %field0
    """
    lines: list[str] = []

    def address(found: re.Match[str]) -> str:
        kind, field, base = found[1], found[2], found[3]
        name = f"%field{len(lines)}"
        pointer = f"%{kind}" if base is None else base
        lines.append(f"  {name} = getelementptr i8, ptr {pointer}, i64 {_FIELDS[kind][field]}")
        return name

    for line in text.splitlines():
        lines.append(_FIELD.sub(address, line))
    return "\n".join(lines)
