"""GetAllBlobNames: recorded; own blobs, those of a parent, and those that are bound."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nets.nested import do_of
from tests.sequences import Sequence, on_sequences, recorded

CASES = [recorded("freed", stored=True)]


@on_sequences(CASES)
def test_names(case: Sequence) -> None:
    check_op(case)


@pytest.mark.parametrize(("shared", "wanted"), [(None, [b"a", b"b", b"n"]), (False, [b"b", b"n"])])
def test_a_parent_is_seen(shared: bool | None, wanted: list[bytes]) -> None:
    outer = Workspace()
    outer.feed("a", np.zeros(1))
    inner = Workspace(parent=outer)
    inner.feed("b", np.zeros(1))
    inner.run_operator(operator_def("GetAllBlobNames", [], ["n"], include_shared=shared))
    assert inner.fetch("n").tolist() == wanted


@pytest.mark.parametrize(("shared", "wanted"), [(True, [b"n", b"x", b"y"]), (False, [b"y"])])
def test_what_is_bound_is_shared(shared: bool, wanted: list[bytes]) -> None:
    home = Workspace()
    home.feed("x", np.ones(2, np.float32))
    ops = [operator_def("Relu", ["x"], ["y"]), operator_def("GetAllBlobNames", [], ["n"], include_shared=shared)]
    home.run_operator(operator_def("CreateScope", [], ["s"]))
    home.run_operator(do_of(NetDef(name="inner", op=ops), ["x"], ["n"], "s"))
    assert home.fetch("n").tolist() == wanted
