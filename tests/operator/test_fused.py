"""Operators that are another one with something behind it: what follows from the two."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tazza.errors import GradientError, SchemaError
from tazza.operator import (
    KERNELS,
    SCHEMAS,
    Tail,
    ends,
    find_schema,
    fused,
    gradient_for_op,
    kernel_key,
    operator_def,
    run_op,
)
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Forget the types that a test has declared."""
    yield
    for type in SCHEMAS.registered():
        if type.startswith("Test"):
            SCHEMAS.unregister(type)
            if kernel_key(type, "reference") in KERNELS:
                KERNELS.unregister(kernel_key(type, "reference"))


def test_a_rectified_product_follows_from_the_two() -> None:
    base = find_schema("MatMul")
    made = fused("TestMatMulRelu", base, find_schema("Relu"), doc="Y = max(A B, 0).", example="")
    assert (made.inputs, made.outputs, made.args.keys()) == (base.inputs, base.outputs, base.args.keys())
    assert (made.base, made.module) == (base, __name__)
    A, B = np.array([[1.0, -2.0]], "f"), np.array([[1.0, 5.0], [2.0, 1.0]], "f")
    assert np.array_equal(run_op("TestMatMulRelu", A, B), [[0.0, 3.0]])
    op = made.view(operator_def("TestMatMulRelu", ["A", "B"], ["Y"]))
    specs = [TensorSpec((2, 3), DataType.FLOAT), TensorSpec((3, 5), DataType.FLOAT)]
    (Y,) = made.infer_specs(op, specs).specs
    assert isinstance(Y, TensorSpec)
    assert Y.shape == (2, 5)
    alone = base.infer_cost(base.view(operator_def("MatMul", ["A", "B"], ["Y"])), specs, [Y])
    whole = made.infer_cost(op, specs, [Y])
    assert whole.flops == alone.flops + 10
    assert whole.bytes_read == alone.bytes_read


def test_the_gradient_is_that_of_both() -> None:
    made = fused("TestMatMulRelu", find_schema("MatMul"), find_schema("Relu"), doc="Y = max(A B, 0).", example="")
    definition = operator_def("TestMatMulRelu", ["A", "B"], ["Y"], trans_b=1)
    steps, gradients = gradient_for_op(made.view(definition), ["dY"])
    assert gradients == ["A_grad", "B_grad"]
    assert [step.type for step in steps] == ["ReluGradient", "MatMul", "MatMul"]
    ws = Workspace()
    rng = np.random.default_rng(0)
    values = {"A": rng.normal(size=(2, 3)), "B": rng.normal(size=(5, 3)), "dY": rng.normal(size=(2, 5))}
    for name, value in values.items():
        ws.feed(name, value.astype("f"))
    for step in [definition, *steps]:
        ws.run_operator(step)
    dy = values["dY"] * (values["A"] @ values["B"].T > 0)
    assert np.allclose(ws.fetch("A_grad"), dy @ values["B"], atol=1e-5)
    assert np.allclose(ws.fetch("B_grad"), dy.T @ values["A"], atol=1e-5)


def test_what_reads_what_is_between_has_no_gradient() -> None:
    made = fused("TestMatMulSqr", find_schema("MatMul"), find_schema("Sqr"), doc="Y = (A B)^2.", example="")
    op = made.view(operator_def("TestMatMulSqr", ["A", "B"], ["Y"]))
    with pytest.raises(GradientError, match="reads what is between MatMul and Sqr"):
        gradient_for_op(op, ["dY"])


def test_a_gradient_that_one_has_not_is_missing() -> None:
    made = fused("TestFloorRelu", find_schema("Floor"), find_schema("Relu"), doc="Y = max(floor(X), 0).", example="")
    assert made.gradient_rule is find_schema("Floor").gradient_rule


def test_refused() -> None:
    with pytest.raises(SchemaError, match="Cos stands behind nothing: it may not overwrite its one input"):
        fused("TestReluCos", find_schema("Relu"), find_schema("Cos"), doc="Y = X.", example="")
    doubled = Tail(lambda op: 1, lambda op, y, values, Y: np.copyto(Y, 2 * y))
    with pytest.raises(SchemaError, match=r"what stands behind Relu has no gradient.*\n.*say why"):
        fused("TestReluTwice", find_schema("Relu"), doubled, doc="Y = X.", example="")
    made = fused("TestReluTwice", find_schema("Relu"), doubled, doc="Y = X.", example="", no_gradient=ends("enough"))
    assert np.array_equal(run_op(made.type, np.array([-1.0, 2.0], "f")), [0.0, 4.0])
    added = Tail(lambda op: 1, lambda op, y, values, Y: None, inputs=find_schema("FusedFC").inputs[-1:])
    with pytest.raises(SchemaError, match="the shapes of Relu follow from patterns alone"):
        fused("TestReluPlus", find_schema("Relu"), added, doc="Y = X.", example="", no_gradient=ends("enough"))
