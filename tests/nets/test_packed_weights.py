"""Weights that a plan moved into an engine's own form are the same for whoever else reads, writes or feeds them."""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tazza.device import Context
from tazza.errors import OutOfMemoryError, TazzaError
from tazza.nets.plan import instance
from tazza.operator import SCHEMAS, Effects, make_argument, operator_def, why_unavailable
from tazza.operator.reorder import relayout
from tazza.proto import NetDef, OperatorDef
from tazza.tensor import CPUPlace, Layout, Opaque, Tensor
from tazza.tensor.allocation import current_allocator
from tazza.tensor.residue import ABOUT
from tazza.workspace import Workspace
from tests.judge.draw import draw, drawable
from tests.judge.verdict import is_random
from tests.sampled import sampled

READERS: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "native/panel_product": ("FC", (16, 700), (800, 700), {}),
    "native/few_channels": ("Conv", (2, 3, 33, 35), (40, 3, 5, 5), {"kernel": 5}),
    "native/winograd": ("Conv", (2, 19, 9, 11), (37, 19, 3, 3), {"kernel": 3}),
    "onednn": ("Conv", (2, 64, 9, 11), (96, 64, 3, 3), {"kernel": 3}),
}
"""Engine -> an operator that it runs, the shapes of X and W, and arguments."""


def test_engines_whose_forms_round_are_readers() -> None:
    assert set(ABOUT) <= set(READERS)


def reader(engine: str, output: str, asked: str, *, of: str = "") -> OperatorDef:
    type, _, _, arguments = READERS[of or engine]
    return operator_def(type, ["X", "W", "b"], [output], engine=asked, **arguments)


def net_of(ws: Workspace, name: str, type: str, *ops: OperatorDef) -> None:
    """Create a net; one that says that X is its input takes the rest for constant."""
    said = [make_argument("inputs", ["X"])] if name == "packed" else []
    left = dict.fromkeys(name for op in ops for name in op.output)
    ws.create_net(NetDef(name=name, type=type, op=ops, external_output=left, arg=said))


def fed(engine: str) -> tuple[Workspace, Any]:
    """Return a workspace with a plan, named "packed", of what reads W by an engine, and W."""
    type, images, weights, _ = READERS[engine]
    reason = why_unavailable(type, "cpu", engine)
    if reason is not None:
        pytest.skip(reason)
    rng, ws = np.random.default_rng(7), Workspace()
    W = rng.standard_normal(weights, np.float32)
    numbers = {"X": rng.standard_normal(images, np.float32), "W": W, "b": np.ones(weights[0], np.float32), "d": W / 2}
    for name, array in {**numbers, "one": np.ones(1, np.float32), "m": np.zeros_like(W)}.items():
        ws.feed(name, array)
    net_of(ws, "packed", "plan", reader(engine, "Y", engine))
    return ws, W


def moved(engine: str) -> tuple[Workspace, Any]:
    """Return the same after a run, which has moved W into the engine's form."""
    ws, W = fed(engine)
    ws.run_net("packed")
    layout = ws.blob("W").tensor().layout
    assert isinstance(layout, Opaque)
    assert layout.engine == engine
    return ws, W


@pytest.mark.parametrize("engine", READERS)
def test_packed_weights_are_the_same_for_all(engine: str) -> None:
    ws, W = fed(engine)
    X = ws.fetch("X").copy()
    ws.feed("rate", np.full(1, 0.5, np.float32))
    net_of(ws, "plain", "simple", reader(engine, "Z", "reference"))
    net_of(ws, "update", "simple", operator_def("WeightedSum", ["W", "one", "d", "rate"], ["W"]))

    def both_read_the_same() -> None:
        for name in ("packed", "plain"):
            ws.run_net(name)
        np.testing.assert_allclose(ws.fetch("Y"), ws.fetch("Z"), rtol=1e-3, atol=1e-3)

    for step in range(4):
        both_read_the_same()
        layout = ws.blob("W").tensor().layout
        if step == 0 or engine not in ABOUT:  # forms that round are left when weights are written
            assert isinstance(layout, Opaque)
            assert layout.engine == engine
        wanted = W
        for _ in range(step):
            wanted = wanted + W / 2 * np.float32(0.5)
        np.testing.assert_array_equal(ws.fetch("W"), wanted)
        ws.run_net("update")
    ws.feed("X", X[:1])
    both_read_the_same()
    ws.feed("W", -W)
    both_read_the_same()
    np.testing.assert_array_equal(ws.fetch("W"), -W)


def writers() -> list[tuple[str, OperatorDef]]:
    """Return operators that write W over itself: updates, and all of one input that may be in place."""
    found = [
        ("update", operator_def("WeightedSum", ["W", "one", "d", "one"], ["W"])),
        ("momentum", operator_def("MomentumSGDUpdate", ["d", "m", "one", "W"], ["d", "m", "W"], momentum=0.5)),
        ("fill", operator_def("ConstantFill", ["W"], ["W"], value=0.25)),
        ("add", operator_def("Add", ["W", "d"], ["W"])),
    ]
    for type in SCHEMAS:
        schema = SCHEMAS[type]
        if len(schema.inputs) == len(schema.outputs) == 1 and schema.in_place and schema.effects is Effects.PURE:
            with suppress(TazzaError):
                found.append((type, operator_def(type, ["W"], ["W"])))
    return found


@pytest.mark.parametrize("engine", READERS)
def test_what_plans_write_in_place_is_that_of_simple_nets(engine: str) -> None:
    """Whoever moved weights before: another plan may write them, and the first one reads what was written."""
    written = 0
    for name, op in writers():
        found: list[Any] = []
        for kind in ("simple", "plan"):
            ws, W = moved(engine)  # anew: what was written is not moved again
            with suppress(TazzaError):  # of other types or shapes than weights
                net_of(ws, "write", kind, op)
                ws.run_net("write")
                found.append(ws.fetch("W").copy())
                if found[-1].shape == W.shape and found[-1].dtype == W.dtype:
                    ws.run_net("packed")
                    np.testing.assert_array_equal(ws.fetch("W"), found[-1], err_msg=name)
                    written += 1
        assert len(found) != 1, name
        if found:
            np.testing.assert_allclose(found[1], found[0], rtol=1e-5, atol=1e-6, err_msg=name)
    assert written > 40


@pytest.mark.parametrize("engine", READERS)
@pytest.mark.parametrize("training", ["", "reference"])
def test_a_plan_that_reads_weights_and_updates_them(engine: str, training: str) -> None:
    """Beside one that has moved them: each of five steps, and what is predicted after it."""
    found: dict[str, list[Any]] = {}
    for kind in ("simple", "plan"):
        ws, W = moved(engine)
        ws.feed("g", W / 100)
        update = operator_def("MomentumSGDUpdate", ["g", "m", "one", "W"], ["g", "m", "W"], momentum=0.9)
        net_of(ws, "train", kind, reader(training, "T", training or engine, of=engine), update)
        for _ in range(5):
            ws.run_net("train")
            ws.run_net("packed")
            found.setdefault(kind, []).append((ws.fetch("W"), ws.fetch("Y"), ws.fetch("T")))
    for steps in zip(found["simple"], found["plan"], strict=True):
        for one, other in zip(*steps, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kind", ["simple", "plan", "dag"])
@pytest.mark.parametrize("engine", READERS)
def test_operators_that_only_say_that_they_write_lose_nothing(engine: str, kind: str, tmp_path: Path) -> None:
    """One that fails before it writes, a branch that is not taken, a file that lacks the blob."""
    branch = NetDef(name="branch", op=[operator_def("Relu", ["W"], ["W"])], external_output=["W"])
    file: dict[str, Any] = {"db": str(tmp_path / "other.db"), "db_type": "minidb", "absolute_path": 1}
    ops = [
        operator_def("WeightedSum", ["W", "one", "wrong", "one"], ["W"]),
        operator_def("If", ["never"], ["W"], then_net=branch),
        operator_def("Load", [], ["W"], allow_incomplete=1, **file),
        operator_def("Load", [], ["W"], **file),
    ]
    for number, op in enumerate(ops):
        ws, W = moved(engine)
        for name, array in {"never": np.array([False]), "wrong": np.ones((2, 3), np.float32), "other": W}.items():
            ws.feed(name, array)
        if number == 0:
            net_of(ws, "save", "simple", operator_def("Save", ["other"], [], **file))
            ws.run_net("save")
        with suppress(TazzaError):
            net_of(ws, "says", kind, op)
            ws.run_net("says")
        np.testing.assert_array_equal(ws.fetch("W"), W)
        ws.run_net("packed")


@pytest.mark.parametrize("order", ["VWV", "WVW"])
@pytest.mark.parametrize("kind", ["simple", "plan", "dag"])
@pytest.mark.parametrize("engine", READERS)
def test_what_is_written_into_one_that_shares_weights_is_in_both(engine: str, kind: str, order: str) -> None:
    ws, W = moved(engine)
    ws.create_blob("V").tensor().share(ws.blob("W").tensor())
    for name in ("V", "W"):
        net_of(ws, f"write {name}", kind, operator_def("WeightedSum", [name, "one", "d", "one"], [name]))
    wanted = W
    for name in order:
        ws.run_net(f"write {name}")
        ws.run_net("packed")
        wanted = wanted + W / 2
        np.testing.assert_array_equal(ws.fetch("V"), wanted)
        np.testing.assert_array_equal(ws.fetch("W"), wanted)


@pytest.mark.parametrize("engine", READERS)
def test_weights_that_others_write_are_moved_once(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To move them into a form that rounds takes longer than a copy, so they are left where they lie."""
    ws, W = moved(engine)
    net_of(ws, "update", "plan", operator_def("WeightedSum", ["W", "one", "d", "one"], ["W"]))
    wanted, moves = W, list[str]()

    def counted(tensor: Tensor, layout: Layout, context: Context) -> None:
        if isinstance(layout, Opaque) and layout.derived and tensor.layout != layout:
            moves.append(str(tensor))
        relayout(tensor, layout, context)

    monkeypatch.setattr(instance, "relayout", counted)
    for _ in range(6):
        ws.run_net("update")
        ws.run_net("packed")
        wanted = wanted + W / 2
        np.testing.assert_array_equal(ws.fetch("W"), wanted)
    assert moves == []


def test_programs_that_want_other_tiles_do_not_move_weights_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one net, whose batches take tiles of other sizes, where all were compiled while W lay plain."""
    ws, W = moved("native/winograd")
    moves: list[Layout] = []

    def counted(tensor: Tensor, layout: Layout, context: Context) -> None:
        if isinstance(layout, Opaque) and layout.derived and tensor.layout != layout:
            moves.append(layout)
        relayout(tensor, layout, context)

    monkeypatch.setattr(instance, "relayout", counted)
    rng = np.random.default_rng(2)
    small, large = rng.standard_normal((1, 19, 4, 4), np.float32), rng.standard_normal((8, 19, 40, 40), np.float32)
    for turn in range(6):
        for image in (small, large):
            ws.feed("X", image)
            if turn == 0:
                ws.feed("W", W)
            ws.run_net("packed")
    assert len(moves) <= 2
    np.testing.assert_array_equal(ws.fetch("W"), W)


@pytest.mark.parametrize("looks", [True, False])
@pytest.mark.parametrize("engine", READERS)
def test_tensors_that_share_weights_stay_the_same_data(engine: str, looks: bool) -> None:
    """Shared after they were moved: who looks at one or writes it makes plain data of both."""
    ws, W = moved(engine)
    Y = ws.fetch("Y")
    shared = ws.create_blob("V").tensor()
    shared.share(ws.blob("W").tensor())
    if looks:
        np.testing.assert_array_equal(shared.numpy(), W)
        ws.run_net("packed")
        np.testing.assert_allclose(ws.fetch("Y"), Y, rtol=1e-3, atol=1e-3)
    ws.feed("V", 2 * W)
    np.testing.assert_array_equal(ws.fetch("W"), 2 * W)


@pytest.mark.parametrize("engine", READERS)
def test_views_of_one_blob_of_parameters_follow_it(engine: str) -> None:
    ws, W = moved(engine)
    ws.feed("flat", np.concatenate([W.ravel(), W.ravel()]))
    ws.reset_blob("W")
    ws.blob("W").set(ws.blob("flat").tensor().view(W.shape, offset=W.size))
    ws.run_net("packed")
    Y = ws.fetch("Y") - 1  # without the bias
    net_of(ws, "twice", "simple", operator_def("Scale", ["flat"], ["flat"], scale=2.0))
    ws.run_net("twice")
    ws.run_net("packed")
    np.testing.assert_allclose(ws.fetch("Y") - 1, 2 * Y, rtol=1e-3, atol=1e-2)
    np.testing.assert_array_equal(ws.fetch("W"), 2 * W)


def test_plain_weights_take_what_they_need() -> None:
    """The memory of a larger form, and what was kept beside it, go with the form."""
    ws, W = moved("native/winograd")
    ws.delete_net("packed")
    tensor = ws.blob("W").tensor()
    assert tensor.storage.beside is not None
    assert tensor.storage.capacity_bytes > W.nbytes
    np.testing.assert_array_equal(tensor.numpy(), W)
    assert tensor.storage.beside is None
    assert tensor.storage.capacity_bytes == W.nbytes


@pytest.mark.parametrize("kind", ["simple", "plan", "dag"])
def test_who_fails_before_it_writes_over_weights_has_not_lost_them(kind: str) -> None:
    """Not in place: the output was brought into the form that it would have been written in."""
    ws, W = moved("native/winograd")
    ws.feed("rows", W)
    ws.feed("which", np.full(len(W), 999, np.int32))
    net_of(ws, "gather", kind, operator_def("Gather", ["rows", "which"], ["W"]))
    with pytest.raises(TazzaError, match="999"):
        ws.run_net("gather")
    np.testing.assert_array_equal(ws.fetch("W"), W)


@pytest.mark.parametrize("shape", [(703, 3, 3), (5, 19, 3, 3)])
def test_weights_keep_their_elements_when_they_are_resized(shape: tuple[int, ...]) -> None:
    ws, W = moved("native/winograd")
    tensor = ws.blob("W").tensor()
    tensor.resize(shape)
    assert tensor.storage.numel == W.size
    np.testing.assert_array_equal(tensor.array.ravel(), W.ravel()[: tensor.size])


def test_others_at_another_place_of_a_storage_stay_where_they_are() -> None:
    ws, W = moved("onednn")
    spec, parameters = ws.blob("W").tensor().spec, Tensor((2 * W.size,))
    parameters.reserve()
    first, second = parameters.view(W.shape), parameters.view(W.shape, offset=W.size)
    first.resize_to(spec)
    second.resize_to(spec)
    second.span[:] = 1
    first.resize(W.shape)
    assert second.offset_bytes == W.nbytes
    np.testing.assert_array_equal(second.plain(), np.ones_like(W))


@pytest.mark.parametrize("act", ["update", "look", "feed"])
def test_who_lacks_memory_to_bring_weights_back_loses_nothing(act: str) -> None:
    ws, W = moved("native/winograd")
    net_of(ws, "update", "simple", operator_def("WeightedSum", ["W", "one", "d", "one"], ["W"]))
    acts: dict[str, Callable[[], object]] = {
        "update": lambda: ws.run_net("update"),
        "look": ws.blob("W").tensor().numpy,
        "feed": lambda: ws.feed("W", W),
    }
    allocator = current_allocator(CPUPlace())
    gc.collect()
    former = allocator.limit_bytes
    allocator.limit_bytes = allocator.statistics.in_use_bytes + (0 if act == "update" else -W.nbytes // 2)
    try:
        with suppress(OutOfMemoryError):
            acts[act]()
    finally:
        allocator.limit_bytes = former
    np.testing.assert_array_equal(ws.fetch("W"), W)
    ws.run_net("packed")


@pytest.mark.parametrize("type", sampled(drawable(), 8))
def test_results_of_any_operator_over_moved_weights(type: str) -> None:
    """Nobody writes into a form that rounds: a result in the blob of such weights is that in a new blob."""
    problem = draw(type, 3)
    definition = OperatorDef()
    definition.CopyFrom(problem.definition)
    if is_random(type) or set(definition.input) & set(definition.output) or not definition.output:
        pytest.skip("random, or in place")
    found: list[Any] = []
    for kind, result in (("simple", "new"), ("simple", "W"), ("plan", "W")):
        ws, _ = moved("native/winograd")
        del definition.input[:], definition.output[:]
        definition.input.extend(f"in {name}" for name in problem.definition.input)
        definition.output.extend([result, *(f"out {name}" for name in problem.definition.output[1:])])
        for name in problem.definition.input:
            ws.feed(f"in {name}", problem.value(name))
        net_of(ws, "any", kind, definition)
        ws.run_net("any")
        value = ws.fetch(result)
        found.append(value if isinstance(value, np.ndarray) else ws.blob(result).tensor().plain())
    for one in found[1:]:
        np.testing.assert_array_equal(found[0].shape, one.shape)
        assert found[0].dtype == one.dtype
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, found[0], rtol=1e-4, atol=1e-4)
        elif one.dtype.kind in "iub":
            np.testing.assert_array_equal(one, found[0])
