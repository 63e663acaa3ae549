"""Where an element lies in operands that do not all go on without a gap: its place along dimensions, and in each."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.emit import Lines


def coordinates(lines: Lines, i: str, depth: int, bits: int) -> list[str]:
    """Return the place of element i along each dimension, outermost first; extents are words from 1 on.

    `bits` count the elements.
    """
    if depth == 0:
        return []
    kind = f"i{bits}"
    rest = i if bits == 64 else lines.let(f"trunc i64 {i} to i32")
    found: list[str] = []
    for axis in reversed(range(1, depth)):
        extent = lines.load_word("%block", 1 + axis)
        if bits == 32:
            extent = lines.let(f"trunc i64 {extent} to i32")
        found.append(lines.let(f"urem {kind} {rest}, {extent}"))
        rest = lines.let(f"udiv {kind} {rest}, {extent}")
    found.append(rest)
    return [one if bits == 64 else lines.let(f"zext i32 {one} to i64") for one in reversed(found)]


def place_in(lines: Lines, i: str, numbers: Sequence[str], word: int) -> tuple[str, str]:
    """Return the address of an operand, and the place of the element in it; its words begin at `word`."""
    pointer = lines.load_pointer("%block", word)
    if not numbers:
        return pointer, i
    total = "0"
    for k, number in enumerate(numbers):
        moved = lines.let(f"mul i64 {number}, {lines.load_word('%block', word + 1 + k)}")
        total = lines.let(f"add i64 {total}, {moved}")
    return pointer, total
