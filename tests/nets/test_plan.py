"""The net type `plan`."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import NetError, NotFoundError, ShapeError
from tazza.models.optimizer import sgd
from tazza.models.zoo import CLASSIFIERS
from tazza.nets.plan import PlanNet
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import ROW_MAJOR
from tazza.workspace import Workspace
from tests.nets.plans import Array, by_simple, convolutions, draw, feed_convolutions, plan


@pytest.fixture
def ws() -> Workspace:
    made = Workspace()
    feed_convolutions(made)
    return made


def check(ws: Workspace, output: str = "y") -> None:
    expected = by_simple(ws, convolutions(), output)
    ws.run_net("n")
    np.testing.assert_allclose(ws.fetch(output), expected, rtol=2e-4, atol=2e-4)


def test_a_plan_gives_what_the_operators_give(ws: Workspace) -> None:
    ws.create_net(plan(convolutions()))
    check(ws)
    check(ws)


def test_signatures_are_kept_side_by_side(ws: Workspace) -> None:
    ws.create_net(plan(convolutions()))
    for batch in (2, 3, 2, 5, 3):
        ws.feed("x", draw(batch, 8, 7, 6, seed=batch))
        check(ws)


def test_new_weights_count_though_copies_are_kept(ws: Workspace) -> None:
    """W1 is folded into another weight, W2 is kept in the layout of its kernel."""
    ws.create_net(plan(convolutions()))
    for seed in range(6):
        for name, shape in (("W1", (16, 8, 3, 3)), ("W2", (8, 16, 3, 3)), ("scale", (16,))):
            ws.feed(name, draw(*shape, seed=10 + seed))
        check(ws)


def test_writable_views_of_weights_count(ws: Workspace) -> None:
    ws.create_net(plan(convolutions()))
    check(ws)
    for name in ("W1", "W2"):
        view = ws.blob(name).tensor().numpy()
        check(ws)
        view *= 2
        check(ws)
        view += 1
        check(ws)


def test_weights_may_lie_in_the_layout_of_a_kernel_and_are_fetched_plain(ws: Workspace) -> None:
    ws.create_net(plan(convolutions()))
    before = ws.fetch("W2")
    ws.run_net("n")
    if any(row.engine == "onednn" for row in ws.net("n").explain().rows):
        assert ws.blob("W2").tensor().layout != ROW_MAJOR
    np.testing.assert_array_equal(ws.fetch("W2"), before)


def test_what_was_fused_away_says_into_what(ws: Workspace) -> None:
    ws.create_net(plan(convolutions()))
    ws.run_net("n")
    with pytest.raises(NotFoundError, match="'s'") as caught:
        ws.fetch("s")
    assert "fused into FusedConv" in str(caught.value)
    assert "keep" in str(caught.value)


@pytest.mark.parametrize("name", ["c1", "n1", "r1", "c2", "s"])
def test_kept_blobs_can_be_fetched(ws: Workspace, name: str) -> None:
    ws.create_net(plan(convolutions(), outputs=["y"], keep=[name]))
    check(ws, name)
    check(ws)


def test_a_missing_input_is_named() -> None:
    with pytest.raises(NotFoundError, match="input blob 'x' of net 'n' does not exist"):
        Workspace().create_net(plan(convolutions()))


def test_errors_name_the_operator_and_what_it_was_made_from(ws: Workspace) -> None:
    ws.create_net(plan(convolutions()))
    ws.feed("x", draw(2, 5, 7, 6))
    with pytest.raises(ShapeError, match="X has 5 channels, W takes 8") as caught:
        ws.run_net("n")
    assert "Relu 'r1'" in str(caught.value)
    feed_convolutions(ws)
    check(ws)


def test_a_plan_runs_once_at_a_time_and_not_after_its_end(ws: Workspace) -> None:
    net = ws.create_net(plan(convolutions()))
    ws.delete_net("n")
    with pytest.raises(NetError, match="closed"):
        net.run()


def test_the_explanation_has_a_row_for_each_step(ws: Workspace) -> None:
    net = ws.create_net(plan(convolutions()))
    assert {row.engine for row in net.explain().rows} == {"not run yet"}
    ws.run_net("n")
    found = net.explain(times=True)
    fused = next(row for row in found.rows if "y" in row.outputs)
    assert fused.fused_from == ("Conv 'c2'", "Sum 's'", "Relu 'y'")
    assert all(row.time_s is not None and row.time_s >= 0 for row in found.rows)
    assert found.arena_bytes <= found.unshared_bytes
    assert "fused from" in str(found)
    assert str(found.arena_bytes) in str(found)


def test_operators_that_cannot_be_compiled_run_between_programs() -> None:
    """The size of a Gather-like output depends on data: what follows is compiled when it is known."""
    ws = Workspace()
    ws.feed("x", draw(4, 6))
    ws.feed("shape", np.array([3, 8]))
    ops = [
        operator_def("Relu", ["x"], ["a"]),
        operator_def("ConstantFill", ["shape"], ["f"], value=2.0, input_as_shape=1),
        operator_def("Reshape", ["a", "shape"], ["b", "old"]),
        operator_def("Mul", ["b", "f"], ["y"]),
    ]
    ws.create_net(plan(ops, outputs=["y"], inputs=["x", "shape"]))
    for shape in ((3, 8), (2, 12), (3, 8)):
        ws.feed("shape", np.array(shape))
        ws.run_net("n")
        np.testing.assert_allclose(ws.fetch("y"), 2 * np.maximum(ws.fetch("x"), 0).reshape(shape))


def test_kernels_with_state_run_within_programs() -> None:
    """A column buffer belongs to an operator, whose input no blob holds here: it lives in the plan's memory."""
    ws, ops = Workspace(), convolutions()
    feed_convolutions(ws)
    for op in ops:
        if op.type == "Conv":
            op.engine = "gemm"
    net = ws.create_net(plan(ops, outputs=["y"], inputs=["x"], keep=["c1", "n1", "c2", "s"]))
    for _ in range(2):
        net.run()
        np.testing.assert_allclose(ws.fetch("y"), by_simple(ws, convolutions(), "y"), rtol=2e-4, atol=2e-4)
    assert [row.engine for row in net.explain().rows if row.operator == "Conv"] == ["gemm", "gemm"]
    assert ws.get_blob("r1") is None


def test_shapes_that_follow_from_constants_are_compiled_and_followed() -> None:
    ws = Workspace()
    ws.feed("x", draw(4, 6))
    ws.feed("shape", np.array([3, 8]))
    ops = [
        operator_def("Reshape", ["x", "shape"], ["b", "old"]),
        operator_def("Relu", ["b"], ["y"]),
    ]
    ws.create_net(plan(ops, outputs=["y"], inputs=["x"]))
    for shape in ((3, 8), (3, 8), (2, 12), (24, 1), (12, 2), (4, 6), (1, 24)):
        ws.feed("shape", np.array(shape))
        ws.run_net("n")
        assert ws.fetch("y").shape == shape


def test_names_that_are_written_again_mean_their_last_value() -> None:
    ws = Workspace()
    ws.feed("x", draw(3, 4))
    ops = [
        operator_def("Relu", ["x"], ["y"]),
        operator_def("Sigmoid", ["y"], ["y"]),
        operator_def("Tanh", ["x"], ["z"]),
        operator_def("Copy", ["z"], ["x"]),
        operator_def("Sum", ["y", "x"], ["y"]),
    ]
    ws.create_net(plan(ops, outputs=["y", "x"], inputs=["x"]))
    x = ws.fetch("x")
    for _ in range(3):
        ws.run_net("n")
        z = np.tanh(x)
        np.testing.assert_allclose(ws.fetch("x"), z, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ws.fetch("y"), 1 / (1 + np.exp(-np.maximum(x, 0))) + z, rtol=1e-5, atol=1e-6)
        x = z


def test_another_shape_in_place_inside_of_a_program() -> None:
    """The convolution writes channels-last where oneDNN is there; what is reshaped lies row-major."""
    ws = Workspace()
    ws.feed("W", draw(6, 8, 3, 3, seed=1))
    ws.feed("b", draw(6, seed=2))
    ops = [
        operator_def("Conv", ["x", "W", "b"], ["y"], kernel=3),
        operator_def("Reshape", ["y"], ["y", "old"], shape=[0, -1]),
        operator_def("Sigmoid", ["y"], ["y"]),
        operator_def("ExpandDims", ["y"], ["y"], dims=[0, 2]),
        operator_def("Tanh", ["y"], ["z"]),
        operator_def("Reshape", ["y", "old"], ["y", "flat"]),
    ]
    ws.feed("x", draw(2, 8, 7, 5))
    ws.create_net(plan(ops, outputs=["y", "z", "old", "flat"], inputs=["x"]))
    for batch in (2, 2, 3, 2):
        ws.feed("x", draw(batch, 8, 7, 5, seed=batch))
        ws.run_net("n")
        other = Workspace()
        for name in ("x", "W", "b"):
            other.feed(name, ws.fetch(name))
        for op in ops:
            other.run_operator(op)
        for name in ("y", "z", "old", "flat"):
            np.testing.assert_allclose(ws.fetch(name), other.fetch(name), rtol=1e-4, atol=1e-5)


def test_an_output_that_ends_in_another_shape() -> None:
    """Who writes it first gets it in the shape of then: kernels on arrays look at that."""
    ws = Workspace()
    ops = [
        operator_def("Transpose", ["x"], ["y"], engine="reference"),
        operator_def("Reshape", ["y"], ["y", "old"], shape=[3, -1], engine="reference"),
        operator_def("Negative", ["y"], ["y"], engine="reference"),
    ]
    ws.feed("x", draw(2, 6))
    ws.create_net(plan(ops, outputs=["y"]))
    for columns in (6, 6, 3, 6):
        x = draw(2, columns, seed=columns)
        ws.feed("x", x)
        ws.run_net("n")
        np.testing.assert_array_equal(ws.fetch("y"), -x.T.reshape(3, -1))
    assert ws.net("n").operators == []


def test_a_blob_that_ends_in_another_shape_than_it_had() -> None:
    """Nothing that is compiled may change the shape of what it starts from: that operator runs by itself."""
    ws = Workspace()
    ops = [
        operator_def("Negative", ["x"], ["x"]),
        operator_def("ExpandDims", ["x"], ["x"], dims=[0]),
        operator_def("Relu", ["x"], ["y"]),
        operator_def("Negative", ["x"], ["x"]),
    ]
    x = draw(2, 3)
    ws.feed("x", x)
    ws.create_net(plan(ops, outputs=["x", "y"], inputs=["x"]))
    for dims in ((1, 2, 3), (1, 1, 2, 3), (1, 4, 5), (1, 1, 4, 5)):
        if dims == (1, 4, 5):
            x = draw(4, 5)
            ws.feed("x", x)
        ws.run_net("n")
        np.testing.assert_array_equal(ws.fetch("x"), x.reshape(dims))
        np.testing.assert_array_equal(ws.fetch("y"), np.maximum(-x, 0).reshape(dims))
    assert [operator.op.type for operator in ws.net("n").operators] == ["ExpandDims"]


def test_a_blob_that_gets_its_shape_back_is_compiled() -> None:
    ws = Workspace()
    ops = [
        operator_def("ExpandDims", ["x"], ["x"], dims=[0, 3]),
        operator_def("Relu", ["x"], ["y"]),
        operator_def("Negative", ["x"], ["x"]),
        operator_def("Squeeze", ["x"], ["x"], dims=[0, 3]),
    ]
    x = draw(2, 3)
    ws.feed("x", x)
    ws.create_net(plan(ops, outputs=["x", "y"], inputs=["x"]))
    for _ in range(4):
        ws.run_net("n")
        np.testing.assert_array_equal(ws.fetch("y"), np.maximum(x, 0).reshape(1, 2, 3, 1))
        np.testing.assert_array_equal(ws.fetch("x"), -x)
        x = -x
    assert ws.net("n").operators == []


def test_in_place_keeps_the_number_of_elements() -> None:
    ws = Workspace()
    ws.feed("x", draw(4))
    ws.feed("w", draw(3, 4))
    ws.create_net(plan([operator_def("Relu", ["x"], ["y"]), operator_def("Add", ["y", "w"], ["y"])], outputs=["y"]))
    with pytest.raises(ShapeError, match=r"'y' is written in place over float32\[4\], .* float32\[3, 4\]"):
        ws.run_net("n")


def test_names_that_are_written_again_in_another_layout() -> None:
    """The copy into the blob of the name writes it in the layout in which that blob lies."""
    ws = Workspace()
    x, W, b = draw(2, 8, 7, 5), draw(8, 8, 3, 3, seed=1), draw(8, seed=2)
    for name, value in (("x", x), ("W", W), ("b", b)):
        ws.feed(name, value)
    ops = [operator_def("Conv", ["x", "W", "b"], ["c"], kernel=3, pad=1), operator_def("Tanh", ["c"], ["x"])]
    ws.blob("x").tensor().numpy()  # a writable view is out, so x stays row-major
    ws.create_net(plan(ops, outputs=["x"], inputs=["x"]))
    other = Workspace()
    for name, value in (("x", x), ("W", W), ("b", b)):
        other.feed(name, value)
    for _ in range(3):
        ws.run_net("n")
        for op in ops:
            other.run_operator(op)
        np.testing.assert_allclose(ws.fetch("x"), other.fetch("x"), rtol=1e-4, atol=1e-5)


def test_random_operators_draw_what_they_draw_elsewhere() -> None:
    drawn: dict[str, list[Array]] = {}
    for kind in ("simple", "plan"):
        ws = Workspace()
        ws.feed("x", np.ones((5, 7), np.float32))
        dropout = operator_def("Dropout", ["x"], ["y", "mask"], ratio=0.5, is_test=0)
        dropout.device_option.random_seed = 3
        ws.create_net(NetDef(name="n", type=kind, op=[dropout], external_output=["y"]))
        drawn[kind] = []
        for _ in range(3):
            ws.run_net("n")
            drawn[kind].append(ws.fetch("y"))
    np.testing.assert_array_equal(drawn["simple"], drawn["plan"])
    assert not np.array_equal(drawn["plan"][0], drawn["plan"][1])


def trained(kind: str, steps: int) -> tuple[list[float], dict[str, Array]]:
    """Train LeNet and return the losses and the parameters."""
    model = CLASSIFIERS["lenet"].training(accuracy=False)
    sgd(model, 0.01, momentum=0.9)
    ws = Workspace()
    init = NetDef()
    init.CopyFrom(model.init_net.proto)
    for position, op in enumerate(init.op):
        op.device_option.random_seed = position + 1
    ws.run_net_once(init)
    ws.feed("data", draw(8, 1, 28, 28))
    ws.feed("label", (np.arange(8) % 10).astype(np.int32))
    net = NetDef()
    net.CopyFrom(model.net.proto)
    net.type = kind
    if "loss" not in net.external_output:
        net.external_output.append("loss")
    ws.create_net(net)
    losses: list[float] = []
    for _ in range(steps):
        ws.run_net(net.name)
        losses.append(float(ws.fetch("loss")))
    return losses, {name: ws.fetch(name) for name in ("conv1_w", "conv2_w", "fc3_w", "pred_b", "conv2_w_momentum")}


@pytest.mark.slow
def test_training_steps_are_those_of_the_unplanned_net() -> None:
    simple, planned = trained("simple", 10), trained("plan", 10)
    np.testing.assert_allclose(planned[0], simple[0], rtol=1e-4, atol=1e-4)
    assert planned[0][-1] < planned[0][0]
    for name, value in simple[1].items():
        np.testing.assert_allclose(planned[1][name], value, rtol=1e-3, atol=1e-4, err_msg=name)


def test_a_clone_has_memory_of_its_own(ws: Workspace) -> None:
    first = ws.create_net(plan(convolutions()))
    assert isinstance(first, PlanNet)
    other = Workspace(parent=ws)
    ws.run_net("n")
    clone = first.clone(other)
    clone.run()
    np.testing.assert_array_equal(other.fetch("y"), ws.fetch("y"))
    ws.run_net("n")
