"""What scripts rely on: the rows of `reference/behaviours.md`, run as they are written there, under the old names.

The table is kept beside the project. An exception stands there by the name of its class; here it may be of a class
below that one.
"""

from __future__ import annotations

import ast
import math
import os
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from caffe2.proto import caffe2_pb2
from caffe2.python import core
from caffe2.python import workspace as ws
from tazza.operator import SCHEMAS
from tests.sampled import sampled

TABLE = Path(os.environ.get("TAZZA_SHARED", Path(__file__).parents[3] / "shared")) / "reference" / "behaviours.md"
ROWS = range(1, 39)
LATER = ("brew", "model_helper", "optimizer")
"""Modules that rows name."""

DIFFERENT: dict[int, tuple[Any, str]] = {
    16: (
        ("RuntimeError", [0.0, 2.0], "bool", True, "ndarray", "RuntimeError"),
        "the mask of a Dropout in test mode has a value, and one that is missing is no matter of an index",
    ),
    29: (((1, 1, 2, 2), 0), "a convolution needs no buffer in the workspace"),
    33: ([True] * 9 + ["RuntimeError"], "`plan` is a net type"),
    36: ((2, 4), "a part of a Split that nobody uses has a gradient of zeros"),
}
"""Rows where tazza differs on purpose: its value, and why; see docs/differences.md."""


class Raised:
    """An exception, by the names of its classes."""

    def __init__(self, error: Exception) -> None:
        """Note them."""
        self.names = [cls.__name__ for cls in type(error).__mro__]
        self.text = str(error)

    def __eq__(self, other: object) -> bool:
        return other in self.names

    __hash__ = None  # pyright: ignore[reportAssignmentType] -- equal to several texts

    def __repr__(self) -> str:
        return f"{self.names[0]}: {self.text}"


class Row(NamedTuple):
    """A reproduction, and what it gave."""

    code: str
    observed: str


def read_rows(text: str) -> dict[int, Row]:
    """Return the rows of the table that begin with a number."""
    found: dict[int, Row] = {}
    for line in text.splitlines():
        number = re.match(r"\| (\d+) \|", line)
        if number is not None:
            *_, code, observed = (part.replace("\\|", "|") for part in re.findall(r"`` (.*?) ``", line))
            found[int(number[1])] = Row(code, observed)
    return found


def op_names(net: Any) -> list[Any]:
    """Return the operators of a net as the table writes them."""
    return [(op.type, list(op.input), list(op.output)) for op in net.Proto().op]


def err(act: Callable[[], Any]) -> Any:
    """Return what `act` returns, or raises."""
    try:
        return act()
    except Exception as error:
        return Raised(error)


def run(type: str, ins: dict[str, Any], outs: list[str], **args: Any) -> list[Any]:
    """Feed, run one operator, and fetch its outputs."""
    for name, value in ins.items():
        ws.FeedBlob(name, value)
    ws.RunOperatorOnce(core.CreateOperator(type, list(ins), outs, **args))
    return [ws.FetchBlob(name) for name in outs]


def counted(*shape: int) -> Any:
    """Return 0, 1, 2 ... as float32."""
    return np.arange(int(np.prod(shape)), dtype="f").reshape(shape)


def number(value: Any) -> float:
    """Return a number, also of an array of one, as NumPy did at the time."""
    return np.asarray(value).item() if np.size(value) == 1 and not isinstance(value, str) else float(value)


def names() -> dict[str, Any]:
    """Return what the table runs once before all rows."""
    modules = {name: import_module(f"caffe2.python.{name}") for name in LATER if find_spec(f"caffe2.python.{name}")}
    own = {"np": np, "ws": ws, "core": core, "pb": caffe2_pb2, "op": core.CreateOperator, "feed": ws.FeedBlob}
    return modules | own | {"get": ws.FetchBlob, "run": run, "err": err, "ops": op_names, "f": counted, "float": number}


def evaluated(code: str, given: dict[str, Any]) -> Any:
    """Run statements, and return what the last expression gives."""
    body = ast.parse(code).body
    last = body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(ast.Module(body, []), "row", "exec"), given)
    return eval(compile(ast.Expression(last.value), "row", "eval"), given)


def equal(got: Any, wanted: Any) -> bool:
    """Whether two values are equal, types of containers and of elements included; NaN equals itself."""
    if type(got) is not type(wanted) and isinstance(wanted, (list, tuple, dict, np.ndarray)):
        return False
    if isinstance(wanted, dict):
        pairs = cast("dict[Any, Any]", wanted)
        return got.keys() == pairs.keys() and all(equal(got[key], pairs[key]) for key in pairs)
    if isinstance(wanted, (list, tuple)):
        listed = cast("list[Any]", wanted)
        return len(got) == len(listed) and all(map(equal, got, listed))
    if isinstance(wanted, np.ndarray):
        array = cast("NDArray[Any]", wanted)
        return bool(got.dtype == array.dtype and np.array_equal(got, array))
    if isinstance(wanted, float) and math.isnan(wanted):
        return math.isnan(got)
    return bool(got == wanted)


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    ws.ResetWorkspace()
    yield
    ws.ResetWorkspace()


@pytest.mark.parametrize("name", sampled(map(str, ROWS), 3))
def test_a_row_gives_what_was_observed(name: str) -> None:
    if not TABLE.is_file():
        pytest.skip(f"there is no '{TABLE}'; TAZZA_SHARED can name the folder that holds reference/behaviours.md")
    row = read_rows(TABLE.read_text(encoding="utf-8"))[int(name)]
    lacking = [module for module in LATER if module in row.code and find_spec(f"caffe2.python.{module}") is None]
    lacking += [type for type in re.findall(r"run\('(\w+)'", row.code) if type not in SCHEMAS]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} is not there yet")
    observed = eval(row.observed, {"array": np.array, "int32": "int32", "int64": "int64", "nan": math.nan})
    got = evaluated(row.code, names())
    if int(name) in DIFFERENT:
        assert not equal(got, observed), f"row {name} differs no more"
        observed = DIFFERENT[int(name)][0]
    assert equal(got, observed), f"row {name} gives {got}, observed was {observed}"


def test_all_rows_are_run() -> None:
    if TABLE.is_file():
        assert sorted(read_rows(TABLE.read_text(encoding="utf-8"))) == list(ROWS)


def test_denormals_count_as_0() -> None:
    """docs/differences.md: in what computes and compares; what copies keeps them."""
    tiny = np.array([1e-40, -1e-43], np.float32)
    found: dict[str, Any] = {}
    for type in ("Copy", "Abs", "Relu", "Negative", "EQ", "NE", "LT", "Add"):
        ws.FeedBlob("x", tiny)
        ws.FeedBlob("zero", np.zeros(2, np.float32))
        inputs = ["x", "zero"] if type in ("EQ", "NE", "LT", "Add") else ["x"]
        ws.RunOperatorOnce(core.CreateOperator(type, inputs, ["y"]))
        found[type] = ws.FetchBlob("y").tolist()
    zeros = {type: [0, 0] for type in ("Relu", "Add")}
    kept = {"Copy": tiny.tolist(), "Abs": abs(tiny).tolist(), "Negative": (-tiny).tolist()}
    assert found == kept | zeros | {"EQ": [True, True], "NE": [False, False], "LT": [False, False]}


def test_shapes_are_inferred_where_nobody_said_types() -> None:
    """Types count as those that an operator takes, and what is known stays known: as recorded from Caffe2."""
    net = core.Net("shapes")
    net.Gather(["w", "idx"], "o")
    net.SoftmaxWithLoss(["x", "label"], ["s", "loss"])
    given: dict[str, list[int]] = {"w": [10, 4], "idx": [6], "x": [5, 3], "label": [5]}
    shapes, _ = ws.InferShapesAndTypes([net], blob_dimensions=given)
    assert shapes == {**given, "o": [6, 4], "s": [5, 3], "loss": []}
    kept = core.Net("kept")
    kept.ConstantFill([], "w", shape=[2], value=0.0)
    kept.WeightedSum(["w", "one", "unknown", "one"], "w")
    assert ws.InferShapesAndTypes([kept])[0] == {"w": [2]}


def test_gradients_of_a_table_that_is_looked_up_twice_have_names_of_their_own() -> None:
    net = core.Net("tables")
    for name in ("p", "q"):
        net.SparseLengthsSum(["emb", f"idx_{name}", "len"], name)
    net.SumElements(net.Add(["p", "q"], "y"), "loss")
    net.AddGradientOperators(["loss"])
    written = [name for op in net.Proto().op for name in op.output]
    assert {f"_emb_grad_values_autosplit_{k}" for k in range(2)} <= set(written)
    assert not any("_anew_" in name for name in written)


def test_arguments_of_one_name_that_differ_are_refused() -> None:
    op = core.CreateOperator("Scale", ["x"], ["y"], scale=2.0)
    ws.FeedBlob("x", np.ones(1, np.float32))
    op.arg.add(name="scale", f=2.0)
    ws.RunOperatorOnce(op)
    op.arg[1].f = 3.0
    with pytest.raises(RuntimeError, match="two arguments 'scale' say different things"):
        ws.RunOperatorOnce(op)


def test_workspaces_show_the_blobs_that_they_inherit() -> None:
    above = ws.C.Workspace()
    above.create_blob("a").feed(np.array([1, 2], np.float32))
    below = ws.C.Workspace(above)
    assert list(below.blobs) == ["a"]
    np.testing.assert_array_equal(below.blobs["a"].fetch(), [1, 2])
