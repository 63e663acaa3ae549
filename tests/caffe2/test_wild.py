"""What models and programs in the wild rely on, point by point, and in no test of Caffe2's own.

`POINTS` says where each is shown; what no other test shows stands here. The list of points is kept beside the project.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from caffe2.proto import caffe2_pb2
from caffe2.python import core, dyndep, model_helper, rnn_cell, workspace
from caffe2.python.net_builder import NetBuilder, ops
from tazza.errors import UnavailableError

TESTS = Path(__file__).parents[1]
HERE = "caffe2/test_wild.py"

POINTS = {
    1: "ops/nn/test_pool.py::test_whatever_stands_beside_global_pooling"
    " ops/nn/test_pool.py::test_a_kernel_of_0_takes_global_pooling",
    2: "interop/test_chosen_inputs.py::test_the_input_is_found_in_every_form"
    " interop/test_chosen_inputs.py::test_commands_see_the_same_inputs"
    f" {HERE}::test_a_predictor_takes_inputs_by_place_whatever_the_init_net_made",
    3: "nets/test_device.py::test_the_error_names_the_nets_own_operator_and_the_cpu_runs_it"
    " nets/test_device.py::test_the_init_net_and_other_kinds_of_devices",
    4: "ops/recurrent/test_recurrent_network.py::test_text_and_message_are_the_same",
    5: "operator/test_format_words.py::test_a_loaded_net_says_nothing"
    " operator/test_format_words.py::test_every_engine_of_caffe2_is_known",
    6: "operator/test_format_words.py::test_arguments_of_builders_are_reported_for_no_operator"
    " operator/test_format_words.py::test_plans_say_nothing",
    7: "interop/test_wild_files.py::test_of_a_parameter_that_is_filled_twice_the_last_value_counts"
    " interop/test_wild_files.py::test_names_may_be_anything"
    " interop/test_wild_files.py::test_a_key_may_stand_a_hundred_times",
    8: "ops/vision/test_stylizer.py::test_noise ops/vision/test_stylizer.py::test_noise_is_a_blob_of_the_workspace"
    " ops/vision/test_stylizer.py::test_byte_by_byte ops/vision/test_stylizer.py::test_there_and_back",
    9: f"{HERE}::test_a_branch_without_outputs_is_seen",
    10: f"{HERE}::test_what_is_like_an_array_is_fed {HERE}::test_numbers_and_lists_are_refused",
    11: f"{HERE}::test_modules_import {HERE}::test_a_library_that_does_not_exist_is_passed_over",
    12: f"{HERE}::test_names_that_were_dropped {HERE}::test_a_helper_of_the_program_is_one_of_brew"
    f" {HERE}::test_a_folder_of_two_nets_is_a_module",
    13: f"{HERE}::test_names_of_lstm_states",
    14: f"{HERE}::test_private_doors_of_nets {HERE}::test_private_doors_of_modules {HERE}::test_a_database_by_the_door",
    15: f"{HERE}::test_operators_are_called_on_blobs",
    16: f"{HERE}::test_lines_of_logs {HERE}::test_names_of_checkpoints",
    17: f"{HERE}::test_what_draws_does_not_stop_a_program",
    18: "caffe2/test_legacy.py::test_a_program_gives_what_it_gave db/test_base.py::test_a_db_holds_what_was_committed",
    19: "caffe2/test_image_input.py::test_a_trainer_of_pictures caffe2/test_image_input.py::test_a_trainer_of_videos"
    " caffe2/test_imagenet_trainer.py::test_a_training_on_pictures_is_tested_and_saved",
    20: "caffe2/test_layers.py::test_a_layer_of_ones_own_is_asked_for_what_a_net_is_for"
    f" {HERE}::test_a_python_operator_with_the_workspace_and_a_gradient {HERE}::test_operators_in_c_are_refused",
    21: f"{HERE}::test_gradient_of_a_loop_with_a_branch_inside {HERE}::test_an_input_that_a_method_hides",
    22: "operator/test_definition.py::test_a_quotient_is_told_how_it_is_written"
    " interop/migration/test_python2.py::test_a_form_is_told_by_its_line"
    " docs/test_migration.py::test_tables_are_up_to_date",
    23: f"{HERE}::test_results_do_not_hang_on_hashes",
}
"""Where each point is shown."""

Array = NDArray[Any]


@pytest.mark.slow
def test_every_point_is_shown_somewhere() -> None:
    assert list(POINTS) == list(range(1, 24))
    assert all(POINTS.values())
    for place in " ".join(POINTS.values()).split():
        file, _, name = place.partition("::")
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Iterator[Path]:
    """Each test has a workspace of its own, whose files go to a folder of its own."""
    workspace.ResetWorkspace(str(tmp_path))
    yield tmp_path
    workspace.ResetWorkspace()


def number(name: object) -> float:
    """Return the number in a blob."""
    return float(workspace.FetchBlob(str(name)))


# -- models ------------------------------------------------------------------------------------------------------------

IMAGES = np.arange(10, dtype=np.float32).reshape(2, 5) - 4
INPUTS = {
    "an exporter's": core.CreateOperator("GivenTensorFill", [], ["data"], shape=[1, 1], values=[0.0]),
    "a translator's": core.CreateOperator("ConstantFill", [], ["data"], shape=[1], value=0.0),
    "an example": core.CreateOperator("GivenTensorFill", [], ["data"], shape=[1, 5], values=[0.5] * 5),
}


@pytest.mark.parametrize("form", INPUTS)
@pytest.mark.parametrize("as_bytes", [True, False])
def test_a_predictor_takes_inputs_by_place_whatever_the_init_net_made(form: str, as_bytes: bool) -> None:
    init = caffe2_pb2.NetDef(name="init", op=[INPUTS[form]])
    net = caffe2_pb2.NetDef(name="net", op=[core.CreateOperator("Relu", ["data"], ["y"])], external_input=["data"])
    assert workspace.Predictor(init, net).run([IMAGES]) == [], "it declares no output"
    net.external_output.append("y")
    predictor = workspace.Predictor(*(one.SerializeToString() if as_bytes else one for one in (init, net)))
    for given in ([IMAGES], {"data": IMAGES}):
        np.testing.assert_array_equal(predictor.run(given)[0], np.maximum(IMAGES, 0))


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("kind", ["simple", "simple_refcount", "async_scheduling", "plan"])
def test_a_branch_without_outputs_is_seen(kind: str, chosen: bool) -> None:
    """It writes a blob that is read behind it, and divides another one in place, and lists neither."""
    branch = core.Net("branch")
    branch.Div(["bbox_nms", "scale"], "bbox_nms")
    branch.Sigmoid("mask", "mask_fcn_probs")
    net = core.Net("detector")
    net.Relu("boxes", "bbox_nms")
    net.Relu("features", "mask")
    net.Scale("features", "mask_fcn_probs", scale=2.0)
    net.If(["has_boxes"], [], then_net=branch.Proto())
    net.Sum(["mask_fcn_probs", "bbox_nms"], "result")
    net.Proto().type = kind
    net.Proto().num_workers = 2
    net.Proto().external_output.append("result")
    boxes, features = np.array([-1, 2, 6], np.float32), np.array([0, 1, -2], np.float32)
    for name, value in {"boxes": boxes, "features": features, "scale": np.array([4], np.float32)}.items():
        workspace.FeedBlob(name, value)
    workspace.FeedBlob("has_boxes", np.array(chosen))
    wanted = [
        1 / (1 + np.exp(-np.maximum(features, 0))) + np.maximum(boxes, 0) / 4,
        2 * features + np.maximum(boxes, 0),
    ]
    workspace.CreateNet(net)
    for _ in range(3):
        workspace.RunNet(net)
        np.testing.assert_allclose(workspace.FetchBlob("result"), wanted[not chosen], rtol=1e-6)


# -- names -------------------------------------------------------------------------------------------------------------


class LikeAnArray:
    """What has `__array__` alone."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the numbers."""
        del dtype, copy
        return np.arange(3, dtype=np.int64)


class OfAnotherLibrary:
    """What lends its memory by DLPack alone, as tensors of torch do."""

    def __init__(self, array: Array) -> None:
        """Lend the memory of an array."""
        self._array = array

    def __dlpack__(self, **kwargs: Any) -> Any:
        """Return the capsule."""
        return self._array.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> Any:
        """Return where it lies."""
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("value", [LikeAnArray(), OfAnotherLibrary(np.arange(3, dtype=np.int64))])
def test_what_is_like_an_array_is_fed(value: object) -> None:
    assert workspace.FeedBlob("x", value)
    found = workspace.FetchBlob("x")
    assert (found.tolist(), found.dtype) == ([0, 1, 2], np.int64)


@pytest.mark.parametrize("value", [3, 1.5, [1.0, 2.0], (1,), np.float32(1), None])
def test_numbers_and_lists_are_refused(value: object) -> None:
    with pytest.raises(RuntimeError, match="cannot feed"):
        workspace.FeedBlob("x", value)


MODULES = ["data_parallel_model", "rnn_cell", "gru_cell", "muji", "memonger", "dyndep", "onnx.frontend", "onnx.backend"]


@pytest.mark.parametrize("module", [*MODULES, "models.download", "caffe_translator"])
def test_modules_import(module: str) -> None:
    assert import_module(f"caffe2.python.{module}")


def test_a_library_that_does_not_exist_is_passed_over() -> None:
    dyndep.InitOpsLibrary("@/caffe2/caffe2/contrib/nowhere:ops")


def test_operators_in_c_are_refused(root: Path) -> None:
    (root / "ops.so").write_bytes(b"\x7fELF")
    with pytest.raises(UnavailableError):
        dyndep.InitOpsLibrary(str(root / "ops.so"))


def test_names_that_were_dropped() -> None:
    initializers = import_module("caffe2.python.modeling.initializers")
    assert initializers.pFP16Initializer is initializers.PseudoFP16Initializer


def test_a_helper_of_the_program_is_one_of_brew() -> None:
    """As programs had it for layers whose parameters they name themselves."""

    def fc_explicit_param_names(model: Any, blob_in: Any, blob_out: Any, *, weight_name: str, **kwargs: Any) -> Any:
        return model.net.FC([blob_in, weight_name, f"{weight_name}_b"], blob_out, **kwargs)

    brew: Any = import_module("caffe2.python.brew")
    if not brew.has_helper(fc_explicit_param_names):
        brew.Register(fc_explicit_param_names)
    model = model_helper.ModelHelper(name="own_helper")
    brew.fc_explicit_param_names(model, "x", "y", weight_name="own")
    assert list(model.net.Proto().op[0].input) == ["x", "own", "own_b"]


def test_a_folder_of_two_nets_is_a_module(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the downloader left it: in the current folder; what it installed has an `__init__.py` of its own."""
    monkeypatch.chdir(root)
    folder = root / "tiny_squeezenet"
    folder.mkdir()
    init = caffe2_pb2.NetDef(
        name="init", op=[core.CreateOperator("GivenTensorFill", [], ["w"], shape=[2], values=[3.0, 4.0])]
    )
    net = caffe2_pb2.NetDef(
        name="net", op=[core.CreateOperator("Mul", ["data", "w"], ["y"])], external_input=["data", "w"]
    )
    net.external_output.append("y")
    with pytest.raises(ModuleNotFoundError):
        import_module("caffe2.python.models.tiny_squeezenet")
    (folder / "init_net.pb").write_bytes(init.SerializeToString())
    (folder / "predict_net.pb").write_bytes(net.SerializeToString())
    model = import_module("caffe2.python.models.tiny_squeezenet")
    model.predict_net.name = "tiny_predict"
    predictor = workspace.Predictor(model.init_net.SerializeToString(), model.predict_net.SerializeToString())
    assert predictor.run([np.array([1, 2], np.float32)])[0].tolist() == [3, 8]
    del sys.modules["caffe2.python.models.tiny_squeezenet"]
    (folder / "init_net.pb").write_bytes(b"no net")
    with pytest.raises(RuntimeError, match="init_net"):
        import_module("caffe2.python.models.tiny_squeezenet")


def test_names_of_lstm_states() -> None:
    """Those of Caffe2 1.8.1; saved nets have `hidden_t_last` and so on, and keep them."""
    model = model_helper.ModelHelper(name="lstm")
    blobs = model.net.AddExternalInputs("data", "lengths", "hidden", "cell")
    found = rnn_cell.LSTM(model, blobs[0], blobs[1], blobs[2:], 3, 4, scope="LSTM")
    assert [str(one) for one in found] == [
        f"LSTM/{state}_{which}" for state in ("hidden_state", "cell_state") for which in ("all", "last")
    ]


def test_private_doors_of_nets() -> None:
    net: Any = core.Net("door")
    net.Relu("x", "y")
    assert net._net is net.Proto()
    other = caffe2_pb2.NetDef()
    other.CopyFrom(net._net)
    other.op.add(type="Sigmoid", input=["y"], output=["z"])
    net._net = other
    net.Proto().type = "dag"
    workspace.FeedBlob("x", np.zeros(2, np.float32))
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob("z").tolist() == [0.5, 0.5]
    model: Any = model_helper.ModelHelper(name="model")
    more = core.Net("more")
    model.net._net = other
    more.ConstantFill([], "k", shape=[1])
    model.param_init_net = model.param_init_net.AppendNet(more)
    assert [op.type for net in (model.net, model.param_init_net) for op in net.Proto().op] == [
        *("Relu", "Sigmoid"),
        "ConstantFill",
    ]


def test_private_doors_of_modules() -> None:
    scope: Any = import_module("caffe2.python.scope")
    assert scope._NAMESCOPE_SEPARATOR == "/"
    net = core.Net("timed")
    net.ConstantFill([], "x", shape=[1], value=2.0)
    own = workspace.C.Workspace()
    own.run(net.Proto())
    assert own.fetch_blob("x").tolist() == [2]
    assert not workspace.HasBlob("x")
    workspace.CreateNet(net)
    times = workspace.C.benchmark_net(net.Name(), 1, 2, True)
    assert len(times) == 2, "of the net, and of each operator"


def test_a_database_by_the_door(root: Path) -> None:
    """A transaction and a database that are deleted have written; keys and values are texts or bytes."""
    path = str(root / "own.minidb")
    db = core.C.create_db("minidb", path, core.C.Mode.write)
    transaction = db.new_transaction()
    transaction.put("key", "text")
    transaction.put("other", b"\0\xff")
    del transaction
    del db
    cursor = core.C.create_db("minidb", path, core.C.Mode.read).new_cursor()
    found = [(cursor.key(), cursor.value())]
    cursor.next()
    assert [*found, (cursor.key(), cursor.value())] == [(b"key", b"text"), (b"other", b"\0\xff")]


def test_operators_are_called_on_blobs() -> None:
    model = model_helper.ModelHelper(name="chain")
    for name, value in {"a": np.ones((2, 3)), "b": np.full((2, 3), 2), "W": np.ones((4, 3)), "B": np.ones(4)}.items():
        workspace.FeedBlob(name, value.astype(np.float32))
    summed = model.net.Mul(["a", "b"]).ReduceBackSum()
    summed.AveragedLoss([], ["loss"])
    core.BlobReference("a", model.net).FC(["W", "B"], ["Y"])
    workspace.RunNetOnce(model.net)
    assert workspace.blobs["loss"] == 6
    assert f"{workspace.blobs['loss']:.2f} {workspace.blobs['loss'] + 1:g}" == "6.00 7"
    assert workspace.FetchBlob("Y").tolist() == [[4] * 4] * 2


# -- what is written ---------------------------------------------------------------------------------------------------


def test_lines_of_logs(root: Path) -> None:
    workspace.FeedBlob("loss", np.array(2.36994, np.float32))
    net = core.Net("logs")
    net.Print("loss", [], to_file=1)
    net.Summarize("loss", [], to_file=1)
    workspace.RunNetOnce(net)
    assert {path.name: path.read_text() for path in root.iterdir()} == {
        "loss.log": "Tensor loss of type float. Dims: (): 2.36994\n",
        "loss.summary": "2.36994 2.36994 2.36994 0\n",
    }


def test_names_of_checkpoints(root: Path) -> None:
    workspace.FeedBlob("iteration", np.array([41]))
    net = core.Net("checkpoints")
    net.Iter("iteration", "iteration")
    net.Checkpoint(["iteration"], [], db="step_%05d.minidb", db_type="minidb", every=1)
    workspace.RunNetOnce(net)
    assert [path.name for path in root.iterdir()] == ["step_00042.minidb"]


# -- the rest ----------------------------------------------------------------------------------------------------------

WITHOUT = """
import sys
for library in ("pydot", "graphviz", "matplotlib", "IPython"):
    sys.modules[library] = None
from caffe2.python import core, net_drawer, visualize
try:
    net_drawer.GetPydotGraph(core.Net("a"))
except Exception as error:
    print(type(error).__name__)
"""


@pytest.mark.slow
def test_what_draws_does_not_stop_a_program() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()


@pytest.mark.parametrize("builds", [False, True])
def test_a_python_operator_with_the_workspace_and_a_gradient(builds: bool) -> None:
    """The gradient of a plain function gets no workspace; that of a built one does."""
    seen: list[str] = []

    def double(inputs: Any, outputs: Any, owner: Any) -> None:
        seen.append(type(owner).__name__)
        outputs[0].feed(inputs[0].data * 2)

    def plain(inputs: Any, outputs: Any) -> None:
        outputs[0].feed(inputs[-1].data * 2)

    def built(inputs: Any, outputs: Any, owner: Any) -> None:
        seen.append(type(owner).__name__)
        plain(inputs, outputs)

    pair: tuple[Any, Any] = ((lambda: double, [], {}), (lambda: built, [], {})) if builds else (double, plain)
    net = core.Net("python")
    y = net.Python(*pair, pass_workspace=True)(["x"], ["y"])
    gradients = net.AddGradientOperators([net.AveragedLoss(y, "loss")])
    workspace.FeedBlob("x", np.ones(4, np.float32))
    workspace.RunNetOnce(net)
    assert workspace.FetchBlob(str(gradients["x"])).tolist() == [0.5] * 4
    assert seen == ["Workspace"] * (2 if builds else 1)


@pytest.mark.slow
def test_gradient_of_a_loop_with_a_branch_inside(caplog: pytest.LogCaptureFixture) -> None:
    """An AssertionError in Caffe2 1.8.1; the last part of its tutorial says 32, 6 and 12."""
    with NetBuilder(_use_control_ops=True) as nb:
        for name, value in {"i": 0, "one": 1, "two": 2, "x": 2.0, "y": 3.0, "z": 2.0}.items():
            ops.Copy(ops.Const(value), name)
        with ops.WhileNet():
            with ops.Condition():
                ops.Add(["i", "one"], "i")
                ops.LE(["i", "two"])
            ops.Pow("x", "x", exponent=2.0)
            with ops.IfNet(ops.LT(["i", "two"])):
                ops.Pow("y", "y", exponent=2.0)
            with ops.Else():
                ops.Pow("z", "z", exponent=3.0)
        ops.Add(["x", "y"], "some")
        ops.Add(["some", "z"], "all")
    (net,) = nb.get()
    gradients = net.AddGradientOperators(["all"])
    workspace.RunNetOnce(net)
    assert [number(name) for name in "xyz"] == [16, 9, 8]
    np.testing.assert_allclose([number(gradients[name]) for name in "xyz"], [32, 6, 12], rtol=1e-6)
    assert "taken for positive" in caplog.text


def test_an_input_that_a_method_hides() -> None:
    """`TensorProtosDBInput` was a layer once; models of layers have the method of all models under that name."""
    layer_model_helper, schema = (import_module(f"caffe2.python.{name}") for name in ("layer_model_helper", "schema"))
    record = schema.NewRecord(core.Net("record"), schema.Struct(("a", schema.Scalar(np.float32))))
    model = layer_model_helper.LayerModelHelper("hidden", record, schema.Struct())
    assert model.TensorProtosDBInput.__func__ is model_helper.ModelHelper.TensorProtosDBInput


HASHES = """
from caffe2.python import core, model_helper, brew, optimizer, workspace
from caffe2.proto import caffe2_pb2
model = model_helper.ModelHelper(name="m")
with core.DeviceScope(core.DeviceOption(caffe2_pb2.CPU, random_seed=3)):
    parts = [brew.fc(model, "x", "part%d" % i, 3, 2) for i in range(4)]
    both = model.net.Sum([*parts, model.net.Sum(parts, "half")], "both")
model.AddGradientOperators([model.net.AveragedLoss(both, "loss")])
optimizer.build_adam(model, 0.1)
deploy, names = model_helper.ExtractPredictorNet(model.net.Proto(), ["x"], ["both"])
print(model.net.Proto(), model.param_init_net.Proto(), deploy.Proto(), names)
"""


@pytest.mark.slow
def test_results_do_not_hang_on_hashes() -> None:
    """Sets are walked in the order of Python's hashes, which change from process to process."""
    found: set[str] = set()
    for seed in ("0", "1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", HASHES], capture_output=True, text=True, check=True, env=environment
        )
        found.add("".join(line for line in done.stdout.splitlines() if "debug_info" not in line))
    assert len(found) == 1
