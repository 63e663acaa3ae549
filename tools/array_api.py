"""Run the array-API standard's own test suite on `tazza.array`: `make array-api`.

The suite is no package: it is taken from a checkout with its submodules, `ARRAY_API_TESTS=FOLDER` or one that is made
beside the results of runs. What is left out on purpose stands in `tests/array/array_api_skips.txt`, with reasons.

Source: github.com/data-apis/array-api-tests, README, "Configuration".
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import tazza.array as ta

ROOT = Path(__file__).parents[1]
REPOSITORY = "https://github.com/data-apis/array-api-tests"
SKIPS = ROOT / "tests" / "array" / "array_api_skips.txt"


def checkout() -> Path:
    """Return the folder of the suite; clones it where there is none."""
    given = os.environ.get("ARRAY_API_TESTS")
    folder = ROOT / "out" / "array-api-tests" if given is None else Path(given)
    if not (folder / "array_api_tests").is_dir():
        if given is not None:
            sys.exit(f"ARRAY_API_TESTS={given} is no checkout of {REPOSITORY}")
        clone = ["git", "clone", "--depth", "1", "--recurse-submodules", "--shallow-submodules"]
        if subprocess.run([*clone, REPOSITORY, str(folder)], check=False).returncode:
            sys.exit(f"cannot clone {REPOSITORY}; name a checkout of it: ARRAY_API_TESTS=FOLDER")
    return folder


def main() -> None:
    """Run the suite as the standard's version that the namespace follows, and exit as it does."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--max-examples", type=int, default=50, help="examples of each test")
    arguments = parser.parse_args()
    environment = os.environ | {
        "ARRAY_API_TESTS_MODULE": ta.__name__,
        "ARRAY_API_TESTS_VERSION": ta.__array_api_version__,
    }
    words = [sys.executable, "-m", "pytest", "--quiet", "-rf", "--disable-deadline", "--skips-file", str(SKIPS)]
    words += ["--max-examples", str(arguments.max_examples), "array_api_tests/"]
    sys.exit(subprocess.run(words, cwd=checkout(), env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
