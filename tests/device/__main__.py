"""Random nets and mutants at full size: python -m tests.device [--nets 10000] [--mutants 300] [--seed 1]."""

from __future__ import annotations

import argparse

from rich.progress import track

from tests.device.random_nets import KINDS, judge_mutants, judge_nets

STEP = 100


def main() -> None:
    """Run both, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nets", 10_000), ("mutants", 300), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    for start in track(range(0, given.nets, STEP), f"{given.nets} nets on a host and two devices"):
        judge_nets(min(STEP, given.nets - start), given.seed + start)
    print(f"{given.nets} nets: all give the numbers of the host, and nothing touches one place without an order")
    judged = judge_mutants(given.mutants, given.seed)
    print("found  by numbers  by order  needless  what was done otherwise")
    for kind in KINDS:
        made, missed = judged.made[kind], sum(one == kind for _, one in judged.missed)
        figures = judged.by_numbers[kind], judged.by_order[kind], judged.needless[kind]
        print(f"{made - missed:>3} of {made:<3}{figures[0]:>6}{figures[1]:>10}{figures[2]:>10}  {kind}")
    found = judged.made.total() - len(judged.missed)
    print(f"{found} of {judged.made.total()} mutants found; missed: {judged.missed}")


if __name__ == "__main__":
    main()
