"""Print how long `import numpy` and `import tazza` take, and the difference, in milliseconds.

Each import runs in processes of its own, started in turns so that a slow moment of the machine meets both; the first of
each warms the disk cache and is not counted. The figures are medians of the time that the import statement takes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

MODULES = ("numpy", "tazza")
PROGRAM = "import time; start = time.perf_counter(); import {}; print((time.perf_counter() - start) * 1e3)"


def import_ms(module: str) -> float:
    """Import `module` in a new process; return how long that took, in milliseconds."""
    command = [sys.executable, "-c", PROGRAM.format(module)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time `import tazza` against `import numpy`")
    parser.add_argument("--runs", type=int, default=15, help="processes for each module (default: 15)")
    runs: int = parser.parse_args().runs
    rows = [[import_ms(module) for module in MODULES] for _ in range(runs + 1)][1:]
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    for module, median in zip(MODULES, medians, strict=True):
        print(f"import {module:8}{median:8.1f} ms")
    print(f"difference     {medians[1] - medians[0]:8.1f} ms")


if __name__ == "__main__":
    main()
