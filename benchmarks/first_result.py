"""How long a first prediction takes from the start of a process, imports and all: `python -m benchmarks.first_result`.

tazza starts with nothing compiled (an empty `cache_dir`), and with what an earlier process has compiled and kept; peers
start as they are. Each start is a process of its own, in turns, so that a slow moment of the machine meets all. A start
of each is not counted: it warms the disk cache. Beside the time stands the processor time of all threads, which says
more where other programs run.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.lineup import Contender, Work, chosen_contenders
from benchmarks.race import Settings, make_onnx, prepared_net, start_contestant

NOTHING_KEPT = " with nothing compiled"
PARTS = ("first_result_s", "first_result_cpu_s", "process_s", "import_s", "load_s", "first_run_s")
HEADS = ("first result", "processor", "process", "imports", "load", "first run")


def first_result(work: Work, contender: Contender, settings: Settings, kept: Path) -> dict[str, float]:
    """Start a process that keeps compiled code in a folder; return the parts of `PARTS` in s."""
    contender_name = contender.name.replace(" ", "-")
    request = {"do": "start", "results": str(settings.out / f"{work.name}-{contender_name}.npy"), "runs": 1}
    with start_contestant(work, contender, settings, {"TAZZA_CACHE_DIR": str(kept)}) as contestant:
        answer = contestant.ask(request, settings.start_timeout_s)
    return {part: float(answer[part]) for part in PARTS}


def first_results(
    work: Work, contenders: Sequence[Contender], settings: Settings, rounds: int
) -> dict[str, list[dict[str, float]]]:
    """Return what each start took, by contender; tazza has two entries."""
    own = contenders[0]
    runners = [replace(own, name=own.name + NOTHING_KEPT), *contenders]
    make_onnx(prepared_net(work, settings), runners, settings)
    found: dict[str, list[dict[str, float]]] = {runner.name: [] for runner in runners}
    with tempfile.TemporaryDirectory() as kept:
        for number in range(rounds + 1):
            for runner in runners[:: -1 if number % 2 else 1]:
                with tempfile.TemporaryDirectory() as empty:
                    folder = empty if runner.name.endswith(NOTHING_KEPT) else kept
                    found[runner.name].append(first_result(work, runner, settings, Path(folder)))
    return {name: starts[1:] for name, starts in found.items()}


def table(found: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    """Return lines of text: medians in s, and the least of the first two.

    >>> start = dict.fromkeys(PARTS, 0.25)
    >>> for line in table({"tazza": [start, start | {"first_result_s": 0.75}]}):
    ...     print(line)
       first result (least)      processor (least)    process    imports       load  first run
         0.500 (0.250)          0.250 (0.250)           0.250      0.250      0.250      0.250  tazza
    """
    first, second, *others = HEADS
    lines = [f"{first + ' (least)':>23}{second + ' (least)':>23}" + "".join(f"{head:>11}" for head in others)]
    for name, starts in found.items():
        columns = {part: [start[part] for start in starts] for part in PARTS}
        cells = [
            f"{statistics.median(column):.3f} ({min(column):.3f})".rjust(18).ljust(23)
            for column in list(columns.values())[:2]
        ]
        rest = (f"{statistics.median(column):11.3f}" for column in list(columns.values())[2:])
        lines.append(f"{''.join(cells)}{''.join(rest)}  {name}")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time the first prediction from the start of the process")
    parser.add_argument("--net", default="resnet50", help="of the zoo (default: resnet50)")
    parser.add_argument("--contenders", default="onnxruntime", help="peers by name, with commas (default: onnxruntime)")
    parser.add_argument("--rounds", type=int, default=7, help="starts of each that count (default: 7)")
    parser.add_argument("--threads", type=int, default=2, help="of each (default: 2)")
    parser.add_argument("--peers-python", default=sys.executable, help="Python that has the peers (default: this one)")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder of nets and logs")
    given = parser.parse_args()
    settings = Settings(given.out.resolve(), str(given.peers_python), threads=int(given.threads))
    names = [name.strip() for name in str(given.contenders).split(",") if name.strip()]
    contenders = chosen_contenders(names, quick=False) if names else chosen_contenders(names, quick=False)[:1]
    for line in table(first_results(Work(str(given.net), 1), contenders, settings, int(given.rounds))):
        print(line)


if __name__ == "__main__":
    main()
