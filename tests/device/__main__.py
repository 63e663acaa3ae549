"""Random nets and mutants at full size: python -m tests.device [--nets 10000] [--mutants 300] [--seed 1].

Both go on in steps. Whoever stops it (Ctrl-C) is told what was found until then, and by which seeds it can go on.
"""

from __future__ import annotations

import argparse

from rich.progress import track

from tests.device.random_nets import KINDS, Judged, judge_mutants, judge_nets

NETS, MUTANTS = 100, 10
"""Of a step."""


def run_nets(count: int, seed: int) -> int:
    """Run random nets, and return how many were run before somebody stopped it; raises what is wrong with one."""
    done = 0
    try:
        for start in track(range(0, count, NETS), f"{count} nets on a host and two devices"):
            judge_nets(min(NETS, count - start), seed + start)
            done = min(count, start + NETS)
    except KeyboardInterrupt:
        print(f"stopped: --seed {seed + done} goes on")
    return done


def run_mutants(count: int, seed: int) -> Judged:
    """Make mutants, and return what was found before somebody stopped it."""
    judged = Judged(last=seed)
    try:
        for start in track(range(0, count, MUTANTS), f"{count} mutants"):
            judge_mutants(min(count, start + MUTANTS), seed, judged=judged)
    except KeyboardInterrupt:
        print(f"stopped: --seed {judged.last} goes on")
    return judged


def show(judged: Judged) -> None:
    """Print what was found of mutants."""
    print("found  by numbers  by order  needless  what was done otherwise")
    for kind in KINDS:
        made, missed = judged.made[kind], sum(one == kind for _, one in judged.missed)
        figures = judged.by_numbers[kind], judged.by_order[kind], judged.needless[kind]
        print(f"{made - missed:>3} of {made:<3}{figures[0]:>6}{figures[1]:>10}{figures[2]:>10}  {kind}")
    found = judged.made.total() - len(judged.missed)
    print(f"{found} of {judged.made.total()} mutants found; missed: {judged.missed}")


def main() -> None:
    """Run both, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nets", 10_000), ("mutants", 300), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    if given.nets:
        done = run_nets(given.nets, given.seed)
        print(f"{done} nets: all give the numbers of the host, and nothing touches one place without an order")
    if given.mutants:
        show(run_mutants(given.mutants, given.seed))


if __name__ == "__main__":
    main()
