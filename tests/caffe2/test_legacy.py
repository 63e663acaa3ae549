"""The programs of `examples/legacy` give what they gave on the genuine Caffe2 (`tools/record_legacy.py`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.nets.base import AS_PLANS
from tools.record_legacy import PROGRAMS, run_all

DATA = Path(__file__).parents[1] / "data"
RECORDED: Any = np.load(DATA / "legacy.npz")
BEGUN = re.compile(
    r"toy_regression/(W|X)|mnist/(\w+_[wb]|images)|fine_tuning/scores_w"
    r"|control_flow/.*|reader_queue/(point|side)|(char_rnn|sparse_rowwise)/begun_.*"
)
"""What was drawn or read, before anything was computed: equal to the last bit."""


@pytest.fixture(scope="module", params=[False, True], ids=["as they are", "as plans"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], float]:
    """Return what the programs gave, and how far of the largest number that may be off.

    Sums of some hundred products in another order, over a dozen steps: 4e-6. Plans take Winograd's algorithm with tiles
    of 4 x 4 for single images, which round more.
    """
    with AS_PLANS.override(request.param):
        found = run_all(str(DATA / "db" / "mnist.lmdb"), "lmdb", str(tmp_path_factory.mktemp("legacy")))
    return found, 1e-5 if request.param else 4e-6


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_gives_what_it_gave(run: tuple[dict[str, Any], float], program: str) -> None:
    given, off = run
    names = [name for name in RECORDED.files if name.startswith(f"{program}/")]
    assert names == [name for name in given if name.startswith(f"{program}/")]
    for name in names:
        got, wanted = np.asarray(given[name]), RECORDED[name]
        assert got.dtype.kind == wanted.dtype.kind
        assert got.shape == wanted.shape
        if BEGUN.fullmatch(name) or wanted.dtype.kind != "f":
            assert got.tobytes() == wanted.tobytes() or bool((got == wanted).all()), name
        else:
            np.testing.assert_allclose(
                got, wanted, rtol=0, atol=off * max(1e-3, float(abs(wanted).max())), err_msg=name
            )


def test_what_is_recorded_is_all_of_it() -> None:
    assert {name.partition("/")[0] for name in RECORDED.files} == set(PROGRAMS)
    assert {path.stem for path in (DATA.parents[1] / "examples" / "legacy").glob("*.py")} == set(PROGRAMS)
