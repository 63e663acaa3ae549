"""Operators: staleness, caches, dynamic outputs, layouts, engines, native kernels, errors."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.device import Context, CPUContext, current_context, device_option
from tazza.errors import ArgumentError, DTypeError, KernelError, ShapeError, UnknownOperatorError, UnsupportedError
from tazza.operator import (
    ANY,
    ENGINES,
    FLOAT,
    KERNELS,
    SCHEMAS,
    Array,
    Call,
    DynamicOutput,
    LaidOut,
    Launch,
    LocalBlobs,
    Operands,
    Operator,
    OpSchema,
    OpView,
    Spec,
    Unsupported,
    blob,
    ends,
    engine,
    host_kernel,
    kernel,
    kernel_key,
    launcher,
    operator_def,
    prefer_engines,
    run_op,
    schema,
    why_unavailable,
)
from tazza.proto import OperatorDef
from tazza.registry import Registry
from tazza.runtime.modules import MODULES, load_module
from tazza.runtime.native import NATIVE_KERNELS, include_folder
from tazza.tensor import REORDERS, ROW_MAJOR, CPUPlace, CUDAPlace, DataType, Opaque, Tensor, TensorSpec, channels_last


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Forget what a test registers: operators and engines whose names begin with "test", and native modules."""
    registries: list[Registry[Any, Any]] = [SCHEMAS, KERNELS, ENGINES, REORDERS, MODULES, NATIVE_KERNELS]
    known = [set(registry.registered()) for registry in registries]
    yield
    for registry, before in zip(registries, known, strict=True):
        for key in set(registry.registered()) - before:
            if registry in (MODULES, NATIVE_KERNELS) or "test" in str(key).lower():
                registry.unregister(key)


def blobs(**values: Any) -> LocalBlobs:
    """Return blobs that hold tensors of these arrays."""
    made = LocalBlobs()
    for name, value in values.items():
        made.create_blob(name).set(Tensor.from_numpy(np.asarray(value)))
    return made


def f32(*values: float) -> Array:
    """Return a float32 vector."""
    return np.array(values, np.float32)


def fetched(home: LocalBlobs, name: str) -> list[Any]:
    """Return the elements of a blob."""
    return home.blobs[name].tensor().plain().tolist()


def test_a_run_sees_new_values_shapes_and_tensors() -> None:
    home = blobs(x=f32(-1, 2))
    op = Operator(operator_def("Relu", ["x"], ["y"]), home)
    op.run()
    home.blobs["x"].tensor().assign(f32(3, -4))
    op.run()
    assert fetched(home, "y") == [3, 0]
    home.blobs["x"].tensor().assign(f32(1, -2, 5))
    op.run()
    assert fetched(home, "y") == [1, 0, 5]
    home.blobs["x"].set(Tensor.from_numpy(f32(-7)))
    op.run()
    assert fetched(home, "y") == [0]
    home.blobs["y"].set("text")
    op.run()
    assert fetched(home, "y") == [0]


def test_launches_are_kept_per_signature() -> None:
    prepared: list[tuple[int, ...]] = []
    made = declare("TestCount")
    engine("test_count", "counts", priority=99)

    @launcher(made, engine="test_count")
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:  # pyright: ignore[reportUnusedFunction] -- registered
        del op, context, outputs
        assert isinstance(inputs[0], TensorSpec)
        prepared.append(tuple(inputs[0].shape))
        return Doubling()

    home = blobs(x=f32(1, 2))
    op = Operator(operator_def("TestCount", ["x"], ["y"]), home)
    for length in (2, 3, 2, 3, 2):
        home.blobs["x"].tensor().assign(np.ones(length, np.float32))
        op.run()
        assert fetched(home, "y") == [2.0] * length
    assert prepared == [(2,), (3,)]
    assert op.choices[0].engine == "test_count"


class Doubling:
    """A launch that doubles; works on opaque memory too, since it looks at none of the layout."""

    scratch_bytes, capturable = 64, False

    def bind(self, operands: Operands) -> Call:
        assert operands.scratch is not None
        assert operands.scratch.address % 64 == 0
        X, Y = operands["X"], operands["Y"]

        def call() -> None:
            if isinstance(Y.layout, Opaque):
                Y.reserve()
                Y.storage.window(DataType.FLOAT, Y.shape, 0, None)[...] = 2 * X.plain()[::-1]
            else:
                Y.array[...] = 2 * X.plain()

        return call


def declare(type: str) -> OpSchema:
    """Declare a pointwise operator without kernels."""
    return schema(
        type, "For tests.", inputs=[blob("X", FLOAT, "*S")], outputs=[blob("Y", like="X")], no_gradient=ends("test")
    )


def test_a_kernel_chooses_the_layout_of_its_output_and_others_get_plain_data() -> None:
    """An engine writes a reversed vector as its opaque layout; Relu, which only takes strided data, reads it right."""
    made = declare("TestReverse")
    engine("test_opaque", "writes backwards", priority=99)
    REORDERS.register(
        "test_opaque", lambda tensor: tensor.storage.window(tensor.dtype, tensor.shape, 0, None)[::-1].copy()
    )

    @launcher(made, engine="test_opaque", accepts=lambda letter, spec: True)
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> LaidOut:  # pyright: ignore[reportUnusedFunction] -- registered
        del op, context, inputs
        assert isinstance(outputs[0], TensorSpec)
        return LaidOut(Doubling(), {"Y": Opaque("test_opaque", "reversed", outputs[0].nbytes)})

    home = blobs(x=f32(-1, 2, 5))
    first = Operator(operator_def("TestReverse", ["x"], ["y"]), home)
    second = Operator(operator_def("Relu", ["y"], ["z"]), home)
    for _ in range(2):
        first.run()
        second.run()
        assert isinstance(home.blobs["y"].tensor().layout, Opaque)
        assert fetched(home, "y") == [-2, 4, 10]
        assert fetched(home, "z") == [0, 4, 10]
    home.blobs["x"].tensor().assign(f32(-1, 2, 7))
    first.run()
    second.run()
    assert fetched(home, "z") == [0, 4, 14]


def test_bindings_are_kept_per_context() -> None:
    home = blobs(x=f32(-1, 2))
    op = Operator(operator_def("Relu", ["x"], ["y"]), home)
    contexts = [CPUContext(), CPUContext()]
    calls = [op.ready(context) for context in contexts * 2]
    assert calls[0] is calls[2]
    assert calls[1] is calls[3]
    assert calls[0] is not calls[1]


def test_versions_count_writes() -> None:
    home = blobs(x=f32(-1, 2))
    op = Operator(operator_def("Relu", ["x"], ["y"]), home)
    op.run()
    before = home.blobs["y"].tensor().storage.version
    op.run()
    assert home.blobs["y"].tensor().storage.version == before + 1


def declare_dynamic() -> None:
    """Declare an operator that gives the positive elements of X."""
    made = schema(
        "TestPositive",
        "For tests.",
        inputs=[blob("X", FLOAT, "N")],
        outputs=[blob("Y", DataType.INT64, dynamic=True)],
        no_gradient=ends("test"),
    )

    @kernel(made)
    def positive(X: Array, Y: DynamicOutput) -> None:  # pyright: ignore[reportUnusedFunction] -- registered
        found = X[X > 0].astype(np.int64)
        Y.allocate(found.shape)[...] = found


def test_outputs_whose_size_depends_on_data() -> None:
    declare_dynamic()
    home = blobs(x=f32(-1, 2, 5))
    op = Operator(operator_def("TestPositive", ["x"], ["y"]), home)
    op.run()
    assert fetched(home, "y") == [2, 5]
    home.blobs["y"].set("text")
    op.run()
    assert fetched(home, "y") == [2, 5]
    home.blobs["x"].tensor().assign(f32(4))
    op.run()
    assert fetched(home, "y") == [4]
    assert home.blobs["y"].tensor().dtype is DataType.INT64


def test_shapes_that_depend_on_values_follow_them() -> None:
    """ConstantFill with input_as_shape: also when the values change behind our back through an escaped view."""
    home = blobs(s=np.array([2, 3]))
    op = Operator(operator_def("ConstantFill", ["s"], ["y"], input_as_shape=1, value=1.5), home)
    op.run()
    assert home.blobs["y"].tensor().shape == (2, 3)
    home.blobs["s"].tensor().assign(np.array([5, 1]))
    op.run()
    assert home.blobs["y"].tensor().shape == (5, 1)
    view = home.blobs["s"].tensor().numpy()
    op.run()
    view[0] = 7
    op.run()
    assert home.blobs["y"].tensor().shape == (7, 1)


@pytest.mark.parametrize(
    ("definition", "becomes"),
    [
        (operator_def("Add", ["x", "w"], ["x"]), r"float32\[3, 2\]"),
        (operator_def("ConstantFill", ["x"], ["x"], dtype=10), r"int64\[2\]"),
    ],
)
def test_an_output_in_place_keeps_dtype_and_number_of_elements(definition: OperatorDef, becomes: str) -> None:
    op = Operator(definition, blobs(x=f32(1, 2), w=np.ones((3, 2), np.float32)))
    with pytest.raises(ShapeError, match=rf"'x' is written in place over float32\[2\], .* it would become {becomes}"):
        op.run()


def test_another_shape_in_place_when_it_is_written_again_and_again() -> None:
    """Who writes it before and who reads it afterwards find the shape that they should, run after run."""
    home = blobs(x=np.arange(-6, 6, dtype=np.float32).reshape(3, 4))
    ops = [
        Operator(definition, home)
        for definition in (
            operator_def("Relu", ["x"], ["y"]),
            operator_def("Reshape", ["y"], ["y", "old"], shape=[2, -1]),
            operator_def("Relu", ["y"], ["y"]),
            operator_def("Copy", ["y"], ["z"]),
        )
    ]
    for dims in ((3, 4), (3, 4), (3, 4), (2, 8), (2, 6), (3, 4)):
        x = np.arange(np.prod(dims), dtype=np.float32).reshape(dims) - 5
        home.blobs["x"].tensor().assign(x)
        for op in ops:
            op.run()
        assert fetched(home, "z") == np.maximum(x, 0).reshape(2, -1).tolist()
        assert fetched(home, "old") == list(dims)
        assert home.blobs["y"].tensor().spec == home.blobs["z"].tensor().spec


def test_each_run_changes_the_shape_anew() -> None:
    home = blobs(x=f32(1, 2))
    op = Operator(operator_def("ExpandDims", ["x"], ["x"], dims=[0]), home)
    for rank in range(2, 5):
        address = home.blobs["x"].tensor().address
        op.run()
        assert home.blobs["x"].tensor().shape == (1,) * (rank - 1) + (2,)
        assert home.blobs["x"].tensor().address == address
    assert fetched(home, "x") == [[[[1, 2]]]]


@pytest.mark.parametrize("escaped", [False, True])
def test_what_gets_another_shape_in_place_becomes_row_major(escaped: bool) -> None:
    x = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    tensor = Tensor((0,))
    tensor.resize(x.shape, DataType.FLOAT, channels_last(x.shape))
    np.copyto(tensor.numpy() if escaped else tensor.array, x)
    home = LocalBlobs()
    home.create_blob("x").set(tensor)
    op = Operator(operator_def("Squeeze", ["x"], ["x"], dims=[0]), home)
    with pytest.raises(ShapeError, match="axis 0 of X"):
        op.run()
    Operator(operator_def("Reshape", ["x"], ["x", "old"], shape=[6, 20]), home).run()
    assert home.blobs["x"].tensor().layout == ROW_MAJOR
    assert fetched(home, "x") == x.reshape(6, 20).tolist()


def test_views_see_what_gets_another_shape_in_place() -> None:
    home = blobs(x=f32(1, 2, 3))
    view = home.blobs["x"].tensor().numpy()
    Operator(operator_def("ExpandDims", ["x"], ["x"], dims=[0]), home).run()
    view[0] = 7
    assert fetched(home, "x") == [[7, 2, 3]]


def test_nothing_and_text_get_another_shape_in_place() -> None:
    home = blobs(none=np.ones((2, 0), np.float32), text=np.array([b"a", b"longer"], object))
    for name, wanted in (("none", [3, 0]), ("text", [2, 1])):
        Operator(operator_def("Reshape", [name], [name, "old"], shape=wanted), home).run()
        assert list(home.blobs[name].tensor().shape) == wanted
    assert fetched(home, "text") == [[b"a"], [b"longer"]]


def test_a_kernel_that_fails_is_named() -> None:
    made = declare("TestFails")

    @kernel(made)
    def fails(X: Array, Y: Array) -> None:  # pyright: ignore[reportUnusedFunction] -- registered
        raise IndexError("inside")

    with pytest.raises(KernelError, match="IndexError: inside") as caught:
        run_op("TestFails", [1.0])
    assert "in operator TestFails(in0 -> out0)" in str(caught.value)
    assert isinstance(caught.value.__cause__, IndexError)


@pytest.mark.parametrize("register", [kernel, host_kernel])
def test_a_kernel_that_returns_its_result_is_refused(register: Any) -> None:
    """Its output would keep what was in memory; a kernel that is a class is asked for the same."""
    made = schema("TestReturns", "Y = X.", inputs=[blob("X")], outputs=[blob("Y", like="X")], no_gradient=ends(""))

    class Returns:
        def __init__(self, operator: Operator) -> None:
            self.operator = operator

        def run(self, X: Any) -> Any:
            return X

    def returns(X: Any, Y: Any) -> Any:
        del Y
        return X

    targets: list[Any] = [returns, Returns] if register is host_kernel else [returns]
    for target in targets:
        register(made)(target)
        try:
            with pytest.raises(KernelError, match=r"(?s)TestReturns returned a value of type .*write into Y") as caught:
                run_op("TestReturns", np.ones(3, np.float32))
            assert "in operator TestReturns(" in str(caught.value)
        finally:
            KERNELS.unregister(kernel_key("TestReturns", "reference"))
            KERNELS.unregister(kernel_key("TestReturns", "reference", ANY))
    SCHEMAS.unregister("TestReturns")


def test_an_operator_that_nothing_computes_asks_for_a_kernel() -> None:
    schema("TestIdle", "Y = X.", inputs=[blob("X")], outputs=[blob("Y", like="X")], no_gradient=ends(""))
    try:
        with pytest.raises(UnknownOperatorError, match="no engine has one; write a function on arrays under @kernel"):
            run_op("TestIdle", [1.0])
    finally:
        SCHEMAS.unregister("TestIdle")


def test_who_made_it_is_told() -> None:
    definition = operator_def("Relu", ["x"], ["y"])
    definition.debug_info = "train.py:12"
    op = Operator(definition, blobs(x=np.zeros(2)))
    with pytest.raises(TypeError, match=r"made at train.py:12"):
        op.run()


def test_engines_are_asked_in_order() -> None:
    made = declare("TestEngines")
    for name, priority in (("test_low", 50), ("test_high", 60)):
        engine(name, "for tests", priority=priority)

        @launcher(made, engine=name)
        def prepare(
            op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec], *, name: str = name
        ) -> Any:  # pyright: ignore[reportUnusedFunction] -- registered
            del op, context, outputs
            assert isinstance(inputs[0], TensorSpec)
            return Unsupported("only short vectors") if name == "test_high" and inputs[0].size > 2 else Doubling()

    def taken(x: Array, wanted: str = "") -> list[tuple[str, str | None]]:
        op = Operator(operator_def("TestEngines", ["x"], ["y"], engine=wanted), blobs(x=x))
        op.run()
        return [(choice.engine, choice.reason) for choice in op.choices]

    assert taken(f32(1, 2)) == [("test_high", None)]
    assert taken(f32(1, 2, 3)) == [("test_high", "only short vectors"), ("test_low", None)]
    assert taken(f32(1), "test_low") == [("test_low", None)]
    try:
        prefer_engines(["test_low"], operator="TestEngines")
        assert taken(f32(1)) == [("test_low", None)]
        prefer_engines([], operator="TestEngines")
        prefer_engines(["test_low"])
        assert taken(f32(1)) == [("test_low", None)]
        assert taken(f32(1), "test_high,test_low") == [("test_high", None)]
    finally:
        prefer_engines([])
    with pytest.raises(ArgumentError, match="must not be empty"):
        prefer_engines([""])


def test_when_nobody_takes_it_every_reason_is_told() -> None:
    made = declare("TestNobody")
    engine("test_picky", "for tests", priority=50)

    @launcher(made, engine="test_picky")
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Any:  # pyright: ignore[reportUnusedFunction] -- registered
        del op, context, inputs, outputs
        return Unsupported("never")

    with pytest.raises(UnsupportedError, match=r"no engine takes TestNobody with float32\[1\]") as caught:
        run_op("TestNobody", [1.0])
    assert "test_picky: never" in str(caught.value)
    assert "reference: it has no TestNobody kernel" in str(caught.value)


@pytest.mark.skipif(why_unavailable("Relu", "cuda", "cuda") is None, reason="there is a CUDA device")
def test_without_a_driver_each_reason_is_told_once_and_what_helps() -> None:
    op = operator_def("Relu", ["x"], ["y"])
    op.device_option.CopyFrom(device_option(CUDAPlace(0)))
    with pytest.raises(UnknownOperatorError) as caught:
        Operator(op, blobs(x=f32(1.0)))
    hint = str(caught.value.hint)
    reasons = [part.partition(": ")[2] for part in hint.split("; ")]
    assert len(set(reasons)) == len(reasons), hint
    assert 'device="cpu"' in hint


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler (cc) here")
def test_a_kernel_in_c_runs_as_an_engine(tmp_path: Path) -> None:
    """The example of examples/native_module, under a schema in Python, called without the GIL through its address."""
    source = Path(__file__).parents[2] / "examples" / "native_module" / "scaled_add.c"
    library = tmp_path / "scaled_add.so"
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{include_folder()}", str(source), "-o", str(library)], check=True)
    module = load_module(library)
    schema(
        "ExampleScaledAdd",
        "Y = 2 A + B.",
        inputs=[blob("A", FLOAT, "*S"), blob("B", "A", "*S")],
        outputs=[blob("Y", like="A")],
        no_gradient=ends("an example"),
    )
    try:
        home = blobs(a=f32(1, 2, 3), b=f32(10, 20, 30))
        op = Operator(operator_def("ExampleScaledAdd", ["a", "b"], ["y"]), home)
        op.run()
        assert fetched(home, "y") == [12, 24, 36]
        assert [c.engine for c in op.choices if c.reason is None] == ["example"], module
    finally:
        SCHEMAS.unregister("ExampleScaledAdd")


def test_close_and_open_again() -> None:
    op = Operator(operator_def("Relu", ["x"], ["y"]), home := blobs(x=f32(1)))
    op.run()
    op.close()
    op.open()
    op.run(current_context(CPUPlace()))
    assert fetched(home, "y") == [1]


def test_what_a_host_kernel_reads_is_checked_whenever_it_is_of_another_kind() -> None:
    blobs = LocalBlobs()
    Operator(operator_def("CreateMutex", [], ["mutex"]), blobs).run()
    t, mutex = blobs.create_blob("t"), blobs.create_blob("mutex")
    held = mutex.value
    good, bad = Tensor.from_numpy(np.zeros(1, np.int64)), Tensor.from_numpy(np.zeros(1, np.float32))
    t.set(good)
    operator = Operator(operator_def("AtomicIter", ["mutex", "t"], ["t"]), blobs)
    for _ in range(2):
        operator.run()
        t.set(bad)
        for _ in range(2):
            with pytest.raises(DTypeError, match="t is float32, it must be int64"):
                operator.run()
        t.set(good)
        mutex.set("text")
        with pytest.raises(DTypeError, match="'mutex' is a std::string, not a"):
            operator.run()
        mutex.set(held)
    operator.run()
    assert good.array.tolist() == [3]
