"""Write `docs/conformance.md`: how many of Caffe2's own Python tests pass, and why the others do not.

    python -m tools.write_conformance

Caffe2's tests are no part of the project. `tests/data/conformance.json` holds what they gave here: of each file the
tests that pass on the genuine Caffe2, and of each that fails the reason; `tools/run_conformance.py` notes it.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTED = ROOT / "tests" / "data" / "conformance.json"
PAGE = ROOT / "docs" / "conformance.md"
HEAD = """# Caffe2's own tests

Written by `make index` from what was noted of a run (`python -m tools.run_conformance`); nobody edits it.

*passed*: how many tests of a file pass under the `caffe2` names. *older*: how many more pass with NumPy and Hypothesis
of the time of the tests, whose own code needs them. *expected*: how many pass on the genuine Caffe2 1.8.1.
"""


def noted() -> dict[str, dict[str, Any]]:
    """Return by file how many tests are expected, `expected`, and why others do not pass.

    `failing` holds the reason of each test that fails, `older` the packages with which a test of these passes.
    """
    return json.loads(NOTED.read_text(encoding="utf-8"))


def passed(entry: dict[str, Any]) -> int:
    """Return how many tests of a file pass with today's packages."""
    return entry["expected"] - len(entry["failing"])


def older(entry: dict[str, Any]) -> dict[str, str]:
    """Return the tests of a file that pass with older packages alone, and with which."""
    return entry.get("older", {})


def text() -> str:
    """Return the page."""
    files = noted()
    expected = sum(entry["expected"] for entry in files.values())
    good, more = sum(map(passed, files.values())), sum(len(older(entry)) for entry in files.values())
    packages = ", ".join(sorted({text for entry in files.values() for text in older(entry).values()}))
    total = f"\n{good} of {expected} expected tests pass, in {len(files)} files"
    total += f"; {more} more with {packages}.\n" if more else ".\n"
    rows = [
        f"| `{name}` | {passed(entry)} | {len(older(entry))} | {entry['expected']} |"
        for name, entry in sorted(files.items())
    ]
    table = "\n| file | passed | older | expected |\n|---|---|---|---|\n" + "\n".join(rows) + "\n"
    reasons = Counter(
        reason for entry in files.values() for test, reason in entry["failing"].items() if test not in older(entry)
    )
    lines = [f"| {count} | {reason} |" for reason, count in sorted(reasons.items(), key=lambda one: (-one[1], one[0]))]
    why = "\n## Why tests fail\n\n| tests | reason |\n|---|---|\n" + "\n".join(lines) + "\n"
    return HEAD + total + why + "\n## By file\n" + table


def note(outcomes: dict[str, dict[str, str]], baseline: dict[str, list[str]]) -> None:
    """Write down a run: of each file its tests, with `ok` or why it fails; files that were not run stay as noted."""
    files = noted() if NOTED.exists() else {}
    for name in sorted(baseline.keys() & outcomes.keys()):
        given = outcomes[name]
        failing = {test: given.get(test, "it was not found") for test in sorted(baseline[name])}
        kept = {test: reason for test, reason in failing.items() if reason != "ok"}
        before = older(files.get(name, {}))
        still = {test: packages for test, packages in before.items() if test in kept}
        files[name] = {"expected": len(baseline[name]), "failing": kept} | ({"older": still} if still else {})
    _write(files)


def note_older(outcomes: dict[str, dict[str, str]], packages: str) -> None:
    """Write down which of the tests that are noted as failing pass with `packages`."""
    files = noted()
    for name, given in outcomes.items():
        passing = {test: packages for test in files[name]["failing"] if given.get(test) == "ok"}
        files[name].pop("older", None)
        files[name] |= {"older": passing} if passing else {}
    _write(files)


def _write(files: dict[str, dict[str, Any]]) -> None:
    NOTED.write_text(json.dumps(files, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
