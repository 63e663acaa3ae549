"""What scripts rely on: the rows of `reference/behaviours.md`, each as its reproduction through tazza's own names.

The numbers are those of that table, whose every row ran on the genuine Caffe2. Rows that a family's test shows more
fully are only named in `tests.test_behaviour_rows`, with the parts that nothing shows. What is compared is the observed
value that the table gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import device_option, device_scope
from tazza.errors import TazzaError
from tazza.models import BlobReference, Model, Net, name_scope, sgd
from tazza.nets import NETS
from tazza.nets.base import OVERRIDES
from tazza.nets.parallel import ParallelNet
from tazza.operator import operator_def, run_op
from tazza.proto import BlobProto, DeviceOption, NetDef
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.serialization import serialize
from tazza.testing.value import data_of
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


def test_row_11_a_failing_net_may_be_run_again() -> None:
    ws = Workspace()
    ws.feed("a", f(2))
    ws.feed("b", f(3))
    add = operator_def("Add", ["a", "b"], ["a"])
    nets = [ws.create_net(NetDef(name=kind, type=kind, op=[add])) for kind in ("simple", "async_scheduling")]
    assert [err(net.run) for net in nets] == ["error", "error"]
    ws.feed("b", np.ones(2, np.float32))
    assert [err(net.run) for net in nets] == [None, None]
    assert ws.fetch("a").tolist() == [2, 3]


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
    assert err(lambda: bn("y")) == "error"
    assert err(lambda: run("Dropout", {"x": f(8)}, ["y", "m"], ratio=0.5)) == "error"


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


def test_row_33_net_types() -> None:
    def t(kind: str, workers: int = 2) -> Any:
        net = Net("ty")
        net.add("ConstantFill", [], "x", shape=[1])
        net.add("Relu", "x", "y")
        net.proto.type, net.proto.num_workers = kind, workers
        ws = Workspace()
        return err(lambda: (ws.run_net_once(net.proto), True)[1])

    kinds = (
        "simple",
        "dag",
        "prof_dag",
        "async_polling",
        "async_simple",
        "rnn",
        "parallel",
        "simple_refcount",
        "plann",
    )
    assert [t(kind) for kind in kinds] + [t("parallel", 0)] == [True] * 8 + ["error", "error"]


def test_row_33_types_have_the_executor_of_async_scheduling() -> None:
    """Three with one private pool and a blocking `run_async`; of those, two wait for the device after every chain."""
    nets = {kind: NETS[kind] for kind in NETS}
    policies = {kind: net.policy for kind, net in nets.items() if issubclass(net, ParallelNet)}
    assert {kind for kind, policy in policies.items() if policy.own_pool and policy.blocks} == {
        "dag",
        "prof_dag",
        "async_dag",
    }
    assert {kind for kind, policy in policies.items() if policy.waits == "chain"} == {"dag", "prof_dag"}


def test_facts_flag_that_replaces_net_types() -> None:
    """The row `flags` of the second table: pairs of names."""
    with OVERRIDES.override("dag,simple,rnn,dag"):
        ws = Workspace()
        made = [ws.create_net(NetDef(name=kind, type=kind)) for kind in ("dag", "rnn", "async_dag")]
        assert [type(net) for net in made] == [NETS[kind] for kind in ("simple", "dag", "async_dag")]


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
    np.testing.assert_array_equal(normal.view(np.uint32), data_of(drawn.outputs[0]).view(np.uint32))
    integers = run_op("UniformIntFill", shape=[80], min=0, max=9, device=seeded)
    np.testing.assert_array_equal(integers, r % np.uint64(10))
