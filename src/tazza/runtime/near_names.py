"""Names that are like one which nobody knows: what a hint proposes, for all of tazza."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

MOST = 3
"""How many names are proposed."""


def near_names(name: str, allowed: Iterable[str]) -> list[str]:
    """Return the names that are most like one, the likest first.

    Capitals count for nothing where no name is like it with them.

    >>> near_names("kernal", ["kernel", "stride", "pad"]), near_names("RELU", ["Relu", "Sum"])
    (['kernel'], ['Relu'])
    """
    names = list(allowed)
    like = difflib.get_close_matches(name, names, n=MOST)
    if like:
        return like
    folded = {one.lower(): one for one in names}
    return [folded[one] for one in difflib.get_close_matches(name.lower(), list(folded), n=MOST)]


def did_you_mean(name: str, allowed: Iterable[str], *, show: Callable[[str], str] = str) -> str | None:
    """Return a hint with the names that are like one, None where none is; `show` writes one of them.

    >>> did_you_mean("minibd", ["minidb", "lmdb"]), did_you_mean("x", ["minidb"])
    ('did you mean minidb?', None)
    """
    near = near_names(name, allowed)
    return f"did you mean {' or '.join(map(show, near))}?" if near else None
