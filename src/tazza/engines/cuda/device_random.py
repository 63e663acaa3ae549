"""Random numbers of a stream that is drawn on a CUDA device: a thread makes the four words of a counter.

The numbers are those of `CounterGenerator`, whose formulas these are; logarithm, sine and cosine are the GPU's own, so
normal numbers may differ from the host's by a rounding. cuRAND has nothing to add: one launch makes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from tazza.codegen.block import Slot, Word, float_word
from tazza.codegen.loop import when
from tazza.codegen.term import Term
from tazza.device.philox import FACTORS, ROUNDS, STEPS, TURN, WORDS
from tazza.engines.cuda import KIND, unavailable
from tazza.engines.cuda.launch import bound_alone
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.random import DEVICE_STREAMS, Draw
from tazza.tensor.offer import Offer, Unsupported


@DEVICE_STREAMS.solving(KIND, place=KIND, help="Philox, a thread for four numbers")
def solve(task: Draw) -> Offer[Callable[[], None]]:
    """Compile the kernel of a kind of numbers."""
    missing = unavailable()
    if missing is not None:
        raise Unsupported(missing)
    if task.kind not in WRITERS:
        raise Unsupported(f"it draws {', '.join(WRITERS)}, not {task.kind} numbers")
    begin, size = task.position // WORDS, task.target.size
    threads = -(-(task.position + size) // WORDS) - begin if size else 0
    words: dict[str, Word] = {
        "begin": begin,
        "position": task.position,
        "size": size,
        "key": task.key,
        **{name: _word(task.kind, value) for name, value in (("low", task.low), ("range", task.range))},
        "y": Slot("y"),
    }
    launch = each_launch(f"random {task.kind}", threads, words, partial(_write, task.kind))
    return Offer(bound_alone(launch, {"y": task.target}, task.place))


def _word(kind: str, value: float) -> int:
    return int(value) if kind == "integers" else float_word(float(np.float32(value)))


def _write(kind: str, t: Threads, i: Term) -> None:
    """Make four words, numbers of them, and keep those that were asked for."""
    counter = t.w.begin + i
    made = WRITERS[kind](t, philox(t, counter, t.w.key))
    keep = t.put if kind == "integers" else t.store
    first = counter * WORDS - t.w.position
    for lane, value in enumerate(made):
        place = first + lane
        when(place.below(t.w.size), partial(keep, "y", place, value))


def philox(t: Threads, counter: Term, key: Term) -> list[Term]:
    """Write the rounds, and return the four words, each an int64 below 2**32."""
    low = 2**32 - 1
    a, b, c, d = counter & low, counter.shifted_down(32), t.lines.number(0), t.lines.number(0)
    for turn in range(ROUNDS):
        own = (key + turn * STEPS[0] % 2**32) & low
        first, second = a * FACTORS[0], c * FACTORS[1]
        mixed = second.shifted_down(32) ^ b, first.shifted_down(32) ^ d
        a, c = mixed[0] ^ own, mixed[1] ^ (turn * STEPS[1] % 2**32)
        b, d = second & low, first & low
    return [a, b, c, d]


def _unit(t: Threads, word: Term) -> Term:
    """Return a float32 in [0, 1) of the lower 24 bits."""
    return t.counted(word & 0xFFFFFF) * 2.0**-24


def _moved(t: Threads, value: Term) -> Term:
    """Return low + range * value in float32."""
    low, span = (t.real(name).to("float") for name in ("low", "range"))
    return value * span + low


def _uniform(t: Threads, words: list[Term]) -> list[Term]:
    return [_moved(t, _unit(t, word)) for word in words]


def _gaussian(t: Threads, words: list[Term]) -> list[Term]:
    """Two numbers of each two words, in float64 until they are rounded (Box, Muller 1958)."""
    found = list[Term]()
    for pair in (words[:2], words[2:]):
        U, V = (_unit(t, word).to("double") for word in pair)
        radius, angle = (-2.0 * (1.0 - V).each("log")).intrinsic("sqrt"), float(TURN) * U
        found += [_moved(t, (radius * angle.each(name)).to("float")) for name in ("cos", "sin")]
    return found


def _integers(t: Threads, words: list[Term]) -> list[Term]:
    return [word % t.w.range + t.w.low for word in words]


WRITERS: Mapping[str, Callable[[Threads, list[Term]], list[Term]]] = {
    "uniform": _uniform,
    "gaussian": _gaussian,
    "integers": _integers,
}
"""Kind of numbers -> what makes four of four words."""
