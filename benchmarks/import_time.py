"""Print how long imports take, in ms: NumPy alone, tazza on top of it, and tazza as far as a first run needs it.

Each import runs in processes of its own, started in turns so that a slow moment of the machine meets all; the first of
each warms the disk cache and is not counted. The figures are medians of the time that the import statement takes.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

STATEMENTS = {
    "numpy": "import numpy",
    "numpy and tazza": "import numpy, tazza",
    "numpy, tazza and all that a workspace needs": "import numpy, tazza; tazza.Workspace()",
}
PROGRAM = "import time; start = time.perf_counter(); {}; print((time.perf_counter() - start) * 1e3)"


def import_ms(statement: str) -> float:
    """Run `statement` in a new process; return how long that took, in milliseconds."""
    command = [sys.executable, "-c", PROGRAM.format(statement)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="time `import tazza` against `import numpy`")
    parser.add_argument("--runs", type=int, default=15, help="processes for each statement (default: 15)")
    runs: int = parser.parse_args().runs
    rows = [[import_ms(statement) for statement in STATEMENTS.values()] for _ in range(runs + 1)][1:]
    medians = [statistics.median(column) for column in zip(*rows, strict=True)]
    for name, median in zip(STATEMENTS, medians, strict=True):
        print(f"{median:8.1f} ms  {median - medians[0]:+8.1f} ms  {name}")


if __name__ == "__main__":
    main()
