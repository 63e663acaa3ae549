"""What tests of operators are written with fails where an operator is wrong, and modules that are not there say so."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from __future__ import annotations

import inspect
import io
import unittest
import zipfile
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from caffe2.proto import hsm_pb2
from caffe2.python import _absent, core, functional, hsm_util, tt_core, workspace
from caffe2.python.onnx import helper
from tazza.errors import FormatError, UnavailableError
from tazza.proto import DeviceOption, NetDef, OperatorDef
from tools.record_absent import is_there

profile = hypothesis.settings.get_current_profile_name()
from caffe2.python import gradient_checker, test_util  # noqa: E402
from caffe2.python import hypothesis_test_util as hu  # noqa: E402 -- it sets the profile of those who import it
from caffe2.python.serialized_test import _recorded, serialized_test_util  # noqa: E402

hypothesis.settings.load_profile(profile)

CPU = DeviceOption()
X = np.array([1.0, -2.0, 3.0], np.float32)


def case(of: type[Any] = hu.HypothesisTestCase) -> Any:
    """Return a test to assert by."""

    class Case(of):  # pyright: ignore[reportUntypedBaseClass] -- of any
        def runTest(self) -> None:
            pass

    return Case()


@pytest.fixture(autouse=True)
def _own_workspace() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction] -- pytest finds it
    workspace.ResetWorkspace()
    yield
    workspace.ResetWorkspace()


RELU = core.CreateOperator("Relu", ["X"], ["Y"])
REFUSED: dict[str, Callable[[Any], object]] = {
    "reference": lambda test: test.assertReferenceChecks(CPU, RELU, [X], lambda x: [x]),
    "no list": lambda test: test.assertReferenceChecks(CPU, RELU, [X], lambda x: np.maximum(x, 0)),
    "too few inputs": lambda test: test.assertReferenceChecks(CPU, RELU, [], lambda: [X]),
    "gradient reference": lambda test: test.assertReferenceChecks(
        CPU, RELU, [X], lambda x: [np.maximum(x, 0)], output_to_grad="Y", grad_reference=lambda dy, y, x: [dy + 1]
    ),
    "gradient": lambda test: test.assertGradientChecks(CPU, wrong_gradient(), [X.copy()], 0, [0]),
    "validation": lambda test: test.assertValidationChecks(
        CPU, RELU, [X], lambda X, Y: np.testing.assert_array_equal(X, Y)
    ),
    "raises": lambda test: test.assertRunOpRaises(CPU, RELU, [X]),
    "raises another text": lambda test: test.assertRunOpRaises(CPU, RELU, [X.astype(int)], regexp="no such text"),
}


def wrong_gradient() -> OperatorDef:
    """Return an operator whose gradient is half of what it should be."""

    def double(inputs: Any, outputs: Any) -> None:
        outputs[0].feed(inputs[0].data * 2)

    def same(inputs: Any, outputs: Any) -> None:
        outputs[0].feed(inputs[2].data)

    return core.CreatePythonOperator(double, ["X"], ["Y"], grad_f=same)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_fails(name: str) -> None:
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        REFUSED[name](case())
    assert workspace.CurrentWorkspace() == "default"


def test_what_is_right_passes() -> None:
    test = case()
    (found,) = test.assertReferenceChecks(
        CPU,
        RELU,
        [X],
        lambda x: [np.maximum(x, 0)],
        output_to_grad="Y",
        grad_reference=lambda dy, y, x: [dy * (x[0] > 0)],
        ensure_outputs_are_inferred=True,
    )
    assert found.tolist() == [1, 0, 3]
    test.assertDeviceChecks([CPU, CPU], RELU, [X], [0])
    test.assertGradientChecks(CPU, RELU, [X.copy()], 0, [0], ensure_outputs_are_inferred=True)
    test.assertValidationChecks(
        CPU, RELU, [X], lambda inputs, outputs: np.testing.assert_equal(len(inputs), 1), as_kwargs=False
    )
    test.assertRunOpRaises(CPU, RELU, [X.astype(np.int32)], exception=RuntimeError, regexp="int32")
    assert hu.runOpOnInput(CPU, RELU, [X])[0].tolist() == [1, 0, 3]


def test_a_gradient_of_rows_is_compared_as_a_whole() -> None:
    """The gradient of a lookup is one of rows; both checkers make it dense."""
    op = core.CreateOperator("SparseLengthsSum", ["D", "i", "l"], ["Y"])
    table, rows = np.random.RandomState(1).rand(4, 2).astype("f"), np.array([3, 0, 3])
    case().assertGradientChecks(CPU, op, [table, rows, np.array([2, 1], np.int32)], 0, [0])


def test_devices_that_differ_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def counts(inputs: Any, outputs: Any) -> None:
        runs.append(0)
        outputs[0].feed(np.array([len(runs)], np.float32))

    op = core.CreatePythonOperator(counts, [], ["Y"])
    with pytest.raises(AssertionError):
        case().assertDeviceChecks([CPU, CPU], op, [], [0])


def test_gradients_of_nets() -> None:
    net, twin = core.Net("one"), core.Net("other")
    for each in (net, twin):
        each.Sqr("x", "y") if each is net else each.Mul(["x", "x"], "y")
    values = {"x": X}
    apart = gradient_checker.NetGradientChecker.Check(net, ["y"], values, "x", step_size=0.01)
    assert max(apart) < 0.01
    gradient_checker.NetGradientChecker.CompareNets([net, twin], [["y"], ["y"]], [0], ["x"], values, threshold=1e-6)
    third = core.Net("third")
    third.Relu("x", "y")
    with pytest.raises(AssertionError, match="Different forward pass"):
        gradient_checker.NetGradientChecker.CompareNets([net, third], [["y"], ["y"]], [0], ["x"], values)


@hypothesis.given(st.data())
@hypothesis.settings(max_examples=20, deadline=None)
def test_strategies(data: st.DataObject) -> None:
    values, rows, lengths = data.draw(hu.sparse_lengths_tensor(allow_empty=True))
    assert lengths.sum() == len(rows)
    assert rows.max(initial=0) < len(values)
    table, segments = data.draw(hu.segmented_tensor())
    assert len(table) == len(segments)
    assert segments[0] == 0
    assert set(np.diff(segments)) <= {0, 1}
    first, second = data.draw(hu.tensors(n=2, dtype=np.float64))
    assert (first.shape, first.dtype) == (second.shape, np.float64)


def test_flaky_tests_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Case(test_util.TestCase):
        @test_util.caffe2_flaky
        def test_sometimes(self) -> None: ...
        def test_always(self) -> None: ...

    def skipped() -> list[str]:
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(Case).run(result)
        return [str(one).partition(" ")[0] for one, _ in result.skipped]

    assert skipped() == ["test_sometimes"]
    monkeypatch.setenv("CAFFE2_RUN_FLAKY_TESTS", "1")
    assert skipped() == ["test_always"]


# -- files -------------------------------------------------------------------------------------------------------------


def test_what_was_written_is_compared(tmp_path: Path) -> None:
    class Case(serialized_test_util.SerializedTestCase):
        scale = 1.0

        @serialized_test_util.given(X=hu.tensor1d(min_len=3, max_len=3))
        def test_it(self: Any, X: Any) -> None:
            op = core.CreateOperator("Scale", ["X"], ["Y"], scale=self.scale)
            self.assertReferenceChecks(CPU, op, [X + 1], lambda x: [x * np.float32(self.scale)])

    context: Any = serialized_test_util._output_context  # pyright: ignore[reportPrivateUsage] -- what the command sets
    context.output_dir = str(tmp_path)
    (tmp_path / serialized_test_util.operator_test_type).mkdir()
    try:
        context.should_generate_output = True
        Case("test_it").debug()
        context.should_generate_output = False
        Case("test_it").debug()
        Case.scale = 2.0
        with pytest.raises(AssertionError):
            Case("test_it").debug()
    finally:
        context.__dict__.clear()


def test_objects_of_a_file_are_never_called(tmp_path: Path) -> None:
    """A file asks for `os.system`: it is refused, by its name."""
    body = b"cos\nsystem\n(S'touch " + str(tmp_path / "ran").encode() + b"'\ntR."
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "|O", "fortran_order": False, "shape": (1,)})
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("inputs.npy", array.getvalue() + body)
    path = tmp_path / "case.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inout.npz", held.getvalue())
        archive.writestr("op.pb", RELU.SerializeToString())
    with pytest.raises(FormatError, match="'os system', which is nothing of arrays"):
        _recorded.read(path)
    assert not (tmp_path / "ran").exists()


# -- smaller modules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", _absent.absent())
def test_modules_that_are_not_there_import_and_say_so(module: str) -> None:
    assert not is_there(module), "run tools/record_absent.py"
    found = import_module(f"caffe2.python.{module}")
    for name in _absent.absent()[module]:
        with pytest.raises(UnavailableError, match=f"{module}.{name} is not there yet"):
            getattr(found, name)()


def test_names_that_are_not_there_say_what_they_take_and_why_they_refuse() -> None:
    onnxifi, transform = (import_module(f"caffe2.python.{name}") for name in ("onnx.onnxifi", "trt.transform"))
    taken = inspect.signature(transform.convert_onnx_model_to_trt_op).parameters
    assert [(one.name, one.default) for one in taken.values()] == [
        ("onnx_model", inspect.Parameter.empty),
        ("max_batch_size", 64),
        ("max_workspace_size", 2 << 20),
        ("verbosity", 1),
        ("debug_builder", False),
    ]
    with pytest.raises(UnavailableError, match="no ONNX"):
        onnxifi.onnxifi_caffe2_net(None, {}, max_batch_size=2)
    with pytest.raises(UnavailableError, match="no TensorRT"):
        transform.convert_onnx_model_to_trt_op(None)


def test_errors_of_converters_can_be_caught() -> None:
    error = import_module("caffe2.python.onnx.error")
    assert issubclass(error.Unsupported, error.BaseException)
    assert issubclass(error.BaseException, Exception)


def test_names_that_are_not_there_can_be_derived_from() -> None:
    from caffe2.python.onnx.backend import Caffe2Backend  # pyright: ignore[reportMissingImports, reportUnknownVariableType]

    class Own(Caffe2Backend):  # pyright: ignore[reportUntypedBaseClass] -- it is not there
        pass

    with pytest.raises(UnavailableError, match="Own is not there yet"):
        Own()
    with pytest.raises(ImportError):
        import_module("caffe2.python.no_such_module")


def test_cores_of_full_rank_are_the_matrix() -> None:
    inputs, outputs, ranks = [2, 3], [3, 2], [1, 6, 1]
    W = np.random.RandomState(3).rand(6, 6).astype("f")
    last, first = np.split(tt_core.matrix_to_tt(W, inputs, outputs, ranks), [36])
    cores = first.reshape(2, 6, 1, 3), last.reshape(3, 1, 6, 2)  # inputs, behind, before, outputs
    made = np.einsum("irxo,jyrp->ijop", *cores)
    np.testing.assert_allclose(made.reshape(6, 6), W.T, rtol=1e-4, atol=1e-5)


def test_random_cores_are_those_of_caffe2() -> None:
    made = tt_core.init_tt_cores([2, 3], [3, 2], [1, 4, 1])
    wanted = [0.007063563, 0.013684493, 0.001592736, 0.054267678, 0.025022572, 0.000246071]
    assert made.shape == (48,)
    np.testing.assert_allclose(np.abs(made[[0, 7, 23, 24, 30, 47]]), wanted, rtol=1e-4)


def test_paths_to_words() -> None:
    inner = hsm_util.create_node_with_words([30, 40], "inner")
    tree = hsm_pb2.TreeProto(root_node=hsm_util.create_node_with_nodes([inner]))
    tree.root_node.word_ids.append(10)
    made = hsm_util.create_hierarchy(tree)
    assert made.size == 4
    assert [(path.word_id, [(n.index, n.length, n.target) for n in path.path_nodes]) for path in made.paths] == [
        (30, [(0, 2, 0), (2, 2, 0)]),
        (40, [(0, 2, 0), (2, 2, 1)]),
        (10, [(0, 2, 1)]),
    ]


def test_registered_operators_are_a_set() -> None:
    """The tests of `workspace` ask for one at import."""
    registered = core._REGISTERED_OPERATORS  # pyright: ignore[reportPrivateUsage] -- a private door
    assert "Relu" in registered
    assert "ScriptModule" not in registered
    assert len(registered) == len(list(registered)) == len(workspace.RegisteredOperators())


def test_nets_run_as_bytes_too() -> None:
    net = core.Net("of bytes")
    net.ConstantFill([], "x", shape=[2], value=3.0)
    data = net.Proto().SerializeToString()
    assert workspace.RunNetOnce(data)
    assert workspace.CreateNet(data, True)
    assert workspace.RunNet(b"of bytes")
    assert workspace.FetchBlob("x").tolist() == [3, 3]


def test_the_folder_of_immediate_mode_ends_with_it() -> None:
    workspace.StartImmediate(True)
    assert workspace._immediate_root_folder  # pyright: ignore[reportPrivateUsage] -- a private door
    workspace.StopImmediate()
    assert workspace._immediate_root_folder == ""  # pyright: ignore[reportPrivateUsage] -- a private door


def test_operators_are_functions() -> None:
    found = functional.Functional.Split(np.array([1, 2, 3], np.float32), num_output=3, axis=0)
    assert [found[0].item(), found["output_1"].item(), found.output_2.item()] == [1, 2, 3]
    assert functional.Functional.Relu(X).output_0.tolist() == [1, 0, 3]
    with pytest.raises(ValueError, match="Number of inputs"):
        functional.Functional.Relu(X, X)


def test_nets_run_in_a_workspace_of_their_own() -> None:
    net = NetDef(op=[core.CreateOperator("Relu", ["X"], ["Y"])], external_input=["X"], external_output=["Y"])
    own, found = helper.c2_native_run_net(None, net, [X])
    assert found.Y.tolist() == [1, 0, 3]
    assert own.HasBlob("Y")
    assert not workspace.HasBlob("Y")
    assert helper.c2_native_run_op(net.op[0], {"X": X})[1].Y.tolist() == [1, 0, 3]
