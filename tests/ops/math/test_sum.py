"""Sum, WeightedSum and its gradient: against Python's sums; in place; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.proto import NetDef
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


A, B, C = values(2, 3, 5), values(2, 3, 6)[..., :5].copy(), values(2, 3, 7)[..., :5].copy()
ONE, TWO, THREE = values(1), np.array([[-0.5]], "f"), np.float32(1.75)


def total(*tensors: Array) -> Array:
    """Return the sum of each element in float64."""
    return np.stack(tensors).astype(np.float64).sum(axis=0)


def weighted(*inputs: Array) -> Array:
    """Return the sum of X0 w0, X1 w1 ..., in float64."""
    return total(*(x * float(w.item()) for x, w in zip(inputs[::2], inputs[1::2], strict=True)))


def gradients(dY: Array, *inputs: Array) -> list[Array]:
    """Return dX0, dX1 ..., dw0, dw1 ..."""
    pairs = list(zip(inputs[::2], inputs[1::2], strict=True))
    return [dY * float(w.item()) for _, w in pairs] + [np.array([(dY * x).sum()]) for x, _ in pairs]


def gradients_of_tensors(dY: Array, *inputs: Array) -> list[Array]:
    """Return dX0, dX1 ..."""
    return gradients(dY, *inputs)[: len(inputs) // 2]


CASES = [
    Case(
        "SumInt", [np.array([2**31 - 1, 5], "i"), np.array([1, 7], "i")], np.array([-(2**31), 12]), id="round the end"
    ),
    Case("Sum", [A], A, batched=(0,), id="alone"),
    Case("Sum", [A, B, C], total, batched=(0, 1, 2)),
    Case("Sum", [A[0, 0, 0], B[0, 0, 0]], total, id="rank 0"),
    # Integers have no derivative.
    Case("Sum", [np.arange(5), np.arange(5) * 2**40], np.arange(5) * (2**40 + 1), gradient=False, id="int64"),
    Case("Sum", [np.arange(5, dtype="i")] * 3, np.arange(0, 15, 3, dtype="i"), gradient=False, id="int32"),
    Case("Sum", [A.astype("d"), B.astype("d")], total, id="float64"),
    Case("WeightedSum", [A, ONE], weighted, batched=(0,), id="one pair"),
    Case("WeightedSum", [A, ONE, B, TWO, C, THREE], weighted, batched=(0, 2, 4)),
    # Gradients of weights are (1) whatever the rank of the weight is.
    Case("WeightedSum", [A, ONE, B, ONE * 2], weighted, {"grad_on_w": 1}, slack=2, id="grad_on_w"),
    Case("WeightedSumGradient", [A, B, ONE, C, THREE], gradients_of_tensors, outputs=2, batched=(0, 1, 3)),
    Case("WeightedSumGradient", [A, B, ONE, C, TWO], gradients, {"grad_on_w": 1}, 4, slack=4, id="grad_on_w"),
]


@on_all_engines(CASES)
def test_sum(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_sum_passes_its_gradient_on() -> None:
    """behaviours.md row 15: no operator, one name for all."""
    op = find_schema("Sum").view(operator_def("Sum", ["a", "b", "a"], ["y"]))
    assert gradient_for_op(op, ["dy"]) == ([], ["dy", "dy", "dy"])


@pytest.mark.parametrize(
    ("type", "inputs", "output"),
    [
        ("Sum", "ab", "b"),
        ("Sum", "aa", "a"),
        ("Sum", "aba", "a"),
        ("WeightedSum", "awbv", "b"),
        ("WeightedSum", "awav", "a"),
        ("WeightedSum", "awbv", "w"),
        ("WeightedSumGradient", "abw", "a"),
        ("WeightedSumGradient", "abw", "b"),
    ],
)
def test_only_the_first_input_is_overwritten(type: str, inputs: str, output: str) -> None:
    """behaviours.md row 25: and only where it is read once."""
    with pytest.raises(SchemaError, match=f"{type} cannot write d?[YX] in place of"):
        run(operator_def(type, list(inputs), [output]), [ONE] * len(inputs))


def test_a_blob_may_be_summed_with_itself() -> None:
    results, _ = run(operator_def("Sum", list("baa"), ["b"]), [ONE * 3, ONE, ONE])
    np.testing.assert_allclose(results[0], ONE * 5, rtol=1e-6)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Sum", [A, B, A[:1]], {}, ShapeError, r"X2 has the shape \(1, 3, 5\), X0 has \(2, 3, 5\)"),
    ("Sum", [A, A[0, 0]], {}, ShapeError, r"X1 has the shape \(5\), X0 has"),  # behaviours.md row 26
    ("Sum", [A, A.astype("i")], {}, DTypeError, "X1 is int32, X0 is float32"),
    ("Sum", [A.astype("e")], {}, DTypeError, "X is float16, it must be float32 or float64 or int32 or int64"),
    ("Sum", [A.astype("i1")], {}, DTypeError, "X is int8"),
    ("Sum", [A.astype("?")], {}, DTypeError, "X is bool"),
    ("Sum", [np.array(["a"])], {}, DTypeError, "X is string"),
    ("Sum", [], {}, SchemaError, "Sum has 0 inputs, it takes 1 or more"),
    ("WeightedSum", [A, ONE, B], {}, SchemaError, "WeightedSum does not take 3 inputs"),
    ("WeightedSum", [A, values(2)], {}, ShapeError, r"w0 has the shape \(2\), it must have 1 element"),
    ("WeightedSum", [A, ONE, A[:1], ONE], {}, ShapeError, r"X has 15 elements \(1, 3, 5\), X has 30 \(2, 3, 5\)"),
    ("WeightedSum", [A.astype("d"), ONE], {}, DTypeError, "X is float64, it must be float32"),
    ("WeightedSum", [A, ONE.astype("d")], {}, DTypeError, "w is float64, it must be float32"),
    ("WeightedSumGradient", [A, B], {}, SchemaError, "WeightedSumGradient has 2 inputs, it takes 3 or more"),
    ("WeightedSumGradient", [A, B, ONE, C], {}, SchemaError, "WeightedSumGradient does not take 4 inputs"),
    ("WeightedSumGradient", [A, B, ONE], {"outputs": 2}, SchemaError, "2 outputs, it gives 1 for 1 pairs of inputs"),
    ("WeightedSumGradient", [A, B, ONE], {"grad_on_w": 1}, SchemaError, "1 outputs, it gives 2 .* grad_on_w = 1"),
    ("WeightedSumGradient", [A, B[:1], ONE], {}, ShapeError, r"X has 15 elements \(1, 3, 5\), dY has 30"),
    ("WeightedSumGradient", [A, B, values(2)], {}, ShapeError, r"w0 has the shape \(2\), it must have 1 element"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_unknown_dimensions() -> None:
    schema = find_schema("Sum")
    op = schema.view(operator_def("Sum", ["a", "b", "c"], ["y"]))
    specs = [TensorSpec(dims, DataType.FLOAT) for dims in (None, (2, None), (2, 3))]
    assert schema.infer_specs(op, specs).specs == (specs[2],)
    with pytest.raises(ShapeError, match=r"X1 has the shape \(5, \?\), X2 has \(2, 3\)"):
        schema.infer_specs(op, [specs[0], TensorSpec((5, None), DataType.FLOAT), specs[2]])


def test_costs() -> None:
    spec, weight = TensorSpec((2, 3), DataType.FLOAT), TensorSpec((1,), DataType.FLOAT)
    sum_ = find_schema("Sum")
    cost = sum_.infer_cost(sum_.view(operator_def("Sum", ["a", "b", "c"], ["y"])), [spec] * 3, [spec])
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (12, 72, 24)
    weighted_sum = find_schema("WeightedSum")
    op = weighted_sum.view(operator_def("WeightedSum", ["a", "w", "b", "v"], ["y"]))
    assert weighted_sum.infer_cost(op, [spec, weight] * 2, [spec]).flops == 18


def test_of_a_weighted_sum_only_sizes_count() -> None:
    """The first X says the shape; on every engine, in a plan, and in the gradient."""
    other = B.reshape(5, 1, 6)
    wanted = run_op("WeightedSum", A, ONE, B, TWO, C, ONE)
    for engine in engines_of("WeightedSum"):
        found = run_op("WeightedSum", A, ONE, other, TWO, C.ravel(), ONE, engine=engine)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
    workspace = Workspace()
    for name, value in {"a": A, "b": other, "one": ONE, "two": TWO}.items():
        workspace.feed(name, value)
    ops = [operator_def("WeightedSum", ["a", "one", "b", "two"], ["y"]), operator_def("Negative", ["y"], ["z"])]
    workspace.run_net_once(NetDef(type="plan", op=ops, external_output=["z"]))
    np.testing.assert_allclose(workspace.fetch("z"), -run_op("WeightedSum", A, ONE, B, TWO), rtol=1e-6)
    for engine in engines_of("WeightedSumGradient"):
        found = run_op("WeightedSumGradient", A, other, TWO, grad_on_w=1, outputs=2, engine=engine)
        np.testing.assert_allclose(found[0], A * TWO[0], rtol=1e-6)
        np.testing.assert_allclose(found[1], [np.vdot(A, B)], rtol=1e-4)
