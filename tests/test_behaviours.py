"""What scripts rely on: the rows of `reference/behaviours.md`, each as its reproduction through tazza's own names.

The numbers are those of that table, whose every row ran on the genuine Caffe2. Rows that a family's test shows more
fully are only named in `ROWS`, with the parts that nothing shows. What is compared is the observed value that the
table gives.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option, device_scope
from tazza.errors import TazzaError
from tazza.models import BlobReference, Model, Net, name_scope, sgd
from tazza.operator import operator_def, run_op
from tazza.proto import BlobProto, DeviceOption, NetDef
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.serialization import serialize
from tazza.workspace import Workspace
from tests.golden import recordings

Array = NDArray[Any]


def f(*shape: int) -> Array:
    """Return 0, 1, 2 ... as float32."""
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def err(act: Callable[[], Any]) -> Any:
    """Return what `act` returns, or the text "error" for a typed error, which is a RuntimeError."""
    try:
        return act()
    except RuntimeError as error:  # what old scripts catch
        return "error" if isinstance(error, TazzaError) else repr(error)


def shape(act: Callable[[], Any]) -> Any:
    """Return the shape of what `act` returns, or "error"."""
    found = err(act)
    return found if isinstance(found, str) else found.shape


def run(type: str, ins: dict[str, Array], outs: list[str], **args: Any) -> list[Array]:
    """Run one operator in a new workspace and return its outputs."""
    ws = Workspace()
    for name, value in ins.items():
        ws.feed(name, value)
    ws.run_operator(operator_def(type, list(ins), outs, **args))
    return [ws.fetch(name) for name in outs]


def test_row_1_names_and_scopes() -> None:
    net = Net("row1")
    with name_scope("s"):
        y = net.add("Relu", "x", "y")
        net.add("Relu", BlobReference("z"), "w")
        with name_scope("t"):
            net.add("Relu", y, "q")
    assert [(list(op.input), list(op.output)) for op in net.proto.op] == [
        (["s/x"], ["s/y"]),
        (["z"], ["s/w"]),
        (["s/y"], ["s/t/q"]),
    ]


def test_row_2_gradients_added_inside_a_scope() -> None:
    net = Net("row2")
    with name_scope("s"):
        net.add("Relu", "x", "y")
        loss = net.add("AveragedLoss", BlobReference("s/y"), "loss")
        found = net.add_gradients([loss])
    assert found == {"s/loss": "s/s/loss_autogen_grad", "s/y": "s/y_grad", "s/x": "s/x_grad"}


def test_row_3_net_names_are_unique() -> None:
    names = [Net("row3").name for _ in range(3)]
    assert [*names, Net.from_proto(NetDef(name="row3")).name] == ["row3", "row3_1", "row3_2", "row3_3"]
    assert Model("row3m").init_net.name == "row3m_init"


def test_row_4_external_inputs_are_inferred() -> None:
    net, other = Net("row4"), Net("row4b")
    y = net.add("Relu", "x", "y")
    net.add("Sum", [y, "k"], "z")
    other.add("Relu", y, "r")
    assert (net.external_inputs, other.external_inputs, net.external_outputs) == (["x", "k"], ["y"], [])
    assert err(lambda: net.add_external_input("x")) == "error"


def test_row_12_random_numbers_belong_to_the_operator() -> None:
    seeded = device_option(random_seed=7)
    fills = [operator_def("GaussianFill", [], [name], shape=[2], device=seeded) for name in "ab"]
    net, ws = NetDef(name="g", op=fills), Workspace()
    ws.create_net(net)
    ws.run_net("g")
    a, b = ws.fetch("a").tolist(), ws.fetch("b").tolist()
    ws.run_net("g")
    c = ws.fetch("a").tolist()
    ws.run_net_once(net)
    assert (a == b, a == c, a == ws.fetch("a").tolist()) == (True, False, True)


def bn(*outputs: str, **args: Any) -> Workspace:
    """Run SpatialBN on eight values in one channel, with running statistics m and v of 0."""
    ws = Workspace()
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    for name, value in {"x": f(2, 1, 2, 2), "s": one, "b": zero, "m": zero, "v": zero}.items():
        ws.feed(name, value)
    ws.run_operator(operator_def("SpatialBN", ["x", "s", "b", "m", "v"], list(outputs), **args))
    return ws


def test_row_16_is_test_is_mandatory() -> None:
    """Dropout, the other half of the row, is not there yet."""
    assert err(lambda: bn("y")) == "error"


def test_row_17_statistics_of_spatial_bn() -> None:
    ws, x = bn("y", "m", "v", "sm", "si", is_test=0), f(2, 1, 2, 2)
    found = [float(ws.fetch(name)[0]) for name in ("m", "v", "si")]
    np.testing.assert_allclose(found, [0.35, 0.1 * x.var(ddof=1), (x.var() + 1e-5) ** -0.5], rtol=1e-5)
    assert err(lambda: bn("y", "m2", "v", "sm", "si", is_test=0)) == "error"
    assert err(lambda: bn("y", is_test=0)) == "error"


@pytest.mark.parametrize(("nesterov", "wanted"), [(0, [9.2, 9.2, -4.2]), (1, [8.48, 9.2, -3.48])])
def test_row_18_signs_of_updates(nesterov: int, wanted: list[float]) -> None:
    ins = {name: np.array([value], np.float32) for name, value in zip("gmlp", (2, 10, 0.1, 5), strict=True)}
    found = run("MomentumSGDUpdate", ins, ["g", "m", "p"], momentum=0.9, nesterov=nesterov)
    np.testing.assert_allclose([float(value[0]) for value in found], wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("momentum", "wanted"),
    [
        (0.0, [("LearningRate", -0.1)]),
        (0.9, [("LearningRate", 0.1), ("MomentumSGDUpdate", 0.9), ("MomentumSGDUpdate", 0.9)]),
    ],
)
def test_row_18_what_sgd_emits(momentum: float, wanted: list[tuple[str, float]]) -> None:
    model = Model("row18")
    loss = model.averaged_loss(model.fc("x", "y", 2, 2), "l")
    model.add_gradients([loss])
    sgd(model, 0.1, momentum=momentum)
    found = [
        (op.type, round(arg.f, 2))
        for op in model.net.proto.op
        if op.type in ("LearningRate", "WeightedSum", "MomentumSGDUpdate")
        for arg in op.arg
        if arg.name in ("base_lr", "momentum")
    ]
    assert found == wanted


def test_row_19_counter_and_learning_rate() -> None:
    ws = Workspace()
    ws.run_operator(operator_def("Iter", [], ["it"]))
    first = ws.fetch("it")
    assert (first.tolist(), first.dtype, first.shape) == ([1], np.int64, (1,))

    def rate(iteration: int, **args: Any) -> Array:
        return run_op("LearningRate", np.array([iteration]), base_lr=0.1, **args)

    assert rate(1, policy="fixed").shape == ()
    assert float(rate(3, policy="step", stepsize=1)) == 0.0
    assert np.isnan(rate(12, policy="poly", power=0.5, max_iter=10))
    assert err(lambda: rate(1, policy="nope")) == "error"


def test_row_20_fc_flattens() -> None:
    def s(x: Array, w: Array, **args: Any) -> Any:
        return shape(lambda: run_op("FC", x, w, f(7), **args))

    found = (
        s(f(2, 3, 4, 5), f(7, 60)),
        s(f(2, 3, 4, 5), f(7, 20), axis=2),
        s(f(2, 3, 4, 5), f(7, 3, 4, 5)),
        s(f(2, 3, 5), f(7, 5), axis=-1),
        s(f(0, 5), f(7, 5)),
        s(f(5), f(7, 5)),
        s(f(2, 4), f(7, 5)),
    )
    assert found == ((2, 7), (2, 3, 7), (2, 7), (2, 3, 7), (0, 7), "error", "error")


def test_row_21_output_size_and_padding_of_pooling() -> None:
    def z(type: str, x: Array, **args: Any) -> Any:
        return shape(lambda: run_op(type, x, **args))

    image, one = f(1, 1, 6, 6), np.ones((1, 1, 1, 1), np.float32)
    assert z("MaxPool", image, kernel=3, stride=2) == (1, 1, 2, 2)
    assert z("MaxPool", image, kernel=3, stride=2, legacy_pad=3) == (1, 1, 3, 3)
    assert z("MaxPool", image, kernel=3, stride=2, legacy_pad=2) == (1, 1, 3, 3)
    assert z("MaxPool", image, kernel=3, stride=2, legacy_pad=2, pad=1) == "error"
    assert run_op("AveragePool", one, kernel=2, pad=1).ravel().tolist() == [1.0] * 4
    assert run_op("AveragePool", one, kernel=2, pad=1, count_include_pad=1).ravel().tolist() == [0.25] * 4
    assert z("AveragePool", f(1, 1, 4, 4), global_pooling=1, stride=2) == "error"


def test_row_23_fillers() -> None:
    def k(*inputs: Array, **args: Any) -> Any:
        found = run_op("ConstantFill", *inputs, **args)
        return found.dtype.name, found.shape

    assert k() == ("float32", ())
    assert k(shape=[2], value=3) == ("int64", (2,))
    assert k(shape=[2], value=3.0) == ("float32", (2,))
    assert k(np.zeros((2, 3), np.int32), value=1.0, extra_shape=[5]) == ("float32", (2, 3, 5))
    msra, xavier = (run_op(type, shape=[200, 50, 3, 3]) for type in ("MSRAFill", "XavierFill"))
    assert round(float(msra.std()) * (200 * 9 / 2) ** 0.5, 1) == 1.0
    assert round(float(abs(xavier).max()) * (50 * 9 / 3) ** 0.5, 2) == 1.0
    assert set(run_op("UniformIntFill", shape=[999], min=0, max=3).tolist()) == {0, 1, 2, 3}
    assert err(lambda: run_op("GivenTensorFill", shape=[2], values=[1, 2])) == "error"


def test_row_24_labels_losses_and_empty_batches() -> None:
    p = np.full((2, 3), 1 / 3, np.float32)

    def i4(*values: Any) -> Array:
        return np.array(values, np.int32)

    assert shape(lambda: run_op("LabelCrossEntropy", p, np.array([0, 1]))) == "error"
    assert run_op("LabelCrossEntropy", p, i4([0], [1])).shape == (2,)
    assert shape(lambda: run_op("Accuracy", p, i4([0], [1]))) == "error"
    assert run_op("SoftmaxWithLoss", p, i4(0, 1))[1].shape == ()
    assert float(run_op("Accuracy", p, i4(0, 1))) == 0.5
    assert float(run_op("SoftmaxWithLoss", f(0, 3), i4())[1]) == 0.0
    assert np.isnan(run_op("Accuracy", f(0, 3), i4()))
    np.testing.assert_allclose(run_op("LabelCrossEntropy", np.array([[0, 1]], np.float32), i4(0)), 46.051700592041016)
    assert run_op("Softmax", f(2, 3, 2, 2)).reshape(2, -1).sum(1).round(3).tolist() == [1.0, 1.0]


def test_row_25_in_place_rules() -> None:
    def t(type: str, ins: list[str], outs: list[str]) -> bool:
        ws = Workspace()
        for name, value in {"a": f(2), "b": f(2), "m": f(3, 2), "i": np.array([0])}.items():
            ws.feed(name, value)
        return err(lambda: ws.run_operator(operator_def(type, ins, outs))) is None

    assert (t("Relu", ["a"], ["a"]), t("Softmax", ["m"], ["m"])) == (True, False)
    assert (t("Sum", ["a", "b"], ["a"]), t("Sum", ["a", "b"], ["b"])) == (True, False)
    assert (t("Sum", ["a", "m"], ["a"]), t("Iter", ["i"], ["j"])) == (False, False)


def test_row_26_broadcasting() -> None:
    def add(*operands: Array, **args: Any) -> Any:
        return shape(lambda: run_op("Add", *operands, **args))

    assert add(f(2, 3), f(2, 1)) == (2, 3)
    assert add(f(2, 3, 4), f(3), axis=1) == "error"
    assert add(f(2, 3, 4), f(3), broadcast=1, axis=1) == (2, 3, 4)
    assert add(f(2, 3, 4, 5), f(3), broadcast=1, axis_str="C") == (2, 3, 4, 5)
    assert add(f(4), f(3, 4), broadcast=1) == "error"
    assert add(f(3), np.arange(3)) == "error"
    assert shape(lambda: run_op("Sum", f(2, 3), f(3))) == "error"


def test_row_27_shapes_of_helper_outputs() -> None:
    pair = {"a": f(2, 3), "b": f(2, 4)}
    assert err(lambda: run("Concat", pair, ["y"])) == "error"
    sizes = run("Concat", pair, ["y", "s"])[1]
    assert (sizes.tolist(), sizes.dtype) == ([3, 4], np.int32)
    assert run("Reshape", {"a": f(2, 4)}, ["y", "o"], shape=[0, -1, 2])[0].shape == (2, 2, 2)
    assert run("Slice", {"a": f(3)}, ["y"], starts=[0], ends=[-1])[0].tolist() == [0, 1, 2]
    assert run("ReduceSum", {"a": f(2, 3)}, ["y"])[0].shape == (1, 1)
    assert err(lambda: run("Split", {"a": f(2, 5)}, ["y", "z"])) == "error"


def test_row_29_shared_buffer() -> None:
    ws = Workspace()
    for name, value in {"x": f(1, 1, 4, 4), "w": f(1, 1, 3, 3), "b": f(1)}.items():
        ws.feed(name, value)
    ws.run_operator(operator_def("Conv", ["x", "w", "b"], ["y"], kernel=3, shared_buffer=1, engine="gemm"))
    assert (ws.fetch("y").shape, len([b for b in ws.blob_names() if "SHARED_CONV_BUFFER" in b])) == ((1, 1, 2, 2), 2)


def test_row_30_device_options() -> None:
    net, loss_net = Net("row30"), Net("row30g")
    with device_scope(device_option(CUDAPlace(1), node_name="N")):
        net.add("Relu", "a", "b")
        net.add("Relu", "a", "c", device=DeviceOption(device_type=0))
        with device_scope(device_option()):
            net.add("Relu", "a", "d")
    net.add("Relu", "a", "e")
    loss = loss_net.add("AveragedLoss", "x", "l", device=device_option(CUDAPlace(1)))
    loss_net.add_gradients([loss])
    assert [(op.type, op.HasField("device_option")) for op in loss_net.proto.op] == [
        ("AveragedLoss", True),
        ("ConstantFill", False),
        ("AveragedLossGradient", True),
    ]
    options = [(op.HasField("device_option"), op.device_option) for op in net.proto.op]
    assert [(has, o.device_type, o.device_id, o.node_name) for has, o in options] == [
        (True, 1, 1, "N"),
        (True, 0, 0, ""),
        (True, 0, 0, "N"),
        (False, 0, 0, ""),
    ]


@pytest.mark.parametrize("value", [np.zeros(1, np.float16), np.zeros(1, np.bool_), np.zeros((0, 2), np.float32)])
def test_row_32_serialized_form(value: Array) -> None:
    proto = BlobProto.FromString(serialize(Tensor.from_numpy(value), "v"))
    payload = ["int32_data"] if value.size else []
    fields = [field.name for field, _ in proto.tensor.ListFields()]
    assert fields == ["dims", "data_type", *payload, "name", "device_detail", "segment"]


def test_row_38_how_random_numbers_are_drawn() -> None:
    seeded = device_option(random_seed=1)
    r = np.random.RandomState(1).randint(0, 2**32, size=80, dtype=np.uint32).astype(np.uint64)
    u = (r & np.uint64(0xFFFFFF)) / 2.0**24
    radius, angle = np.sqrt(-2 * np.log(1 - u[1::2])), 2 * np.pi * u[0::2]
    gauss = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).ravel()
    uniform, normal = (run_op(type, shape=[80], device=seeded) for type in ("UniformFill", "GaussianFill"))
    np.testing.assert_array_equal(uniform, u.astype(np.float32))
    np.testing.assert_allclose(normal, gauss, atol=1e-5)
    drawn = next(recordings("GaussianFill"))
    assert (drawn.definition.device_option.random_seed, list(drawn.definition.arg[0].ints)) == (1, [80])
    np.testing.assert_array_equal(normal.view(np.uint32), drawn.outputs[0].view(np.uint32))
    integers = run_op("UniformIntFill", shape=[80], min=0, max=9, device=seeded)
    np.testing.assert_array_equal(integers, r % np.uint64(10))


class Row(NamedTuple):
    """Where a row is shown: tests of this file by name, others as `file::name`; and which parts of it are not."""

    shown: str
    left_out: str = ""


HERE = "test_behaviours.py"

ROWS = {
    1: Row("test_row_1_names_and_scopes models/test_net.py::test_nothing_of_a_scope_is_cleaned"),
    2: Row(
        "test_row_2_gradients_added_inside_a_scope"
        " models/test_net.py::test_gradients_in_a_scope_as_behaviours_row_2_has_them"
        " graph/test_backward.py::test_the_start_gradient_takes_the_scope"
    ),
    3: Row("test_row_3_net_names_are_unique models/test_net.py::test_net_names_are_unique_as_behaviours_row_3_has_it"),
    4: Row(
        "test_row_4_external_inputs_are_inferred"
        " models/test_net.py::test_external_inputs_are_inferred_as_behaviours_row_4_has_it"
    ),
    5: Row(
        "nets/test_simple.py::test_inputs_must_exist nets/test_simple.py::test_outputs_are_made_at_once"
        " nets/test_simple.py::test_external_inputs_are_checked_when_there_are_some"
    ),
    6: Row(
        "operator/test_definition.py::test_the_type_of_a_value_selects_the_field"
        " operator/test_definition.py::test_none_is_left_out"
        " operator/test_definition.py::test_mixed_lists_and_other_types_are_refused"
        " operator/test_definition.py::test_an_operator_reads_exactly_one_field"
    ),
    7: Row(
        "nets/test_simple.py::test_what_has_no_effect_is_said_once_per_net"
        " nets/test_simple.py::test_default_is_the_order_of_the_device",
        "what brew puts on operators comes with the old names",
    ),
    8: Row(
        "test_workspace.py::test_feed_keeps_dtype_and_shape test_workspace.py::test_feed_refuses_numbers_and_lists"
        " test_workspace.py::test_feed_refuses_other_dtypes"
        " test_workspace.py::test_feed_copies_also_what_is_not_contiguous"
    ),
    9: Row(
        "test_workspace.py::test_fetch_gives_a_fresh_copy test_workspace.py::test_fetch_of_what_is_no_number",
        "`workspace.blobs` and FetchInt8Blob come with the old names",
    ),
    10: Row("nets/test_simple.py::test_a_created_net_is_a_snapshot"),
    11: Row(
        "nets/test_simple.py::test_create_run_delete nets/test_simple.py::test_a_failing_net_runs_again",
        "`allow_fail`, and nets of type async_scheduling",
    ),
    12: Row(
        "test_row_12_random_numbers_belong_to_the_operator nets/test_simple.py::test_the_net_has_a_device"
        " ops/test_random_fill.py::test_without_a_seed_every_operator_differs"
    ),
    13: Row(
        "graph/test_backward.py::test_stop_gradient ops/test_copy.py::test_copy"
        " ops/test_copy.py::test_stop_gradient_cuts_the_path_through_it"
    ),
    14: Row(
        "graph/test_backward.py::test_names_when_gradients_are_accumulated"
        " graph/test_backward.py::test_sparse_gradients_are_concatenated",
        "the order that changes from process to process in Caffe2",
    ),
    15: Row(
        "graph/test_backward.py::test_gradients_that_are_passed_through"
        " graph/test_backward.py::test_in_place_is_fine_where_the_output_is_read"
        " graph/test_backward.py::test_an_overwritten_blob_that_is_needed"
        " graph/test_backward.py::test_dense_and_sparse_gradients_do_not_mix"
        " ops/test_sum.py::test_sum_passes_its_gradient_on",
        "Gather itself; a start gradient that takes part in a sum",
    ),
    16: Row(
        "test_row_16_is_test_is_mandatory ops/test_dropout.py::test_dropout ops/test_dropout.py::test_refused",
        "the mask without a value, see docs/differences.md",
    ),
    17: Row(
        "test_row_17_statistics_of_spatial_bn ops/test_batch_norm.py::test_statistics_as_behaviours_row_17_has_them"
        " ops/test_batch_norm.py::test_training_normalizes_and_moves_the_running_pair"
        " ops/test_batch_norm.py::test_one_value_a_channel_makes_the_running_variance_nan"
    ),
    18: Row(
        "test_row_18_signs_of_updates test_row_18_what_sgd_emits ops/test_adam.py::test_it_descends",
        "Adagrad",
    ),
    19: Row(
        "test_row_19_counter_and_learning_rate ops/test_learning_rate.py::test_equal_to_caffe2_over_200_iterations"
        " ops/test_learning_rate.py::test_every_policy_has_a_curve"
        " ops/test_learning_rate.py::test_composite_counts_from_1_and_gives_parts_the_iteration_itself"
    ),
    20: Row("test_row_20_fc_flattens ops/test_fc.py::test_shapes_of_fc"),
    21: Row(
        "test_row_21_output_size_and_padding_of_pooling ops/test_pool.py::test_output_size"
        " ops/test_pool.py::test_caffe_drops_a_window_that_would_begin_in_the_padding ops/test_pool.py::test_refused"
    ),
    22: Row(
        "ops/test_conv.py::test_kernel_stride_and_pad_arguments ops/test_conv.py::test_conv"
        " ops/test_conv.py::test_half_pairs_have_no_effect_in_loaded_nets"
    ),
    23: Row("test_row_23_fillers ops/test_random_fill.py::test_scales_and_ranges"),
    24: Row(
        "test_row_24_labels_losses_and_empty_batches ops/test_cross_entropy.py::test_tiny_probabilities"
        " ops/test_accuracy.py::test_ties ops/test_softmax.py::test_images_are_normalised_as_a_whole"
    ),
    25: Row(
        "test_row_25_in_place_rules ops/test_sum.py::test_only_the_first_input_is_overwritten"
        " ops/test_softmax.py::test_never_in_place"
        " operator/test_operator.py::test_an_output_in_place_keeps_dtype_and_number_of_elements"
        " ops/test_dropout.py::test_in_place_and_by_seed ops/test_reshape.py::test_in_place"
        " ops/test_arithmetic.py::test_a_blob_may_meet_itself_in_place"
    ),
    26: Row("test_row_26_broadcasting ops/test_arithmetic.py::test_arithmetic ops/test_arithmetic.py::test_refused"),
    27: Row("test_row_27_shapes_of_helper_outputs", "ArgMax is not there yet"),
    28: Row("ops/test_conv.py::test_emitted_gradients ops/test_conv.py::test_forms_of_the_gradient"),
    29: Row("test_row_29_shared_buffer"),
    30: Row(
        "test_row_30_device_options models/test_net.py::test_devices_as_behaviours_row_30_has_them"
        " device/test_device.py::test_scopes_replace_each_other_but_for_the_node"
    ),
    31: Row(
        "test_workspace.py::test_a_child_sees_and_writes_the_blobs_of_its_parent"
        " test_workspace.py::test_named_workspaces test_workspace.py::test_reset_empties_but_keeps"
    ),
    32: Row(
        "test_row_32_serialized_form tensor/test_serialization.py::test_bytes_are_those_of_caffe2"
        " tensor/test_tensor_proto.py::test_fields ops/test_checkpoint.py::test_keys"
        " ops/test_checkpoint.py::test_chunks_come_in_any_order"
    ),
    33: Row(
        "nets/test_simple.py::test_unknown_type_proposes_known_ones",
        "Caffe2's types but simple: they are not there yet",
    ),
    34: Row("", "plans are not there yet"),
    35: Row("", "Python operators come with the old names"),
    36: Row("ops/test_split.py::test_a_part_that_is_not_used_has_a_gradient_of_zeros", "the wrong shape"),
    37: Row(
        "ops/test_db.py::test_batches_wrap_around ops/test_db.py::test_the_reader_is_no_array"
        " ops/test_db.py::test_batch_size_0_gives_one_record_without_a_batch_dimension"
    ),
    38: Row(
        "test_row_38_how_random_numbers_are_drawn ops/test_random_fill.py::test_equal_to_caffe2_to_the_last_bit"
        " device/test_generator.py::test_maps_of_the_twister operator/test_golden.py::test_outputs"
    ),
}
"""Every row of the table."""


def places(row: Row) -> list[tuple[str, str]]:
    """Return the file and the name of each test of a row."""
    pairs = [place.rpartition("::") for place in row.shown.split()]
    return [(file if file else HERE, name) for file, _, name in pairs]


def names_of_tests(file: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((Path(__file__).parent / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_row_is_shown_somewhere() -> None:
    """Each of the 38 rows has tests that exist, or says what of it is not there."""
    assert list(ROWS) == list(range(1, 39))
    assert [number for number, row in ROWS.items() if not row.shown and not row.left_out] == []
    listed = {place for row in ROWS.values() for place in places(row)}
    there = {(file, name) for file in {file for file, _ in listed} for name in names_of_tests(file)}
    assert listed - there == set()
    for name in names_of_tests(HERE):
        found = re.match(r"test_row_(\d+)_", name)
        assert found is None or (HERE, name) in places(ROWS[int(found[1])]), f"{name} is not in ROWS"
