"""Caffe2's own tests pass as it is noted; the suite lies beside the project."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from tools import run_conformance, write_conformance

FILES = ["python/operator_test/cast_op_test.py", "python/scope_test.py", "python/test/do_op_test.py"]
"""Short ones; `python -m tools.run_conformance` runs all."""


def test_the_page_is_what_is_noted() -> None:
    assert write_conformance.PAGE.read_text(encoding="utf-8") == write_conformance.text()


def test_each_failure_has_a_reason() -> None:
    reasons = [why for entry in write_conformance.noted().values() for why in entry["failing"].values()]
    assert all(reasons)


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_what_is_noted_is_so(name: str) -> None:
    suite = run_conformance.SUITE
    if not (suite / "run.py").is_file():
        pytest.skip(f"there is no '{suite}'; TAZZA_SHARED can name the folder that holds conformance/run.py")
    if find_spec("six") is None or find_spec("future") is None:
        pytest.skip("the suite needs the packages future and six")
    peer: Path = run_conformance.suite().cache_folder() / "peer"
    if not (peer / "complete").exists():
        pytest.skip(f"the suite is not in '{peer}'; its run.py fetches it")
    tests = run_conformance.baseline()[name]
    found = run_conformance.outcomes(peer, name, tests)
    failing = {test: why for test, why in found.items() if why != "ok"}
    assert failing == write_conformance.noted()[name]["failing"]
