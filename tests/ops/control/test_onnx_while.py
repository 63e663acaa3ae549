"""ONNXWhile: values that are handed on, and lists, by plain loops; workspaces, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, NotFoundError, SchemaError, ShapeError, TazzaError
from tazza.graph import backward_pass
from tazza.operator import operator_def, touches
from tazza.proto import NetDef, OperatorDef
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nested_case import Nested, on_nested
from tests.sequences import Sequence, on_sequences, recorded

Array = NDArray[Any]
ONE = np.ones(1, np.float32)
SUM = operator_def("Add", ["a", "b"], ["s"])
LIMIT = operator_def("ConstantFill", [], ["limit"], shape=[1], value=20.0)
BELOW = operator_def("LT", ["s", "limit"], ["next"])
BODY = NetDef(
    name="body",
    op=[SUM, LIMIT, BELOW],
    external_input=["i", "c", "a", "b"],
    external_output=["next", "b", "s", "s"],
)
FED = {"m": np.array(4), "c": np.array(True), "x": ONE, "y": ONE}
BOTH: dict[str, Any] = {"has_trip_count": True, "has_cond": True}


def loop(body: NetDef = BODY, inputs: str = "mcxy", outputs: str = "pqr", **arguments: Any) -> OperatorDef:
    return operator_def("ONNXWhile", list(inputs), list(outputs), body=body, **arguments)


def summed(rounds: int | None, holds: bool, limit: float) -> dict[str, Array]:
    """Return the last two numbers, and all, of a row in which each is the sum of the two before."""
    row = [1.0, 1.0]
    while holds and (rounds is None or len(row) - 2 < rounds):
        row.append(row[-1] + row[-2])
        holds = row[-1] < limit
    every = np.array(row[2:], np.float32) if len(row) > 2 else np.zeros(0, np.int32)
    return {"p": np.array(row[-2:-1], np.float32), "q": np.array(row[-1:], np.float32), "r": every}


def case(id: str, wanted: Mapping[str, Array], fed: Mapping[str, Array] = FED, **arguments: Any) -> Nested:
    return Nested(id, (loop(**arguments),), dict(fed), wanted)


CASES = [
    case("rounds", summed(4, True, 20), **BOTH),
    case("in the workspace of the operator", summed(4, True, 20), **BOTH, disable_scopes=True),
    case("scopes are kept", summed(4, True, 20), **BOTH, save_scopes=True),
    case("until the condition ends", summed(100, True, 20), {**FED, "m": np.array([100, 1])}, **BOTH),
    case("without a count", summed(None, True, 20), {**FED, "m": np.array(0)}, has_cond=True),
    case("without a condition", summed(9, True, np.inf), {**FED, "m": np.array(9)}, has_trip_count=True),
    case("no round", summed(0, True, 20), {**FED, "m": np.array(-3)}, **BOTH),
    case("no condition", summed(9, False, 20), {**FED, "c": np.array([False, True])}, **BOTH),
]


@on_nested(CASES)
def test_loops(case: Nested) -> None:
    check_op(case)


RECORDED = [recorded("onnx_loops", stored=True)]


@on_sequences(RECORDED)
def test_recorded(case: Sequence) -> None:
    check_op(case)


def home(**fed: Array) -> Workspace:
    made = Workspace()
    for name, value in {**FED, **fed}.items():
        made.feed(name, value)
    return made


def test_elements_of_lists_are_joined_along_their_first_axis() -> None:
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    body = NetDef(op=[operator_def("Scale", ["a"], ["s"], scale=2.0)])
    body.external_input.extend(["i", "c", "a"])
    body.external_output.extend(["c", "s", "a", "s"])
    there = home(x=table)
    there.run_operator(loop(body, "mcx", "pqr", has_trip_count=True))
    np.testing.assert_array_equal(there.fetch("p"), 16 * table)
    np.testing.assert_array_equal(there.fetch("q"), np.vstack([table, 2 * table, 4 * table, 8 * table]))
    np.testing.assert_array_equal(there.fetch("r"), np.vstack([2 * table, 4 * table, 8 * table, 16 * table]))


def test_the_body_sees_the_number_of_its_round() -> None:
    body = NetDef(op=[operator_def("Reshape", ["i"], ["s", "_"], shape=[1])])
    body.external_input.extend(["i", "c"])
    body.external_output.extend(["c", "s"])
    there = home()
    there.run_operator(loop(body, "mc", "p", has_trip_count=True))
    assert there.fetch("p").tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("inside", [True, False])
def test_what_it_touches(inside: bool) -> None:
    op = loop(**BOTH, disable_scopes=inside)
    there = home()
    there.run_operator(op)
    names = set(there.blob_names()) - set(FED)
    assert names == ({"p", "q", "r", "i", "a", "b", "s", "limit", "next"} if inside else {"p", "q", "r"})
    found = touches(op)
    assert set(found.writes) == (names | {"c"} if inside else names)
    assert found.certain >= {"p", "q", "r"}
    assert set(found.reads) == set(FED)
    if inside:
        assert there.fetch("i") == 4


def test_other_blobs_are_seen_in_the_workspace_of_the_operator_alone() -> None:
    body = NetDef(op=[operator_def("Mul", ["a", "w"], ["s"])])
    body.external_input.extend(["i", "c", "a", "w"])
    body.external_output.extend(["c", "s"])
    arguments: dict[str, Any] = {"has_trip_count": True, "num_loop_carried_deps": 1}
    there = home(w=3 * ONE)
    there.run_operator(loop(body, "mcx", "p", disable_scopes=True, **arguments))
    assert there.fetch("p") == [81]
    with pytest.raises(NotFoundError, match="'w'"):
        there.run_operator(loop(body, "mcx", "p", **arguments))


GROWS = NetDef(op=[operator_def("Concat", ["a", "a"], ["s", "_"], axis=0)])
GROWS.external_input.extend(["i", "c", "a"])
GROWS.external_output.extend(["c", "s", "s"])
LOST = NetDef(external_input=["i", "c", "a", "nobody"], external_output=["c", "a", "nobody"])
REFUSED: list[tuple[OperatorDef, dict[str, Array], type[TazzaError], str]] = [
    (loop(inputs="mcx"), {}, SchemaError, "1 first values are given, the body hands on 2"),
    (loop(outputs="pq"), {}, SchemaError, "it has 2 outputs, the body gives 3"),
    (loop(outputs="pqrs"), {}, SchemaError, "it has 4 outputs, the body gives 3"),
    (loop(num_loop_carried_deps=4), {}, SchemaError, "hands on 4 values"),
    (loop(NetDef(), "mc", ""), {}, SchemaError, "0 external inputs and 0 external outputs"),
    (loop(), {"m": np.array(3, np.int32)}, DTypeError, "max_trip_count is int32"),
    (loop(), {"c": np.array(1)}, DTypeError, "condition is int64"),
    (loop(), {"c": np.zeros(0, bool)}, ShapeError, "the condition 'c' has 0 elements"),
    (
        loop(GROWS, "mcx", "pq", **BOTH),
        {},
        ShapeError,
        r"'s', an element of a list, has the shape \(4,\), in the first",
    ),
    (
        loop(LOST, "mcx", "pq", **BOTH, num_loop_carried_deps=1),
        {},
        NotFoundError,
        "'nobody', which nothing in it writes",
    ),
    (
        loop(**BOTH),
        {"x": np.array(1, np.float32), "y": np.array(1, np.float32)},
        ShapeError,
        "'s', an element of a list, has rank 0",
    ),
]


@pytest.mark.parametrize(("op", "fed", "error", "text"), REFUSED)
def test_refused(op: OperatorDef, fed: dict[str, Array], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        home(**fed).run_operator(op)


def test_no_gradient() -> None:
    with pytest.raises(GradientError, match="ONNXWhile"):
        backward_pass([loop(**BOTH)], ["q"])
