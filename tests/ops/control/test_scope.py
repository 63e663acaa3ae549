"""CreateScope and HasScope: a stack of scopes, and what it keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import DTypeError
from tazza.operator import operator_def
from tazza.ops.control.scope import ScopeStack
from tazza.proto import NetDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.sequences import Sequence, Step, on_sequences

STACK = b"s, a C++ native class of type caffe2::detail::WorkspaceStack."
CREATE, HAS = operator_def("CreateScope", [], ["s"]), operator_def("HasScope", ["s"], ["has"])
PUSH = operator_def(
    "Do",
    ["x", "s"],
    ["y", "s"],
    net=NetDef(name="copy", op=[operator_def("Copy", ["a"], ["b"])]),
    inner_blobs=["a", "b"],
    outer_blobs_idx=[0, 1],
)
CASES = [
    Sequence(
        "in use",
        (
            Step(CREATE, {"s": STACK}, {"s": "text", "x": np.ones(2, np.float32)}),
            Step(HAS, {"has": np.array([False])}),
            Step(PUSH, {"y": np.ones(2, np.float32)}),
            Step(HAS, {"has": np.array([True])}),
            Step(CREATE),
            Step(HAS, {"has": np.array([False])}),
        ),
    )
]


@on_sequences(CASES)
def test_cases(case: Sequence) -> None:
    check_op(case)


def has_scope(home: Workspace) -> bool:
    home.run_operator(operator_def("HasScope", ["s"], ["has"]))
    assert home.fetch("has").shape == (1,)
    return bool(home.fetch("has").item())


def push(home: Workspace) -> None:
    net = NetDef(name="copy", op=[operator_def("Copy", ["a"], ["b"])])
    bound: dict[str, Any] = {"inner_blobs": ["a", "b"], "outer_blobs_idx": [0, 1]}
    home.run_operator(operator_def("Do", ["x", "s"], ["y", "s"], net=net, **bound))


def test_scopes_are_in_use_until_they_are_cleared() -> None:
    home = Workspace()
    home.feed("x", np.ones(2, np.float32))
    home.run_operator(operator_def("CreateScope", [], ["s"]))
    assert home.fetch("s") == b"s, a C++ native class of type caffe2::detail::WorkspaceStack."
    assert not has_scope(home)
    push(home)
    push(home)
    stack = home.blob("s").get(ScopeStack)
    assert (has_scope(home), stack.depth) == (True, 2)
    home.run_operator(operator_def("CreateScope", [], ["s"]))
    assert home.blob("s").get(ScopeStack) is stack, "its memory is used again"
    assert not has_scope(home)


def test_a_stack_takes_the_place_of_something_else() -> None:
    home = Workspace()
    home.feed("s", b"text")
    home.run_operator(operator_def("CreateScope", [], ["s"]))
    assert not has_scope(home)


def test_a_do_needs_a_stack() -> None:
    home = Workspace()
    home.feed("x", np.ones(2, np.float32))
    home.feed("s", np.ones(2, np.float32))
    with pytest.raises(DTypeError, match="is a Tensor, not a caffe2::detail::WorkspaceStack"):
        push(home)
