"""RecurrentNetwork and its gradient: recorded runs by every net type, central differences, and what is refused."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, FormatError, GradientError, NotFoundError, SchemaError, ShapeError, TazzaError
from tazza.graph import backward_pass
from tazza.nets import NETS
from tazza.operator import Effects, effects_of, find_schema, make_argument, operator_def, touches
from tazza.operator.nested import change_nested
from tazza.ops.recurrent.step import StepState, StepWorkspaces
from tazza.proto import NetDef, OperatorDef
from tazza.proto.message import format_text
from tazza.tensor import DataType, TensorSpec
from tazza.workspace import Workspace
from tests.check import check_op
from tests.nested_case import Nested, on_nested
from tests.ops.recurrent.cells import FED, SUM, H, N, T, cell, values
from tests.ops.recurrent.recorded import (
    CASES,
    TRAINED,
    Blobs,
    assert_recorded,
    in_float64,
    recorded,
    run_twice,
    with_type,
    workspace_with,
)


def check_recorded(name: str, kinds: Iterable[str]) -> None:
    """Run a recorded net as `simple`, and by other types: all but `plan` give the same bits."""
    case = recorded(name)
    outputs = [blob for op in case.net.op for blob in op.output if blob in case.left]
    home, bits = run_twice(with_type(case.net, "simple", outputs), case.fed)
    assert_recorded({blob: home.fetch(blob) for blob in case.left}, case.left, "simple")
    for kind in kinds:
        _, left = run_twice(with_type(case.net, kind, outputs), case.fed)
        assert_recorded(left, case.left, kind)
        for blob, value in left.items() if kind != "plan" else ():
            np.testing.assert_array_equal(value, bits[blob], err_msg=f"{blob}, {kind}")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_recorded_results(name: str) -> None:
    """What is no output of an operator, such as states over time, too."""
    check_recorded(name, ["plan"] if name == "lstm_text" else [])


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_recorded_results_by_every_net_type(name: str) -> None:
    check_recorded(name, sorted(set(NETS) - {"simple"}))


@pytest.mark.parametrize("name", TRAINED)
def test_recorded_gradient_operators(name: str) -> None:
    case = recorded(name)
    emitted, _ = backward_pass(case.net.op[: case.forward], case.targets)
    assert emitted == list(case.net.op[case.forward :])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name.startswith("cell") else pytest.mark.slow) for name in TRAINED]
)
def test_gradients_are_central_differences(name: str) -> None:
    """In a random direction of each input; the other side is computed in float64, one operator after the other."""
    case = recorded(name)
    forward = case.net.op[: case.forward]
    _, gradients = backward_pass(forward, case.targets)
    random = np.random.default_rng(0)

    def loss(moved: Blobs) -> float:
        blobs = {
            blob: value.astype(np.float64) if value.dtype == np.float32 else value for blob, value in case.fed.items()
        }
        blobs |= moved
        in_float64(forward, blobs)
        return sum(float(blobs[target].sum()) for target in case.targets)

    checked = 0
    for blob, value in case.fed.items():
        gradient = gradients.get(blob)
        if not isinstance(gradient, str) or gradient not in case.left:
            continue
        direction, step = random.standard_normal(value.shape), 1e-6
        ahead, behind = (loss({blob: value.astype(np.float64) + way * step * direction}) for way in (1, -1))
        _, left = run_twice(with_type(case.net, "simple", [gradient]), case.fed)
        wanted = float(np.sum(direction * left[gradient]))
        assert abs(wanted - (ahead - behind) / (2 * step)) <= 1e-5 * max(1.0, float(np.linalg.norm(left[gradient])))
        checked += 1
    assert checked >= 3


# -- cells of one operator ---------------------------------------------------------------------------------------------


BACK: dict[str, Any] = {
    "outputs_with_grads": [0],
    "backward_step_net": NetDef(name="back", type="simple"),
    "backward_link_internal": ["after_grad", "after_grad", "after_grad"],
    "backward_link_external": ["states_grad", "states_grad", "x_grad"],
    "backward_link_offset": [1, 0, 0],
}
STATES = FED["h0"] + np.cumsum(FED["x"], axis=0)
CELLS = [
    Nested(
        "sums",
        (cell(SUM, **BACK),),
        FED,
        {"all": STATES, "last": STATES[-1:]},
        ("all",),
        slack=10.0,
        evaluate=lambda net, blobs: in_float64(net.op, blobs),
    )
]


@pytest.mark.slow
@on_nested(CELLS)
def test_cases(case: Nested) -> None:
    check_op(case)


def run(op: OperatorDef, fed: Blobs = FED, times: int = 1) -> Workspace:
    """Run an operator in a net of its own."""
    home = workspace_with(fed)
    made = home.create_net(NetDef(name="outer", op=[op]))
    for _ in range(times):
        made.run()
    return home


def test_a_gradient_that_is_passed_on_to_several_blobs() -> None:
    """The gradient of a Sum is that of the state and of the row at once; Caffe2 gives foreign memory there."""
    back = {
        "outputs_with_grads": [0],
        "backward_step_net": NetDef(name="back", type="simple"),
        "backward_link_internal": ["after_grad", "after_grad", "after_grad"],
        "backward_link_external": ["states_grad", "states_grad", "x_grad"],
        "backward_link_offset": [1, 0, 0],
    }
    forward = cell(SUM, **back)
    home = workspace_with({**FED, "all_grad": values(T, N, H, seed=3)})
    gradient = backward_pass([forward], {"all": "all_grad"})[0]
    home.run_net_once(NetDef(name="outer", op=[forward, *gradient]))
    sums = np.cumsum(home.fetch("all_grad")[::-1], axis=0)[::-1]
    np.testing.assert_allclose(home.fetch("x_grad"), sums, rtol=1e-6)
    np.testing.assert_allclose(home.fetch("h0_grad"), sums[:1], rtol=1e-6)


@pytest.mark.parametrize("name", [name for name in TRAINED if name.startswith("cell")])
def test_aliases_may_stand_in_any_order(name: str) -> None:
    """`outputs_with_grads` counts outputs; which alias makes one is a matter of its name."""
    case = recorded(name)
    for op in case.net.op:
        for argument in op.arg:
            if argument.name.startswith("alias_"):
                argument.strings[:] = argument.strings[::-1]
                argument.ints[:] = argument.ints[::-1]
    outputs = [blob for op in case.net.op for blob in op.output if blob in case.left]
    _, left = run_twice(with_type(case.net, "simple", outputs), case.fed)
    assert_recorded(left, {blob: case.left[blob] for blob in left}, "aliases in the other order")


@pytest.mark.parametrize("offset", [1, -1])
def test_gradients_of_outputs_on_the_same_rows_are_added(offset: int) -> None:
    forward = cell(
        SUM,
        alias_dst=["one", "other"],
        alias_offset=[offset, offset],
        outputs_with_grads=[0, 1],
        backward_step_net=NetDef(name="back", type="simple"),
        backward_link_internal=["after_grad", "after_grad", "after_grad"],
        backward_link_external=["states_grad", "states_grad", "x_grad"],
        backward_link_offset=[1, 0, 0],
    )
    forward.output[:] = ["one", "other", "work"]
    rows = T if offset == 1 else 1
    given = {f"{name}_grad": values(rows, N, H, seed=seed) for seed, name in enumerate(("one", "other"), 3)}
    home = workspace_with({**FED, **given})
    gradient = backward_pass([forward], {"one": "one_grad", "other": "other_grad"})[0]
    home.run_net_once(NetDef(name="outer", op=[forward, *gradient]))
    both = np.zeros((T, N, H), np.float32)
    both[-rows:] = given["one_grad"] + given["other_grad"]
    np.testing.assert_allclose(home.fetch("x_grad"), np.cumsum(both[::-1], axis=0)[::-1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("place", range(3))
def test_states_may_be_an_output_too(place: int) -> None:
    """Caffe2's own test of an Elman net lists them; a gradient that counts outputs counts them as well."""
    gradients: list[Any] = []
    for listed in (False, True):
        outputs = ["all", "last"]
        outputs[place:place] = ["states"] * listed
        forward = cell(
            SUM,
            outputs_with_grads=[outputs.index("all")],
            backward_step_net=NetDef(name="back", type="simple"),
            backward_link_internal=["after_grad", "after_grad", "after_grad"],
            backward_link_external=["states_grad", "states_grad", "x_grad"],
            backward_link_offset=[1, 0, 0],
        )
        forward.output[:] = [*outputs, "work"]
        home = workspace_with({**FED, "all_grad": values(T, N, H, seed=3)})
        gradient = backward_pass([forward], {"all": "all_grad"})[0]
        home.run_net_once(NetDef(name="outer", op=[forward, *gradient]))
        gradients.append(home.fetch("x_grad"))
    np.testing.assert_array_equal(*gradients)


def test_outputs_lie_on_the_states() -> None:
    home = run(cell(SUM), times=2)
    states, alls, last = (home.blob(name).tensor() for name in ("states", "all", "last"))
    assert alls.storage is states.storage is last.storage
    np.testing.assert_array_equal(alls.plain(), states.plain()[1:])
    np.testing.assert_array_equal(last.plain(), states.plain()[-1:])
    np.testing.assert_allclose(alls.plain()[-1], FED["h0"][0] + FED["x"].sum(0), rtol=1e-5, atol=1e-6)


def test_lengths_of_sequences_change_from_run_to_run() -> None:
    """Longer, shorter, empty, and longer again; other batches too."""
    home = workspace_with(FED)
    made = home.create_net(NetDef(name="outer", op=[cell(SUM)]))
    for steps, texts in ((4, 3), (9, 3), (2, 3), (0, 3), (9, 5), (4, 1)):
        x, h0 = values(steps, texts, H, seed=4), values(1, texts, H, seed=5)
        home.feed("x", x)
        home.feed("h0", h0)
        for _ in range(3):
            made.run()
            np.testing.assert_allclose(home.fetch("all"), h0 + np.cumsum(x, axis=0), rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(home.fetch("last"), home.fetch("all")[-1:] if steps else h0)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_workspaces_of_a_net_without_gradient(count: int) -> None:
    home = run(cell(SUM, num_workspaces=count))
    assert len(home.blob("work").get(StepWorkspaces).steps) == min(count, T)
    np.testing.assert_allclose(home.fetch("last")[0], FED["h0"][0] + FED["x"].sum(0), rtol=1e-5, atol=1e-6)


def test_blobs_outside_of_the_same_names_stay_as_they_are() -> None:
    """Caffe2 writes them, as all steps do."""
    home = run(
        cell(operator_def("Sum", ["row", "state"], ["m"]), operator_def("Copy", ["m"], ["after"])),
        FED | {"m": values(7)},
    )
    np.testing.assert_array_equal(home.fetch("m"), values(7))


def test_a_step_that_changes_what_it_reads_first() -> None:
    """Such a blob is the one outside: a counter over all steps."""
    one = operator_def("ConstantFill", [], ["one"], shape=[1], value=1.0)
    count = operator_def("Sum", ["count", "one"], ["count"])
    op = cell(one, count, SUM)
    assert "count" in touches(op).writes
    home = run(op, FED | {"count": np.zeros(1, np.float32)}, times=2)
    assert home.fetch("count") == [2 * T]


def test_what_is_touched() -> None:
    op = cell(SUM)
    assert set(touches(op).writes) == {"all", "last", "work", "states"}
    assert set(touches(op).reads) == {"x", "h0", "w"}
    hidden = cell(operator_def("Mul", ["row", "hidden"], ["after"]))
    assert "hidden" in touches(hidden).reads
    assert effects_of(op) is Effects.WORKSPACE


def test_control_inputs_of_steps_are_waited_for() -> None:
    """Those outside; what a step makes itself is no matter of the operator."""
    step = operator_def("Sum", ["row", "state"], ["after"])
    step.control_input.append("gate")
    last = operator_def("Copy", ["after"], ["seen"])
    last.control_input.extend(["after", "row"])
    op = cell(step, last)
    assert touches(op).after == ("gate",)
    outer = operator_def("If", ["condition"], then_net=NetDef(op=[op]))
    assert touches(outer).after == ("gate",)
    case = recorded("cell_product")
    forward = next(op for op in case.net.op if op.type == "RecurrentNetwork")
    gradient = next(op for op in case.net.op if op.type == "RecurrentNetworkGradient")
    made = next(argument.n for argument in forward.arg if argument.name == "step_net").op[0].output[0]
    back = next(argument.n for argument in gradient.arg if argument.name == "backward_step_net")
    back.op[0].control_input.extend(["gate", made])
    assert touches(gradient).after == ("gate",)


def test_results_in_another_shape_or_layout_reach_the_states() -> None:
    """FC at axis 1 gives (N, H), and an operator may leave what it makes in memory of its own."""
    ops = operator_def("FC", ["state", "v", "b"], ["p"], axis=2), operator_def("Sum", ["p", "row"], ["s"])
    flat = operator_def("Reshape", ["s"], ["after", "old"], shape=[N, H])
    v, b = values(H, H, seed=6), values(H, seed=7)
    home = run(cell(*ops, flat), FED | {"v": v, "b": b}, times=3)
    h = FED["h0"][0]
    for t in range(T):
        h = h @ v.T + b + FED["x"][t]
        np.testing.assert_allclose(home.fetch("all")[t], h, rtol=1e-4, atol=1e-5)


def test_text_and_message_are_the_same() -> None:
    as_text = OperatorDef()
    as_text.CopyFrom(cell(SUM))
    text = format_text(next(a.n for a in as_text.arg if a.name == "step_net")).replace('"simple"', '"rnn"')
    for argument in as_text.arg:
        if argument.name == "step_net":
            argument.ClearField("n")
            argument.s = text.encode()
    np.testing.assert_array_equal(run(as_text).fetch("all"), run(cell(SUM)).fetch("all"))
    change_nested(as_text, lambda net: net.op[0].device_option.extra_info.append("seen"))
    assert b"seen" in next(a.s for a in as_text.arg if a.name == "step_net")


# -- operators of links ------------------------------------------------------------------------------------------------


def test_links_are_views() -> None:
    home = workspace_with({"t": np.array([1], "i"), "x": FED["x"]})
    link = operator_def("rnn_internal_apply_link", ["t", "x"], ["i", "x"], offset=1, window=2)
    home.run_operator(link)
    np.testing.assert_array_equal(home.fetch("i"), FED["x"][2:4])
    assert home.blob("i").tensor().storage is home.blob("x").tensor().storage
    home.feed("t", np.array([2], "i"))
    with pytest.raises(ShapeError, match=r"rows \[3, 5\) of a tensor of shape \(4, 3, 2\)"):
        home.run_operator(link)


def test_gradients_of_rows_are_added() -> None:
    t, x, g = np.array([1], "i"), FED["x"], values(6, N, H)
    home = workspace_with({"t": t, "x": x, "g": g})
    add = operator_def("rnn_internal_accumulate_gradient_input", ["t", "x", "g"], ["g"], offset=2)
    home.run_operator(add)
    wanted = g.copy()
    wanted[3] += x[1]
    np.testing.assert_array_equal(home.fetch("g"), wanted)


# -- what is refused ---------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, Callable[[], OperatorDef], type[TazzaError], str]] = [
    ("links", lambda: cell(SUM, link_offset=[0]), ArgumentError, "link_internal has 3 elements, link_offset has 1"),
    ("windows", lambda: cell(SUM, link_window=[1]), ArgumentError, "link_window has 1 elements, link_internal has 3"),
    ("states", lambda: cell(SUM, recurrent_states=["a", "b"]), ArgumentError, "recurrent_states has 2 elements"),
    ("initial", lambda: cell(SUM, initial_recurrent_state_ids=[7]), ArgumentError, "names input 7 of 3"),
    ("source", lambda: cell(SUM, alias_src=["states", "y"]), SchemaError, "'last' lies on 'y', which is none of"),
    ("target", lambda: cell(SUM, alias_dst=["all", "y"]), SchemaError, "alias 'y' is none of the outputs all, last"),
    (
        "text",
        lambda: cell(SUM, step_net="op { type: "),
        FormatError,
        "'step_net' of RecurrentNetwork is no caffe2.NetDef",
    ),
    ("nothing", lambda: cell(SUM, step_net=""), SchemaError, "step_net is empty"),
]


@pytest.mark.parametrize(("make", "error", "text"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_refused(make: Callable[[], OperatorDef], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        find_schema("RecurrentNetwork").view(make())


RUNS_REFUSED: list[tuple[dict[str, Any], Blobs, type[TazzaError], str]] = [
    ({}, {"h0": values(1, 2, H)}, ShapeError, r"initial state 'h0' has the shape \(1, 2, 2\), X has N = 3"),
    ({}, {"h0": values(1, 1, N, H)}, ShapeError, "initial state 'h0' has rank 4, it must have 1 to 3"),
    ({"link_offset": [0, 1, 1]}, {}, ShapeError, r"'row' is linked to rows \[4, 5\) of a tensor of shape \(4, 3, 2\)"),
    ({"alias_offset": [1, -9]}, {}, ShapeError, "alias 'last' begins at row -4 of 5"),
    ({}, {"x": values(T, N, 7), "h0": values(N, H)}, ShapeError, r"X1 has the shape \(1, 3, 2\), X0 has \(1, 3, 7\)"),
]


@pytest.mark.parametrize(("changes", "fed", "error", "text"), RUNS_REFUSED)
def test_runs_refused(changes: dict[str, Any], fed: Blobs, error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run(cell(SUM, **changes), FED | fed)


def test_a_gradient_needs_outputs_and_steps() -> None:
    carries = cell(SUM, backward_step_net=NetDef(name="back", op=[SUM]))
    with pytest.raises(GradientError, match="names no output that gets a gradient"):
        backward_pass([carries], {"all": "all_grad"})
    case = recorded("cell_product")
    forward = next(op for op in case.net.op if op.type == "RecurrentNetwork")
    for argument in list(forward.arg):
        if argument.name == "backward_step_net":
            forward.arg.remove(argument)
    forward.arg.append(make_argument("num_workspaces", 2))
    home = workspace_with(case.fed)
    with pytest.raises(ShapeError, match="2 steps were kept, X has 4"):
        home.run_net_once(case.net)


def test_shapes_follow() -> None:
    op = cell(SUM)
    view = find_schema("RecurrentNetwork").view(op)
    specs = [
        TensorSpec((None, N, H), DataType.FLOAT),
        TensorSpec((N, H), DataType.FLOAT),
        TensorSpec((1, N, H), DataType.FLOAT),
    ]
    found = view.schema.infer_specs(view, specs).specs
    assert [getattr(spec, "dims", None) for spec in found[:2]] == [(None, N, H), (None, N, H)]
    known = view.schema.infer_specs(view, [TensorSpec((T, N, H), DataType.FLOAT), *specs[1:]]).specs
    assert [getattr(spec, "dims", None) for spec in known[:2]] == [(T, N, H), (1, N, H)]


def test_an_input_that_is_not_there() -> None:
    with pytest.raises(NotFoundError, match="input blob 'h0' does not exist"):
        run(cell(SUM), {"x": FED["x"], "w": FED["w"]})


def test_a_backward_pass_without_a_forward_pass_is_told() -> None:
    case = recorded(TRAINED[0])
    net = NetDef()
    net.CopyFrom(case.net)
    gradients, _ = backward_pass(net.op, case.targets)
    (alone,) = [op for op in gradients if op.type == "RecurrentNetworkGradient"]
    home = workspace_with(case.fed)
    for name in alone.input:
        if not home.has_blob(name):
            home.feed(name, case.left.get(name, np.zeros(1, np.float32)))
    with pytest.raises(TazzaError, match="not a"):
        home.run_operator(alone)


@pytest.mark.slow
def test_steps_end_with_the_workspaces_that_they_ran_in() -> None:
    case = recorded(TRAINED[0])
    net = NetDef()
    net.CopyFrom(case.net)
    net.op.extend(backward_pass(net.op, case.targets)[0])
    home = workspace_with(case.fed)
    made = home.create_net(net)
    alive: list[int] = []
    for _ in range(3):
        made.run()
        gc.collect()
        alive.append(sum(isinstance(one, StepState) for one in gc.get_objects()))
        for op in net.op:
            if op.type == "RecurrentNetwork":
                home.blob(op.output[-1]).set(StepWorkspaces())
    assert alive[0] > 0
    assert alive[1:] == alive[:1] * 2
