"""Run Caffe2's own Python tests, which lie beside the project, and note why each fails that does.

    python -m tools.run_conformance [WORD...]     files whose name contains one of the words; all by default
    python -m tools.run_conformance --older PYTHON [WORD...]
    python -m tools.run_conformance --net-type TYPE [WORD...]

The second form runs those with failing tests once more, with an interpreter that has tazza's dependencies, pytest, and
NumPy and Hypothesis of the tests' time (`numpy<2`, `hypothesis<6.80`), and notes which pass there.

The third runs nets that name no type, or `simple`, as another one, shows what fails, and notes nothing. Nets of
`parallel` get workers where they do not say how many.

What is noted goes to `tests/data/conformance.json`; `tools/write_conformance.py` makes a page of it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from tools.write_conformance import note, note_older, noted

ROOT = Path(__file__).resolve().parent.parent
SUITE = Path(os.environ.get("TAZZA_SHARED", ROOT.parent / "shared")) / "conformance"
FILE_TIMEOUT_S = 900
REASONS = [
    (r"unknown operator '(\w+)'", r"operator \1 is not there"),
    (r"Method (\w+) is not a registered operator", r"operator \1 is not there"),
    (r"nobody declares (\w+)", r"operator \1 is not there"),
    (r"(caffe2\.python\.\w+)[\w.]* is not there yet", r"\1 is not there"),
    (r"No module named '(caffe2\.\w+\.\w+)", r"\1 is not there"),
    (r"cannot import name '(\w+)' from 'caffe2.python'", r"caffe2.python.\1 is not there"),
    (r"No module named '(\w+)'", r"the test needs the package \1"),
    (r"setting an array element with a sequence|only 0-dimensional arrays", "the test's own reference needs NumPy 1"),
    (r"FileNotFoundError.*serialized_test", "its recorded result was not found"),
    (r"DeadlineExceeded", "the machine was too slow for the test's deadline"),
    (r"no end within", f"no end within {FILE_TIMEOUT_S} s"),
    (r"^(?:failure|error): (\w[\w.]*(?:Error|Exception)\b[^\n]{0,100})", r"\1"),
]
"""What failures say -> the reason that is noted; the first one that is found counts."""


def reason(told: str) -> str:
    """Return why a test failed, by what it said.

    >>> reason("failure: tazza.errors.UnknownOperatorError: unknown operator 'TT'")
    'operator TT is not there'
    """
    for pattern, text in REASONS:
        found = re.search(pattern, told)
        if found is not None:
            return found.expand(text)
    told = next((line for line in told.splitlines() if line.startswith("E  ")), told)
    lines = [line.removeprefix("E").strip() for line in told.splitlines() if line.strip()]
    return lines[0][:120] if lines else "it was not found"


def suite() -> Any:
    """Return the module that fetches the tests, and holds their list."""
    spec = importlib.util.spec_from_file_location("conformance_run", SUITE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def baseline() -> dict[str, list[str]]:
    """Return by file the tests that pass on the genuine Caffe2."""
    return json.loads((SUITE / "baseline.json").read_text(encoding="utf-8"))


def outcomes(
    folder: Path, name: str, tests: list[str], python: str = sys.executable, net_type: str = "simple"
) -> dict[str, str]:
    """Return `ok` or the reason for each test of a file, which runs in a process of its own."""
    paths = [str(SUITE), str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"CONFORMANCE_OVERLAY": str(folder / "overlay"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    plugins = ["peer_plugin"]
    if net_type != "simple":
        environment["TAZZA_CAFFE2_OVERRIDE_EXECUTOR"] = f"simple,{net_type}"
        plugins += ["tools.any_workers"] * (net_type == "parallel")
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
        command += [part for plugin in plugins for part in ("-p", plugin)]
        command += ["--import-mode=importlib", "-W", "ignore", f"--rootdir={folder}", f"--junitxml={report}"]
        command += [str(folder / "caffe2" / name)]
        try:
            done = subprocess.run(
                command, env=environment, cwd=scratch, capture_output=True, text=True, timeout=FILE_TIMEOUT_S
            )
            rest = "" if done.returncode in (0, 1) else done.stdout + done.stderr
        except subprocess.TimeoutExpired:
            rest = "no end within"
        told = cases(report) if report.exists() else {}
    return {test: "ok" if told.get(test) == "" else reason(told.get(test, rest)) for test in tests}


def cases(report: Path) -> dict[str, str]:
    """Return by test what its failure says, nothing where it passed."""
    found: dict[str, str] = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name', '')}"
        found[name] = "".join(f"{one.tag}: {one.get('message', '')}\n{one.text or ''}" for one in bad)
    return found


def packages(python: str) -> str:
    """Return the versions of NumPy and Hypothesis that an interpreter has."""
    code = "import hypothesis, numpy; print('NumPy', numpy.__version__, 'and Hypothesis', hypothesis.__version__)"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def chosen(words: list[str]) -> list[str]:
    """Return the files of tests whose name contains one of the words; all without any."""
    return [name for name in sorted(baseline()) if not words or any(word in name for word in words)]


def main(words: list[str]) -> None:
    """Run files, and note each when it has ended."""
    folder, expected = suite().unpack(), baseline()
    for name in chosen(words):
        found = outcomes(folder, name, expected[name])
        note({name: found}, expected)
        print(f"{sum(one == 'ok' for one in found.values()):4d} / {len(expected[name]):<4d} {name}", flush=True)


def main_older(python: str, words: list[str]) -> None:
    """Run files with failing tests in another interpreter, and note which of these pass there."""
    folder, files, versions = suite().unpack(), noted(), packages(python)
    for name in chosen(words):
        failing = list(files[name]["failing"])
        if failing:
            found = outcomes(folder, name, failing, python)
            note_older({name: found}, versions)
            print(f"{sum(one == 'ok' for one in found.values()):4d} / {len(failing):<4d} {name}", flush=True)


def main_net_type(net_type: str, words: list[str]) -> None:
    """Run files with nets of another type, and show what fails."""
    folder, expected = suite().unpack(), baseline()
    for name in chosen(words):
        found = outcomes(folder, name, expected[name], net_type=net_type)
        print(f"{sum(one == 'ok' for one in found.values()):4d} / {len(expected[name]):<4d} {name}", flush=True)
        for test, why in found.items():
            if why != "ok":
                print(f"            {test}: {why}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--older"]:
        main_older(sys.argv[2], sys.argv[3:])
    elif sys.argv[1:2] == ["--net-type"]:
        main_net_type(sys.argv[2], sys.argv[3:])
    else:
        main(sys.argv[1:])
