"""How long it takes to find the blocks of a net and to lay it out: `python -m benchmarks.view [--operators 5000]`.

Processor time, the least of three; of nets that are one chain of blocks, one chain without any, dense, and wide.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from tazza.graph.text import parse_net
from tazza.observers.view import Subject, document_of, page_of
from tazza.observers.view.facts import Findings, data_of, net_drawn
from tazza.observers.view.layout import arrange
from tazza.observers.view.repeats import find_repeats
from tazza.observers.view.scene import scene_of
from tazza.proto import NetDef

T = TypeVar("T")
REPEATS = 3


def residual(count: int) -> Iterator[str]:
    """Yield blocks of five operators, each of which adds what it reads to what it makes."""
    for at in range(count // 5):
        yield f"h{at} = FC(x{at}, W{at}, b{at})"
        yield f"h{at} = Relu(h{at})"
        yield f"g{at} = FC(h{at}, V{at}, c{at})"
        yield f"x{at + 1} = Sum(g{at}, x{at})"
        yield f"x{at + 1} = Relu(x{at + 1})"


def unlike(count: int) -> Iterator[str]:
    """Yield a chain of which no two operators are alike."""
    for at in range(count):
        yield f"x{at + 1} = LeakyRelu(x{at}; alpha={at / count})"


def dense(count: int) -> Iterator[str]:
    """Yield operators of which every tenth reads all of its kind before it, up to a hundred."""
    for at in range(count):
        before = [f"x{one}" for one in range(max(0, at - 1000), at, 10)] if at % 10 == 0 else []
        yield f"x{at + 1} = Sum({', '.join([f'x{at}', *before])})"


def wide(count: int) -> Iterator[str]:
    """Yield operators that all read the same, and one that reads them."""
    yield from (f"y{at} = LeakyRelu(x0; alpha={at / count})" for at in range(count - 1))
    yield f"z = Sum({', '.join(f'y{at}' for at in range(count - 1))})"


NETS = {"residual blocks": residual, "no two alike": unlike, "dense": dense, "wide": wide}


def timed(make: Callable[[], T]) -> tuple[float, T]:
    """Return the least seconds of processor time, and what was made."""
    best, made = float("inf"), make()
    for _ in range(REPEATS):
        start = time.process_time()
        made = make()
        best = min(best, time.process_time() - start)
    return best, made


def measure(name: str, net: NetDef) -> str:
    """Return a row of the table."""
    drawn = net_drawn(net, Findings(), data_of(net), ())
    count = len(drawn.ops)
    keys = [op.key for op in drawn.ops]
    repeats_s, _ = timed(lambda: find_repeats(keys, [0] * (count + 1)))
    layout_s, _ = timed(lambda: arrange(count, drawn.wiring.edges))
    scene_s, _ = timed(lambda: scene_of(drawn))
    page = len(page_of(document_of(Subject(net), passes=False)))
    whole = f"{(layout_s) * 1e3:.0f} ms ({scene_s * 1e3:.0f} ms with blocks and their levels)"
    return f"| {name} | {repeats_s * 1e3:.0f} ms | {whole} | {page / 1e6:.1f} MB |"


def main() -> None:
    """Print a row for each net."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=5000)
    count = parser.parse_args().operators
    for name, lines in NETS.items():
        print(measure(name, parse_net("in: x0", *lines(count))))


if __name__ == "__main__":
    main()
