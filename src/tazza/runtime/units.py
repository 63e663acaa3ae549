"""Numbers as people read them: three digits and a unit. All that commands print of times and sizes is written here."""

from __future__ import annotations

import math

_SIZES = ("", "k", "M", "G", "T", "P", "E")
_TIMES = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


def digits(value: float, count: int = 3) -> str:
    """Return a number with so many digits that tell something; those before the point are never left out.

    >>> digits(0.2679), digits(37.61), digits(1234.5), digits(2.0), digits(0.0)
    ('0.268', '37.6', '1234', '2.00', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    places = max(0, count - 1 - math.floor(math.log10(abs(value))))
    shown = f"{value:.{places}f}"
    # 9.999 is 10.00 with three places, which is a digit too many
    return shown if places == 0 or sum(map(str.isdigit, shown.lstrip("-0."))) <= count else f"{value:.{places - 1}f}"


def duration(seconds: float) -> str:
    """Return a time in the unit that suits it.

    >>> duration(0.00027), duration(3.2e-6), duration(75), duration(0)
    ('0.270 ms', '3.20 µs', '75.0 s', '0 s')
    """
    # A unit is taken from a tenth of it on, as people do with milliseconds.
    unit, worth = next(((name, worth) for name, worth in _TIMES if abs(seconds) >= worth / 10), _TIMES[-1])
    return f"{digits(seconds / worth)} {unit}" if seconds else "0 s"


def scaled(value: float, unit: str) -> str:
    """Return an amount with a prefix for thousands before its unit.

    >>> scaled(2.1e9, "FLOP"), scaled(999, "FLOP"), scaled(0, "FLOP"), scaled(999_999, "B")
    ('2.10 GFLOP', '999 FLOP', '0 FLOP', '1.00 MB')
    """
    power = 0
    # What is rounded to 1000 is one of the next prefix.
    while abs(value) >= 999.5 and power < len(_SIZES) - 1:
        value, power = value / 1000, power + 1
    return f"{digits(value) if power else f'{value:g}'} {_SIZES[power]}{unit}"


def size(nbytes: float) -> str:
    """Return bytes in the unit that suits them, of 1000 each step.

    >>> size(1_300_000), size(64)
    ('1.30 MB', '64 B')
    """
    return scaled(nbytes, "B")


def operations(flops: float) -> str:
    """Return operations on floating-point numbers in the unit that suits them.

    >>> operations(588_000), operations(3.2e12)
    ('588 kFLOP', '3.20 TFLOP')
    """
    return scaled(flops, "FLOP")
