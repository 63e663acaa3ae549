"""The net types that laws are shown with: each class once, whatever other names it has."""

from __future__ import annotations

from tazza.nets import NETS


def one_of_each() -> list[str]:
    """Return the names of net types, of several for one class the last.

    `tests/nets/test_net_types.py` holds which are one class, so that what holds for a name holds for the others.

    >>> {"async_simple", "rnn", "simple"} & set(one_of_each())
    {'simple'}
    """
    return sorted({NETS[name]: name for name in sorted(NETS)}.values())
