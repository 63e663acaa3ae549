"""Shape patterns: `"N C *S"` says rank and equalities of dimensions in the letters that a family uses.

A pattern is a row of tokens: a letter (or word) stands for one dimension, `*S` for any number of dimensions, a number
for itself. The same letter in two blobs of one operator stands for the same extent; `Bindings` remembers who said
what, so that an error names both. `#S`, which stands alone, is any shape with as many elements as `*S` has in a blob
before it, or as the first blob of `#S` where there is none. `_` and `*_` stand for any extent and any run, and for
others each time.

So a variadic letter, a list of tensors, says what its tensors have in common: `"*S"` is one shape for all, `"N *_"` one
first extent, no pattern nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field
from typing import TypeAlias, cast

from tazza.data_class import dataclass
from tazza.errors import ShapeError

Dims: TypeAlias = tuple[int | None, ...]
"""Extents of a blob or a part of it; None is an unknown one."""


@dataclass(slots=True)
class Bindings:
    """What the letters stand for, and the blob that said so first."""

    extents: dict[str, Dims] = field(default_factory=dict[str, Dims])
    origin: dict[str, str] = field(default_factory=dict[str, str])

    def bind(self, token: str, extents: Dims, blob: str) -> None:
        """Say that `token` stands for `extents` in `blob`.

        Raises:
            ShapeError: another blob said otherwise.
        """
        known = self.extents.get(token)
        if known is None:
            self.extents[token], self.origin[token] = extents, blob
            return
        fits = len(known) == len(extents) and all(
            a == b or a is None or b is None for a, b in zip(known, extents, strict=True)
        )
        if not fits:
            letter = token.lstrip("*")
            raise ShapeError(
                f"{letter} is {show_dims(extents)} in {blob} and {show_dims(known)} in {self.origin[token]}",
                hint=f"both blobs must have the same {letter}",
            )
        self.extents[token] = tuple(b if a is None else a for a, b in zip(known, extents, strict=True))


def match(pattern: str, dims: Dims | None, blob: str, bindings: Bindings) -> None:
    """Check `dims` of `blob` against `pattern` and bind its letters; unknown dimensions and ranks fit everything.

    >>> bindings = Bindings(); match("N *S", (2, 3, 5), "X", bindings); bindings.extents["*S"]
    (3, 5)
    >>> match("N *_", (2,), "Z", bindings); bindings.extents["N"]  # a list of equal first extent
    (2,)

    Raises:
        ShapeError: the rank is wrong, or a letter stands for another extent elsewhere.
    """
    if dims is None:
        return
    if pattern.startswith("#"):
        _match_size(pattern, dims, blob, bindings)
        return
    tokens = pattern.split()
    star = next((i for i, token in enumerate(tokens) if token.startswith("*")), None)
    fixed = len(tokens) - (star is not None)
    if len(dims) < fixed or (star is None and len(dims) > fixed):
        least = "at least " if star is not None else ""
        raise ShapeError(
            f"{blob} has rank {len(dims)} {show_dims(dims)}, it must have {least}{fixed} dimensions: ({pattern})"
        )
    run = len(dims) - fixed
    position = 0
    for token in tokens:
        width = run if token.startswith("*") else 1
        part = dims[position : position + width]
        position += width
        if token.lstrip("*") == "_":
            continue
        if token.isdigit():
            if part != (int(token),) and None not in part:
                raise ShapeError(
                    f"{blob} has the dimensions {show_dims(dims)}, dimension {position - 1} must be {token}"
                )
        else:
            bindings.bind(token, part, blob)


def _match_size(pattern: str, dims: Dims, blob: str, bindings: Bindings) -> None:
    run = f"*{pattern[1:]}"
    known = bindings.extents.get(run)
    if known is None:
        bindings.bind(run, dims, blob)
        return
    if None in known or None in dims:
        return
    found, wanted = (math.prod(cast("tuple[int, ...]", each)) for each in (dims, known))
    if found != wanted:
        raise ShapeError(
            f"{blob} has {found} elements {show_dims(dims)}, {bindings.origin[run]} has {wanted} {show_dims(known)}",
            hint="both must have as many",
        )


def fill(pattern: str, bindings: Bindings) -> Dims | None:
    """Return the extents that `pattern` stands for; None when a run `*S` is unknown."""
    extents: list[int | None] = []
    for token in pattern.split():
        if token.isdigit():
            extents.append(int(token))
            continue
        known = bindings.extents.get(token)
        if known is None and token.startswith("*"):
            return None
        extents.extend((None,) if known is None else known)
    return tuple(extents)


def show_dims(dims: Sequence[int | None]) -> str:
    """Return extents for a message, unknown ones as `?`.

    >>> show_dims((2, None))
    '(2, ?)'
    """
    return "(" + ", ".join("?" if extent is None else str(extent) for extent in dims) + ")"
