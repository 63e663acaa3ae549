"""Plans that run some operators for a few images at a time."""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tazza.errors import OutOfMemoryError
from tazza.interop import predictor as predictors
from tazza.interop.predictor import Predictor
from tazza.models.zoo import CLASSIFIERS
from tazza.nets.explanation import Explanation
from tazza.nets.plan import PlanNet, compiler, slicing
from tazza.nets.plan.slices import Building, Unsliceable, add_slices
from tazza.nets.plan.slicing import CACHE_KB, Slicing, divisors, find_slicings
from tazza.operator import Expression, operator_def
from tazza.operator.choice import takes_epilogue
from tazza.operator.engine import why_unavailable
from tazza.proto import NetDef, OperatorDef
from tazza.runtime.machine import NOMINAL
from tazza.tensor import DataType, Tensor, TensorSpec
from tazza.workspace import Workspace
from tests.nets.plans import Array, by_simple, convolutions, draw, feed_convolutions, plan

IMAGE_KB = 8 * 7 * 6 * 4 / 1024


@pytest.fixture(autouse=True)
def worth_while(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Slice small nets as if launches and arithmetic cost nothing."""
    monkeypatch.setattr(slicing, "LAUNCH_NS", 0.0)
    monkeypatch.setattr(slicing, "SLOWER", 1.0)
    monkeypatch.setattr(slicing, "WORTH_NS", 0.001)
    free = replace(NOMINAL, flops_per_ns=math.inf, cache_bytes_per_ns=math.inf)
    monkeypatch.setattr(slicing, "machine", lambda: free)
    with CACHE_KB.override(10):
        yield


def explained(ws: Workspace) -> Explanation:
    """Return the plan of the net n."""
    net = ws.net("n")
    assert isinstance(net, PlanNet)
    return net.explain()


def slices(ws: Workspace) -> list[int]:
    """Return the numbers of slices of steps that have some."""
    return [row.slices for row in explained(ws).rows if row.slices > 1]


def check(ws: Workspace, ops: Sequence[OperatorDef], *outputs: str) -> None:
    """Assert that the plan gives what the operators give, run after run."""
    expected = [by_simple(ws, ops, output) for output in outputs]
    for _ in range(2):
        ws.run_net("n")
        for output, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(ws.fetch(output), wanted, rtol=2e-4, atol=2e-4)


def test_a_block_runs_in_slices() -> None:
    ws = Workspace()
    feed_convolutions(ws, batch=12)
    ws.create_net(plan(convolutions()))
    check(ws, convolutions(), "y")
    assert slices(ws)
    sliced = explained(ws).arena_bytes
    with CACHE_KB.override(0):
        ws.create_net(plan(convolutions()), overwrite=True)
        check(ws, convolutions(), "y")
        assert slices(ws) == []
        assert sliced < explained(ws).arena_bytes / 2


@pytest.mark.parametrize("batch", [1, 2, 5, 6])
def test_any_batch(batch: int) -> None:
    ws = Workspace()
    feed_convolutions(ws, batch)
    ws.create_net(plan(convolutions()))
    check(ws, convolutions(), "y")
    assert bool(slices(ws)) == (batch > 1)


@pytest.mark.slow
def test_one_net_for_changing_batches() -> None:
    ws = Workspace()
    feed_convolutions(ws)
    ws.create_net(plan(convolutions()))
    for batch in (12, 1, 7, 12):
        ws.feed("x", draw(batch, 8, 7, 6, seed=batch))
        check(ws, convolutions(), "y")


def test_what_is_kept_is_whole() -> None:
    ws = Workspace()
    feed_convolutions(ws, batch=6)
    ws.create_net(plan(convolutions(), keep=["r1", "y"]))
    check(ws, convolutions(), "r1", "y")
    assert slices(ws)


def test_images_behind_each_other() -> None:
    """The order NHWC, a Concat, pooling, and behind them a layer that takes all images at once."""
    ops = [
        operator_def("Conv", ["x", "V1"], ["a"], kernel=3, pad=1, order="NHWC"),
        operator_def("Conv", ["x", "V2"], ["b"], kernel=1, order="NHWC"),
        operator_def("Concat", ["a", "b"], ["c", "info"], order="NHWC"),
        operator_def("MaxPool", ["c"], ["p"], kernel=2, stride=2, order="NHWC"),
        operator_def("AveragePool", ["p"], ["g"], global_pooling=1, order="NHWC"),
        operator_def("FC", ["g", "W", "b0"], ["y"]),
    ]
    ws = Workspace()
    ws.feed("x", draw(9, 12, 10, 5))
    ws.feed("V1", draw(6, 3, 3, 5, seed=1))
    ws.feed("V2", draw(4, 1, 1, 5, seed=2))
    ws.feed("W", draw(3, 10, seed=3))
    ws.feed("b0", draw(3, seed=4))
    net = plan(ops)
    ws.create_net(net)
    expected = by_texts(ws, ops, "y")
    for _ in range(2):
        ws.run_net("n")
        np.testing.assert_allclose(ws.fetch("y"), expected, rtol=2e-4, atol=2e-4)
    assert slices(ws)


def by_texts(ws: Workspace, ops: Sequence[OperatorDef], output: str) -> Array:
    """Run a net as `simple` in a workspace of its own."""
    other = Workspace()
    for name in ws.blob_names():
        if ws.blob(name).type_name == "Tensor" or name in ("x", "V1", "V2", "W", "b0"):
            other.feed(name, ws.fetch(name))
    other.run_net_once(NetDef(name="s", op=ops))
    return other.fetch(output)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["squeezenet", *(pytest.param(one, marks=pytest.mark.slow) for one in ("googlenet", "mobilenet_v2"))]
)
def test_nets_of_the_zoo(name: str) -> None:
    small = {"size": 64, "width": 0.25, "classes": 5}
    model = CLASSIFIERS[name].inference(**small)
    found: dict[str, Array] = {}
    for kind, kb in (("simple", 0), ("plan", 0), ("plan", 200)):
        ws = Workspace()
        ws.run_net_once(model.init_net.proto)
        for position, blob in enumerate(sorted(set(ws.blob_names()))):
            ws.feed(blob, np.abs(draw(*ws.fetch(blob).shape, seed=position)) * 0.1 + 0.01)
        ws.feed("data", draw(6, 3, 64, 64))
        net = NetDef()
        net.CopyFrom(model.net.proto)
        net.type, net.name = kind, "n"
        with CACHE_KB.override(kb):
            ws.create_net(net)
            ws.run_net("n")
            ws.run_net("n")
        if kb:
            assert slices(ws)
        found[f"{kind} {kb}"] = ws.fetch(net.external_output[-1])
    np.testing.assert_allclose(found["plan 200"], found["plan 0"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["plan 200"], found["simple 0"], rtol=1e-4, atol=1e-5)


# -- which operators ---------------------------------------------------------------------------------------------------


def found(ops: Sequence[OperatorDef], *outputs: str, batch: int = 12) -> tuple[Slicing, ...]:
    """Return the slices of a net over x (batch, 8, 7, 6)."""
    shapes = {"x": (batch, 8, 7, 6), "W": (8, 8, 3, 3), "V": (8, 8, 1, 1), "b": (8,), "F": (5, 336), "f": (5,)}
    specs = {name: TensorSpec(shape, DataType.FLOAT) for name, shape in shapes.items()}
    return find_slicings(ops, specs, frozenset(outputs), lambda name: None)


CHAIN = [
    operator_def("Conv", ["x", "W", "b"], ["y1"], kernel=3, pad=1),
    operator_def("Relu", ["y1"], ["y2"]),
    operator_def("Conv", ["y2", "V", "b"], ["y3"], kernel=1),
]


def test_a_chain() -> None:
    (cut,) = found(CHAIN, "y3")
    assert (cut.first, cut.last, cut.taken, cut.given) == (0, 3, ("x",), ("y3",))
    assert cut.images * cut.count == 12
    assert 2 * cut.images * IMAGE_KB <= 10


def test_what_is_needed_afterwards_is_given() -> None:
    (cut,) = found(CHAIN, "y1", "y3")
    assert cut.given == ("y1", "y3")


def test_one_operator_alone_wins_nothing() -> None:
    assert found(CHAIN[:1], "y1") == ()


def test_nothing_is_won_where_all_fits() -> None:
    assert found(CHAIN, "y3", batch=2) == ()


def test_an_operator_that_mixes_images_is_no_part() -> None:
    mixed = operator_def("Softmax", ["y2"], ["y3"], axis=0)
    (cut,) = found([*CHAIN[:2], mixed], "y3")
    assert (cut.first, cut.last) == (0, 2)


def test_joining_images_is_no_part() -> None:
    joined = operator_def("Concat", ["y2", "y2"], ["y3", "info"], axis=0)
    (cut,) = found([*CHAIN[:2], joined], "y3")
    assert cut.last == 2


def test_what_broadcasts_is_no_part() -> None:
    added = operator_def("Add", ["y2", "b"], ["y3"], broadcast=1, axis=1)
    (cut,) = found([*CHAIN[:2], added], "y3")
    assert cut.last == 2


def test_a_filter_made_of_images_is_no_part() -> None:
    ops = [*CHAIN[:2], operator_def("Conv", ["x", "y2"], ["y3"], kernels=[7, 6])]
    assert all(cut.last <= 2 for cut in found(ops, "y3"))


def test_the_region_does_not_overwrite_its_input_in_slices() -> None:
    ops = [operator_def("Relu", ["x"], ["x"]), *CHAIN]
    assert all(cut.first > 0 for cut in found(ops, "y3"))


def test_the_flag_switches_it_off() -> None:
    with CACHE_KB.override(0):
        assert found(CHAIN, "y3") == ()


# -- what fresh eyes found ---------------------------------------------------------------------------------------------


def check_with_slices(ws: Workspace, ops: Sequence[OperatorDef], outputs: Sequence[str], **arguments: object) -> None:
    """Assert that a plan gives what `simple` gives."""
    other = Workspace()
    for name in ws.blob_names():
        other.feed(name, ws.fetch(name))
    other.run_net_once(NetDef(name="s", op=ops))
    ws.create_net(plan(ops, outputs=outputs, **arguments))
    ws.run_net("n")
    for name in outputs:
        np.testing.assert_allclose(ws.fetch(name), other.fetch(name), rtol=1e-3, atol=1e-3, err_msg=name)


def test_images_that_are_a_filter_too() -> None:
    """One operator takes the blob by images, the other reads all of it for each."""
    ops = [
        operator_def("MaxPool", ["x0"], ["x"], kernel=1),
        operator_def("Conv", ["a", "x"], ["b"], kernels=[7, 6], pad=3),
        operator_def("LRN", ["b"], ["y"], size=3),
        operator_def("LRN", ["x"], ["x2"], size=3),
        operator_def("MaxPool", ["y"], ["z"], kernel=2),
        operator_def("MaxPool", ["x2"], ["z2"], kernel=2),
    ]
    ws = Workspace()
    ws.feed("x0", draw(12, 8, 7, 6))
    ws.feed("a", draw(12, 8, 9, 9, seed=2) * 0.1)
    check_with_slices(ws, ops, ["z", "z2"])
    assert slices(ws)


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 6])
def test_a_blob_that_gets_as_many_images_as_a_slice_has(batch: int) -> None:
    ops = [
        operator_def("MaxPool", ["a"], ["k"], kernel=2),
        operator_def("Conv", ["x", "W"], ["c"], kernel=3, pad=1),
        operator_def("Relu", ["c"], ["d"]),
        operator_def("Conv", ["d", "W"], ["a"], kernel=3, pad=1),
    ]
    ws = Workspace()
    ws.feed("x", draw(12, 8, 7, 6))
    ws.feed("W", draw(8, 8, 3, 3, seed=1))
    ws.feed("a", draw(batch, 8, 7, 6))
    check_with_slices(ws, ops, ["k", "a"])


def test_a_filter_that_is_data_is_reordered_once() -> None:
    ops = [operator_def("LRN", ["x"], ["d0"], size=3)]
    for i in range(3):
        ops.append(operator_def("Conv", [f"d{i}", "W"], [f"c{i}"], kernel=3, pad=1))
        ops.append(operator_def("LRN", [f"c{i}"], [f"d{i + 1}"], size=3))
    ws = Workspace()
    ws.feed("x", draw(12, 8, 7, 6))
    ws.feed("W", draw(8, 8, 3, 3))
    check_with_slices(ws, ops, ["d3"], inputs=["x", "W"])
    rows = explained(ws).rows
    assert [row.slices for row in rows if row.outputs == "W"] == [1] * sum(row.outputs == "W" for row in rows)
    assert {row.slices for row in rows if row.operator == "LRN"} == {12}
    assert len(rows) < 20


def test_seats_of_a_predictor_run_slices_side_by_side() -> None:
    ws = Workspace()
    feed_convolutions(ws, batch=12)
    net = plan(convolutions(), inputs=["x"])
    ws.create_net(net)
    made = ws.net("n")
    assert isinstance(made, PlanNet)
    expected = by_simple(ws, convolutions(), "y")
    others: list[Workspace] = []
    for _ in range(3):
        other = Workspace()
        for name in ws.blob_names():
            other.feed(name, ws.fetch(name))
        others.append(other)
    clones = [made.clone(other) for other in others]

    def run_often(net: PlanNet) -> None:
        for _ in range(20):
            net.run()

    threads = [threading.Thread(target=run_often, args=(one,)) for one in clones]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        np.testing.assert_allclose(other.fetch("y"), expected, rtol=2e-4, atol=2e-4)


def test_a_cut_in_a_layout_that_cannot_be_cut_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others stay."""
    ops = [
        operator_def("LRN", ["x"], ["a"], size=3),
        operator_def("MaxPool", ["a"], ["b"], kernel=3, pad=1),
        operator_def("Softmax", ["b"], ["c"], axis=0),
        operator_def("LRN", ["c"], ["d"], size=3),
        operator_def("MaxPool", ["d"], ["e"], kernel=3, pad=1),
    ]
    asked: list[Slicing] = []

    def add(state: Building, cut: Slicing, write: Callable[[int], None]) -> tuple[int, ...]:
        asked.append(cut)
        if cut.first == 0:
            raise Unsliceable(cut)
        return add_slices(state, cut, write)

    monkeypatch.setattr(compiler, "add_slices", add)
    ws = Workspace()
    ws.feed("x", draw(12, 8, 7, 6))
    check_with_slices(ws, ops, ["e"])
    assert [cut.first for cut in asked[:1]] == [0]
    assert slices(ws)


KINDS: dict[str, Callable[[str, str, str], OperatorDef]] = {
    "convolution": lambda a, b, y: operator_def("Conv", [a, "W"], [y], kernel=3, pad=1),
    "another one": lambda a, b, y: operator_def("Conv", [a, "W"], [y], kernel=3, dilation=2, pad=2),
    "relu": lambda a, b, y: operator_def("Relu", [a], [y]),
    "relu in place": lambda a, b, y: operator_def("Relu", [a], [y if a == "x" else a]),
    "sum": lambda a, b, y: operator_def("Sum", [a, b], [y]),
    "sum in place": lambda a, b, y: operator_def("Sum", [a, b], [y if a in ("x", b) else a]),
    "largest": lambda a, b, y: operator_def("MaxPool", [a], [y], kernel=3, pad=1),
    "mean": lambda a, b, y: operator_def("AveragePool", [a], [y], kernel=3, pad=1),
    "norm": lambda a, b, y: operator_def("LRN", [a], [y], size=3, alpha=0.1, beta=0.75),
    "shuffle": lambda a, b, y: operator_def("ChannelShuffle", [a], [y], group=2),
    "mixes images": lambda a, b, y: operator_def("Softmax", [a], [y], axis=0),
}


def random_net(draws: random.Random) -> tuple[list[OperatorDef], list[str]]:
    """Return some operators over x (N, 8, 7, 6) and W, in place here and there, and what is needed afterwards."""
    names, ops = ["x"], list[OperatorDef]()
    for i in range(draws.randint(3, 12)):
        ops.append(KINDS[draws.choice(list(KINDS))](draws.choice(names[-4:]), draws.choice(names), f"t{i}"))
        names = list(dict.fromkeys([*names, *ops[-1].output]))
    read = {name for op in ops for name in op.input}
    return ops, [name for name in names[1:] if name not in read or draws.random() < 0.2] or names[-1:]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 120), marks=pytest.mark.slow)])
def test_random_nets(seeds: range) -> None:
    sliced = 0
    for seed in seeds:
        draws = random.Random(seed)
        ops, outputs = random_net(draws)
        ws = Workspace()
        ws.feed("x", draw(draws.choice([2, 3, 4, 6, 12]), 8, 7, 6))
        ws.feed("W", draw(8, 8, 3, 3, seed=1) * 0.1)
        try:
            with CACHE_KB.override(draws.choice([1, 3, 6, 10, 20])):
                check_with_slices(ws, ops, outputs, inputs=["x"])
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        sliced += bool(slices(ws))
    assert sliced > len(seeds) / 3


@pytest.mark.slow
@pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "onednn") is not None, reason="only calls of compiled kernels can be moved"
)
def test_lent_inputs_are_read_slice_by_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each slice reads its own images of an array that lies elsewhere than the blob, which keeps what it has."""
    monkeypatch.setattr(predictors, "LENT_BYTES", 1)
    ops = convolutions()
    ws = Workspace()
    feed_convolutions(ws, batch=12)
    predictor = Predictor(NetDef(name="lent", op=ops, external_output=["y"]), ws, inputs=["x"])
    for seed in range(3):
        x = draw(12, 8, 7, 6, seed=seed)
        ws.feed("x", x)
        np.testing.assert_allclose(predictor.run(x=x)["y"], by_simple(ws, ops, "y"), rtol=2e-4, atol=2e-4)
    net = predictor.net
    assert isinstance(net, PlanNet)
    assert any(row.slices > 1 for row in net.explain().rows)
    seat = predictor._seats.free[0]._blobs["x"].value  # pyright: ignore[reportPrivateUsage] -- which nobody else can see
    assert isinstance(seat, Tensor)
    np.testing.assert_array_equal(seat.plain(), draw(12, 8, 7, 6, seed=0))
    predictor.close()


def wider() -> list[OperatorDef]:
    """A 1x1 convolution, and a depthwise one of what it gives; then another convolution."""
    return [
        operator_def("Conv", ["x", "V1", "b1"], ["h"], kernel=1),
        operator_def("Relu", ["h"], ["h"]),
        operator_def("Conv", ["h", "V2", "b1"], ["d"], kernel=3, pad=1, group=16),
        operator_def("Relu", ["d"], ["d"]),
        operator_def("Conv", ["d", "V3", "b2"], ["y"], kernel=1),
    ]


@pytest.mark.parametrize("keep", [["y"], ["h", "y"]])
def test_what_is_wide_between_two_convolutions(keep: list[str]) -> None:
    """Whole and in slices; a blob that is kept is there."""
    ws = Workspace()
    feed_convolutions(ws, batch=12)
    for name, shape in (("V1", (16, 8, 1, 1)), ("V2", (16, 1, 3, 3)), ("V3", (8, 16, 1, 1))):
        ws.feed(name, draw(*shape, seed=len(shape) + shape[1]))
    for cache_kb in (10, 0):
        with CACHE_KB.override(cache_kb):
            ws.create_net(plan(wider(), keep=keep), overwrite=True)
            check(ws, wider(), *keep)
            assert bool(slices(ws)) == (cache_kb > 0)
            types = {row.operator for row in explained(ws).rows}
            if takes_epilogue("FusedConvDepthwise", Expression.parse("relu(y)"), "cpu"):
                assert ("FusedConvDepthwise" in types) == (keep == ["y"])


def test_divisors_of_any_batch_are_found_at_once() -> None:
    for batch in range(1, 500):
        every = [images for images in range(1, batch + 1) if batch % images == 0]
        longest = {images.bit_length(): images for images in every[:-1]}
        assert divisors(batch) == sorted(longest.values())
    assert divisors(None) == divisors(0) == []
    assert {1, 1 << 16, 1 << 61} <= set(divisors(1 << 62))
    assert divisors(2**61 - 1) == [1]


def test_a_batch_beyond_any_memory_is_refused_before_anything_runs() -> None:
    """Ten Concats of sixteen times the same make 2^40 images of one, out of a file of a few hundred bytes."""
    ops = [operator_def("Concat", [f"x{i}"] * 16, [f"x{i + 1}", f"dims{i}"], axis=0) for i in range(10)]
    net = NetDef(name="n", type="plan", op=ops, external_input=["x0"], external_output=["x10"])
    workspace = Workspace()
    workspace.feed("x0", np.zeros((1, 1, 4, 4), np.float32))
    with pytest.raises(OutOfMemoryError):
        workspace.create_net(net).run()
