"""Random numbers of a stream that is drawn on a CUDA device: a thread makes the four words of a counter.

The numbers are those of `CounterGenerator`, whose formulas these are; logarithm, sine and cosine are the GPU's own, so
normal numbers may differ from the host's by a rounding. cuRAND has nothing to add: one launch makes them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from tazza.codegen.block import Slot, Word, float_word
from tazza.codegen.rows import when
from tazza.device.philox import FACTORS, ROUNDS, STEPS, TURN, WORDS
from tazza.engines.cuda import KIND, unavailable
from tazza.engines.cuda.launch import bound_alone
from tazza.engines.cuda.threads import Threads, each_launch
from tazza.random import DEVICE_STREAMS, Draw
from tazza.tensor.offer import Offer, Unsupported


@DEVICE_STREAMS.solving(KIND, place=KIND, help="Philox, a thread for four numbers")
def solve(task: Draw) -> Offer[Callable[[], None]] | Unsupported:
    """Compile the kernel of a kind of numbers."""
    missing = unavailable()
    if missing is not None:
        return Unsupported(missing)
    if task.kind not in WRITERS:
        return Unsupported(f"it draws {', '.join(WRITERS)}, not {task.kind} numbers")
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


def _write(kind: str, t: Threads, i: str) -> None:
    """Make four words, numbers of them, and keep those that were asked for."""
    counter = t.add(t.word("begin"), i)
    made = WRITERS[kind](t, philox(t, counter, t.word("key")))
    keep = t.put if kind == "integers" else t.store
    first = t.two("sub", t.mul(counter, WORDS), t.word("position"))
    for lane, value in enumerate(made):
        place = t.add(first, lane)
        when(t.lines, t.below(place, t.word("size")), partial(keep, "y", place, value))


def philox(t: Threads, counter: str, key: str) -> list[str]:
    """Write the rounds, and return the four words, each an int64 below 2**32."""
    low = 2**32 - 1
    a, b, c, d = t.two("and", counter, low), t.two("lshr", counter, 32), "0", "0"
    for turn in range(ROUNDS):
        own = t.two("and", t.add(key, turn * STEPS[0] % 2**32), low)
        first, second = t.mul(a, FACTORS[0]), t.mul(c, FACTORS[1])
        mixed = t.two("xor", t.two("lshr", second, 32), b), t.two("xor", t.two("lshr", first, 32), d)
        a, c = t.two("xor", mixed[0], own), t.two("xor", mixed[1], turn * STEPS[1] % 2**32)
        b, d = t.two("and", second, low), t.two("and", first, low)
    return [a, b, c, d]


def _unit(t: Threads, word: str) -> str:
    """Return a float32 in [0, 1) of the lower 24 bits."""
    v = t.single
    whole = t.lines.let(f"uitofp i64 {t.two('and', word, 0xFFFFFF)} to float")
    return v.mul(v.splat(whole), v.constant(2.0**-24))


def _moved(t: Threads, value: str) -> str:
    """Return low + range * value in float32."""
    v = t.single
    low, span = (t.narrow(t.real(name)) for name in ("low", "range"))
    return v.add(v.mul(value, span), low)


def _uniform(t: Threads, words: list[str]) -> list[str]:
    return [_moved(t, _unit(t, word)) for word in words]


def _gaussian(t: Threads, words: list[str]) -> list[str]:
    """Two numbers of each two words, in float64 until they are rounded (Box, Muller 1958)."""
    v, found = t.wide, list[str]()
    for pair in (words[:2], words[2:]):
        U, V = (t.widened(_unit(t, word)) for word in pair)
        log = v.each("log", v.sub(v.constant(1.0), V))
        radius, angle = v.intrinsic("sqrt", v.mul(v.constant(-2.0), log)), v.mul(v.constant(float(TURN)), U)
        both = (v.mul(radius, v.each(name, angle)) for name in ("cos", "sin"))
        found += [_moved(t, t.narrow(one)) for one in both]
    return found


def _integers(t: Threads, words: list[str]) -> list[str]:
    return [t.add(t.two("urem", word, t.word("range")), t.word("low")) for word in words]


WRITERS: Mapping[str, Callable[[Threads, list[str]], list[str]]] = {
    "uniform": _uniform,
    "gaussian": _gaussian,
    "integers": _integers,
}
"""Kind of numbers -> what makes four of four words."""
