"""Tensor functions as operators: what follows from a signature, in nets, stored and inferred."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import tazza.array as ta
from tazza.array.linear_algebra import tensordot
from tazza.array.matrix import gemm
from tazza.errors import ArgumentError, DuplicateError, GradientError, KernelError, SchemaError, ShapeError
from tazza.graph.backward import backward_pass
from tazza.graph.inference import infer_net
from tazza.nets import create_net
from tazza.operator import SCHEMAS, OpView, operator_def, run_op
from tazza.operator.function import forget_function, operator_of, register_function
from tazza.operator.gradient import ends
from tazza.proto import NetDef
from tazza.tensor import DataType, Tensor, TensorSpec
from tazza.workspace import Workspace

Array = NDArray[Any]
FLOATS = frozenset({DataType.FLOAT, DataType.DOUBLE})


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    before = set(SCHEMAS.registered())
    yield
    for name in set(SCHEMAS.registered()) - before:
        if name.startswith("Test"):  # others were loaded
            forget_function(name)


def as_first(op: OpView, X: TensorSpec) -> TensorSpec:
    """Say that Y is like X."""
    return X


def scaled(X: Array, factor: float = 2.0, *, shift: int = 0) -> Array:
    """Return factor * X + shift."""
    return X * X.dtype.type(factor) + X.dtype.type(shift)


def scaled_gradient(dY: Array, factor: float = 2.0) -> Array:
    """Return the gradient of `scaled`."""
    return dY * dY.dtype.type(factor)


def test_one_line_makes_an_operator_that_runs_infers_and_is_stored() -> None:
    made = register_function(scaled, "TestScaled", gradient=scaled_gradient, infer=as_first)
    assert made.doc == "Return factor * X + shift."
    stored = NetDef(
        op=[operator_def("TestScaled", ["x"], ["y"], factor=3.0, shift=1), operator_def("Relu", ["y"], ["z"])]
    ).SerializeToString()
    net = NetDef.FromString(stored)
    specs = infer_net(net, {"x": TensorSpec((2, None, 3), DataType.FLOAT)})
    assert str(specs[0].outputs[0]) == "float32[2, ?, 3]"
    for kind in ("simple", "plan"):
        net.type, net.name = kind, kind
        net.external_output[:] = ["z"]
        ws = Workspace()
        ws.feed("x", np.array([[-2, 5]], np.float32))
        ws.run_net_once(net)
        assert ws.fetch("z").tolist() == [[0, 16]]


def test_the_gradient_function_is_the_operator_of_the_backward_pass() -> None:
    register_function(scaled, "TestScaled", gradient=scaled_gradient)
    ops = [operator_def("TestScaled", ["x"], ["y"], factor=3.0, shift=1)]
    emitted, _ = backward_pass(ops, {"y": "dy"})
    ws = Workspace()
    ws.feed("x", np.ones((2, 3), np.float32))
    ws.feed("dy", np.full((2, 3), 5, np.float32))
    ws.run_net_once(NetDef(name="g", op=[*ops, *emitted]))
    assert [op.type for op in emitted] == ["TestScaledGradient"]
    assert [argument.name for argument in emitted[0].arg] == ["factor"]
    assert np.all(ws.fetch("x_grad") == 15)


def product_gradient(a: Tensor, b: Tensor, dY: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of a product of two matrices."""
    return gemm(dY, b, transpose_b=True), gemm(a, dY, transpose_a=True)


def test_functions_of_the_library() -> None:
    register_function(tensordot, "TestDot", gradient=ends("a test"))
    a, b = np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)
    assert np.allclose(run_op("TestDot", a, b), np.tensordot(a, b))
    register_function(gemm, "TestGemm", gradient=None)
    found = run_op("TestGemm", a, b, transpose_b=True, alpha=2)
    assert np.allclose(found, 2 * a @ b.T)
    with pytest.raises(ShapeError, match="K = 3 columns"):
        run_op("TestGemm", a, b)
    with pytest.raises(GradientError, match="registered without one"):
        backward_pass([operator_def("TestGemm", ["a", "b"], ["c"])], {"c": "dc"})
    forget_function("TestGemm")
    register_function(gemm, "TestGemm", gradient=product_gradient)
    ws = Workspace()
    dy = np.array([[1.0, -1]], np.float32)
    for name, value in (("a", a[:1]), ("b", b[:, :2].T.copy()), ("dc", dy)):
        ws.feed(name, value[:, :2] if name == "a" else value)
    ops = [operator_def("TestGemm", ["a", "b"], ["c"])]
    emitted, _ = backward_pass(ops, {"c": "dc"})
    ws.run_net_once(NetDef(name="g", op=[*ops, *emitted]))
    assert np.allclose(ws.fetch("a_grad"), dy @ b[:, :2])
    assert np.allclose(ws.fetch("b_grad"), a[:1, :2].T @ dy)


class Parts(NamedTuple):
    """Two results with names."""

    low: Annotated[Tensor, "N", DataType.FLOAT]
    number: Annotated[Array, "1", DataType.INT64]


def test_annotations_give_shapes_types_names_and_choices() -> None:
    calls: list[int] = []

    @operator_of("TestParts")
    def parts(
        X: Annotated[Array, "N C", FLOATS],
        bias: Annotated[Array, "N"] | None = None,
        mode: Literal["min", "max"] = "min",
        axes: tuple[int, ...] = (1,),
        dtype: DataType = DataType.FLOAT,
    ) -> Parts:
        calls.append(1)
        assert isinstance(axes, tuple)
        low = getattr(np, mode)(X, axis=axes).astype(dtype.numpy)
        return Parts(low if bias is None else low + bias, np.array([X.size]))

    declared = SCHEMAS["TestParts"]
    assert list(declared.outputs_by_letter) == ["low", "number"]
    known = {"x": TensorSpec((2, 3), DataType.DOUBLE), "b": TensorSpec((2,), DataType.FLOAT)}
    (spec,) = infer_net(NetDef(op=[operator_def("TestParts", ["x", "b"], ["l", "n"])]), known)
    assert [str(one) for one in spec.outputs] == ["float32[2]", "int64[1]"]
    assert calls == [], "to infer is not to run"
    low, count = run_op(
        "TestParts", np.array([[1.0, 5, 3], [2, 7, 4]]), np.array([10, 20], np.float32), mode="max", axes=[1]
    )
    assert (low.tolist(), count.tolist()) == ([15, 27], [6])
    with pytest.raises(ArgumentError, match="not one of 'min', 'max'"):
        run_op("TestParts", np.ones((2, 3)), mode="mean")
    with pytest.raises(ShapeError, match=r"N is \(5\) in bias and \(2\) in X"):
        run_op("TestParts", np.ones((2, 3)), np.ones(5, np.float32))


def test_sizes_that_depend_on_values() -> None:
    def positive(X: Array) -> Array:
        return X[X > 0]

    register_function(positive, "TestPositive")
    assert run_op("TestPositive", [-1.0, 2.0, 3.0]).tolist() == [2, 3]
    register_function(positive, "TestWrong", infer=as_first)
    with pytest.raises(ShapeError, match=r"gave float32\[2\], its shape rule said float32\[3\](.|\n)*infer="):
        run_op("TestWrong", [-1.0, 2.0, 3.0])


def test_any_number_of_tensors() -> None:
    @operator_of("TestStack")
    def stack(arrays: Sequence[Tensor], axis: int = 0) -> Array:
        return np.stack([one.plain() for one in arrays], axis)

    @operator_of("TestSum", gradient=total_gradient)
    def total(*X: Array) -> Array:
        return np.add.reduce(list(X))

    a, b = np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)
    assert run_op("TestStack", a, b, axis=1).shape == (2, 2, 3)
    forward = operator_def("TestSum", ["a", "b"], ["y"])
    emitted, _ = backward_pass([forward], {"y": "dy"})
    ws = Workspace()
    for name, value in (("a", a), ("b", b), ("dy", 5 * a)):
        ws.feed(name, value)
    ws.run_net_once(NetDef(name="g", op=[forward, *emitted]))
    assert np.all(ws.fetch("b_grad") == 5)
    assert np.array_equal(ws.fetch("y"), a)


def total_gradient(dY: Array, *X: Array) -> list[Array]:
    """Return dY for each of X."""
    return [dY for _ in X]


def test_what_a_signature_cannot_say() -> None:
    def no_result(X: Tensor): ...  # noqa: ANN202 -- what this test is about

    def strange(X: Tensor, table: dict[str, int]) -> Tensor:
        return X

    with pytest.raises(SchemaError, match="return annotation"):
        register_function(no_result, "TestNone")
    with pytest.raises(SchemaError, match=r"'table' .* has no default"):
        register_function(strange, "TestStrange")
    with pytest.raises(SchemaError, match="has the parameter factor_of_dY"):
        register_function(scaled, "TestScaled", gradient=wrong_gradient)
    assert "TestScaled" not in SCHEMAS
    register_function(scaled, "TestScaled")
    with pytest.raises(DuplicateError, match="TestScaled"):
        register_function(scaled, "TestScaled")


def wrong_gradient(factor_of_dY: Array) -> Array:
    """Ask for what is not there."""
    return factor_of_dY


def test_every_function_of_the_library_that_gives_tensors_can_be_an_operator() -> None:
    """What cannot be one has a reason."""
    refused: set[str] = set()
    for module in ("creation", "views", "elementwise", "manipulation", "reduction", "searching", "matrix"):
        for name in importlib.import_module(f"tazza.array.{module}").__all__:
            function = getattr(ta, name)
            if not inspect.isfunction(function):
                continue
            try:
                register_function(function, f"Test_{name}")
            except SchemaError:
                refused.add(name)
    assert refused <= {"array", "asarray", "shares_memory", "explain_gemm"}, "an object, a bool or a text"
    x = np.array([[3, 1, 2], [5, 4, 0]], np.float32)
    assert run_op("Test_sum", x, axis=1).tolist() == [6, 9]
    assert run_op("Test_concat", x, x, axis=1).shape == (2, 6)
    assert run_op("Test_reshape", x, shape=[3, -1]).tolist() == x.reshape(3, 2).tolist()
    assert run_op("Test_zeros", shape=[2, 3], dtype="int32").dtype == np.int32
    assert run_op("Test_argmax", x, axis=1).tolist() == [0, 0]
    values, counts = run_op("Test_unique_counts", np.zeros(1, np.int32))
    assert (values.tolist(), counts.tolist()) == ([0], [1])


def ranked(X: Array) -> tuple[Array, Array]:
    """Return the ranks of the elements, and how many there are."""
    return np.argsort(X), np.array(X.size, np.int32)


@pytest.mark.parametrize("kind", ["simple", "plan", "dag"])
def test_without_a_rule_nothing_is_inferred_and_everything_runs(kind: str) -> None:
    """Not even the element type, which need not be that of an input; sizes may be others in each run."""
    register_function(ranked, "TestRanked")
    net = NetDef(name="ranked", type=kind, external_output=["y", "n", "z"])
    net.op.extend((operator_def("TestRanked", ["x"], ["y", "n"]), operator_def("Cast", ["y"], ["z"], to="double")))
    specs = infer_net(net, {"x": TensorSpec((3,), DataType.FLOAT)})
    assert [one.outputs[0] for one in specs] == [None, None]
    ws = Workspace()
    ws.feed("x", np.array([3, 1, 2], np.float32))
    made = create_net(net, ws)
    for values in ([3, 1, 2], [5, 4, 7, 6]):
        ws.feed("x", np.array(values, np.float32))
        made.run()
        assert ws.fetch("y").tolist() == np.argsort(values).tolist()
        assert (ws.fetch("z").dtype, ws.fetch("z").tolist()) == (np.float64, np.argsort(values).tolist())
        assert ws.fetch("n") == len(values)


def inverse(X: Tensor) -> Tensor:
    """Y = X ** -1, which zeros do not have."""
    return Tensor.from_numpy(np.linalg.inv(X.plain()))


def test_a_function_is_called_on_what_it_is_given_and_on_nothing_else() -> None:
    register_function(inverse, "TestInverse")
    x = np.array([[[2, 1], [0, 4]], [[0, 1], [1, 0]]], np.float32)
    np.testing.assert_allclose(run_op("TestInverse", x), np.linalg.inv(x), rtol=1e-6)
    with pytest.raises(KernelError, match="must be square"):
        run_op("TestInverse", x[:, :1])


def test_names_in_annotations_exist_at_run_time() -> None:
    def checked(X: Tensor) -> Tensor:
        return X

    checked.__annotations__["X"] = "Unknown"
    with pytest.raises(SchemaError, match=r"'Unknown' is not defined(.|\n)*must exist at run time"):
        register_function(checked, "TestUnknown")


def test_annotations_mean_what_they_mean_where_the_function_was_defined() -> None:
    def here(X: Tensor, scale: float = 3.0) -> Tensor:
        return X * scale

    here.__module__ = "math"  # which has no Tensor
    register_function(here, "TestHere")
    assert run_op("TestHere", np.ones(2, np.float32)).tolist() == [3, 3]


def test_the_package_has_the_decorator() -> None:
    import tazza.operator as package

    assert (package.register_function, package.forget_function) == (register_function, forget_function)

    @package.operator_of("TestDecorated")
    def twice(X: Tensor) -> Tensor:
        return X + X

    assert run_op("TestDecorated", np.ones(2, np.float32)).tolist() == [2, 2]
    assert twice(Tensor.from_numpy(np.ones(1))).tolist() == [2]
