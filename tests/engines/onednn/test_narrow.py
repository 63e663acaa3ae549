"""Nets of float32 that compute in bfloat16: what lies in it, what does not, and that results are those of float32."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tazza.engines.onednn import narrow
from tazza.engines.onednn.descriptor import Descriptor, resized
from tazza.engines.onednn.library import unavailable
from tazza.engines.onednn.shape import copy
from tazza.nets.explanation import Explanation
from tazza.nets.plan import PlanNet, slicing
from tazza.operator import operator_def
from tazza.proto import OperatorDef
from tazza.runtime.fpmath import FPMATH, why_narrow
from tazza.runtime.machine import NOMINAL
from tazza.runtime.native_code import processor
from tazza.tensor import DataType, Opaque, TensorSpec, channels_last
from tazza.workspace import Workspace
from tests.check import run
from tests.nets.plans import Array, by_simple, convolutions, draw, feed_convolutions, plan

pytestmark = [
    pytest.mark.skipif(unavailable() is not None, reason=str(unavailable())),
    pytest.mark.skipif(not processor().has("avx512bw"), reason="oneDNN has no bfloat16 without AVX-512"),
]

ROUNDING = 2.0**-8
"""Of bfloat16, relative."""


def _has_it(type: str) -> bool:
    return type == "bf16"


def _has_not(type: str) -> bool:
    del type
    return False


@pytest.fixture(autouse=True)
def multiplies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ask for bfloat16 on a processor that is said to have it: where it does not, oneDNN emulates it."""
    monkeypatch.setattr(narrow, "multiplies", _has_it)
    with FPMATH.override("bf16"):
        yield


def close(got: Array, wanted: Array, slack: float = 4.0) -> None:
    """Assert that an array is right to so many roundings, of its largest element."""
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, rtol=0, atol=slack * ROUNDING * np.abs(wanted).max())


def rounded(array: Array) -> Array:
    """Return what is left of an array in bfloat16."""
    return array.astype(DataType.BFLOAT16.numpy).astype(np.float32)


def ran(ws: Workspace) -> Explanation:
    """Return the plan of the net n."""
    net = ws.net("n")
    assert isinstance(net, PlanNet)
    return net.explain()


def engines(ws: Workspace) -> list[tuple[str, str]]:
    """Return operator and engine of each step."""
    return [(row.operator, row.engine) for row in ran(ws).rows]


def check(ws: Workspace, ops: Sequence[OperatorDef], output: str, slack: float = 4.0) -> None:
    """Run operators as a plan and compare with the reference."""
    wanted = by_simple(ws, ops, output)
    ws.create_net(plan(ops, outputs=[output]))
    for _ in range(2):
        ws.run_net("n")
        close(ws.fetch(output), wanted, slack)


def test_a_block_lies_in_bfloat16_from_end_to_end() -> None:
    """Only what comes in, and weights once, are brought into it; what is fetched is float32."""
    ws = Workspace()
    feed_convolutions(ws)
    check(ws, convolutions(), "y")
    layers = [("FusedConv", "onednn"), ("FusedConv", "onednn")]
    assert engines(ws) == [("reorder", "reorder"), *layers, ("reorder", "reorder")]
    assert [row.layout for row in ran(ws).rows] == [*["channels-last, narrow"] * 3, "channels-last"]
    assert ran(ws).rows[1].bytes_written == 2 * draw(2, 16, 7, 6).size


def test_without_the_flag_nothing_does() -> None:
    ws = Workspace()
    feed_convolutions(ws)
    with FPMATH.override(""):
        ws.create_net(plan(convolutions(), outputs=["y"]))
        ws.run_net("n")
        assert not [row for row in ran(ws).rows if "narrow" in row.layout]
    ws.run_net("n")
    assert [row for row in ran(ws).rows if "narrow" in row.layout]


def test_a_processor_without_bfloat16_stays_with_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    assert why_narrow() == "the flag fpmath asks for bf16, it computes in float32"
    monkeypatch.setattr(narrow, "multiplies", _has_not)
    assert why_narrow() is None
    ws = Workspace()
    feed_convolutions(ws)
    ws.create_net(plan(convolutions(), outputs=["y"]))
    ws.run_net("n")
    close(ws.fetch("y"), by_simple(ws, convolutions(), "y"), 4.0)  # within a kernel oneDNN may still round
    assert not [row for row in ran(ws).rows if "narrow" in row.layout]


@pytest.mark.parametrize(
    ("type", "x", "W", "arguments"),
    [
        ("Conv", (2, 8, 9, 7), (10, 4, 3, 3), {"kernel": 3, "group": 2, "stride": 2}),
        ("Conv", (2, 32, 9, 7), (32, 1, 3, 3), {"kernel": 3, "group": 32, "pad": 1}),
        ("Conv", (2, 9, 7, 6), (10, 3, 3, 6), {"kernel": 3, "order": "NHWC"}),
        ("Conv1D", (2, 5, 9), (7, 5, 3), {"kernels": [3]}),
        ("Conv3D", (2, 3, 5, 6, 7), (4, 3, 2, 2, 2), {"kernels": [2, 2, 2]}),
        ("FC", (3, 20), (7, 20), {}),
        ("FC", (3, 5, 2, 2), (7, 20), {}),
    ],
)
def test_layers(type: str, x: tuple[int, ...], W: tuple[int, ...], arguments: dict[str, Any]) -> None:
    """What one operator gives, into a blob of its own."""
    given = [draw(*x), draw(*W, seed=1), draw(W[0], seed=2)]
    definition = operator_def(type, ["X", "W", "b"], ["Y"], **arguments)
    (got,), operator = run(definition, given, "onednn")
    (wanted,), _ = run(definition, given, "reference")
    assert operator.choices[-1].engine == "onednn"
    close(got, wanted)
    if type == "FC":  # sums of what was rounded are float32
        assert np.abs(got - wanted).max() > 1e-4 * np.abs(wanted).max()
    else:
        np.testing.assert_array_equal(got, rounded(got))


def test_groups_of_odd_channels_are_multiplied_in_float32() -> None:
    """The library reads the channels of a group in pairs, and the one beside an odd one belongs to another group."""
    given = [draw(2, 6, 9, 7), draw(10, 3, 3, 3, seed=1), draw(10, seed=2)]
    definition = operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=3, group=2, stride=2)
    (got,), _ = run(definition, given, "onednn")
    (wanted,), _ = run(definition, given, "reference")
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_what_is_between_layers() -> None:
    """Pooling and joins take narrow elements as they lie; sums and normalization, which do not, get float32."""
    ops = [
        operator_def("Conv", ["x", "W1", "b1"], ["c1"], kernel=3, pad=1),
        operator_def("MaxPool", ["c1"], ["m"], kernel=2, stride=2),
        operator_def("AveragePool", ["c1"], ["a"], kernel=2, stride=2),
        operator_def("Sum", ["m", "a", "m"], ["s"]),
        operator_def("Add", ["s", "m"], ["t"]),
        operator_def("Conv", ["t", "W4", "b2"], ["c4"], kernel=1),
        operator_def("Concat", ["m", "a"], ["j", "extents"], axis=1),
        operator_def("LRN", ["j"], ["l"], size=3),
        operator_def("Conv", ["l", "W2", "b2"], ["c2"], kernel=1),
        operator_def("Concat", ["c2", "c4"], ["u", "more"], axis=1),
        operator_def("AveragePool", ["u"], ["p"], global_pooling=1),
        operator_def("FC", ["p", "W3", "b3"], ["y"]),
    ]
    ws = Workspace()
    ws.feed("x", draw(2, 8, 10, 6))
    filters = {"W1": (16, 8, 3, 3), "W2": (5, 32, 1, 1), "W3": (3, 10), "W4": (5, 16, 1, 1)}
    for name, shape in (*filters.items(), ("b1", 16), ("b2", 5), ("b3", 3)):
        ws.feed(name, draw(*np.atleast_1d(shape), seed=len(name) + int(np.prod(shape))))
    check(ws, ops, "y", 8.0)
    rows = ran(ws).rows
    at = [(row.operator, row.layout) for row in rows]
    for type in ("MaxPool", "AveragePool", "Concat"):
        assert (type, "channels-last, narrow") in at
    assert ("Sum", "channels-last") in at


def test_over_an_operand_that_lies_narrow() -> None:
    """The second layer adds to what the first one gave, and overwrites it."""
    ops = [
        operator_def("Conv", ["x", "W", "b"], ["c"], kernel=3, pad=1),
        operator_def("Conv", ["x", "V", "b"], ["d"], kernel=3, pad=1),
        operator_def("Sum", ["c", "d"], ["c"]),
        operator_def("Relu", ["c"], ["y"]),
    ]
    ws = Workspace()
    ws.feed("x", draw(2, 8, 7, 6))
    ws.feed("W", draw(8, 8, 3, 3, seed=1))
    ws.feed("V", draw(8, 8, 3, 3, seed=2))
    ws.feed("b", draw(8, seed=3))
    check(ws, ops, "y")
    assert engines(ws)[1:-1] == [("Conv", "onednn"), ("FusedConv", "onednn")]


@pytest.mark.slow
@pytest.mark.parametrize("image", [(112, 113), (9, 7)])
def test_two_convolutions_at_once(image: tuple[int, int]) -> None:
    """A large image goes through one primitive: its second bias is float32, whatever the elements are."""
    shapes = [(2, 16, *image), (96, 16, 1, 1), (96,), (96, 1, 3, 3), (96,)]
    given = [draw(*shape, seed=place) for place, shape in enumerate(shapes)]
    given[4] *= 10  # so that a bias that is read wrongly shows
    definition = operator_def(
        "FusedConvDepthwise", ["X", "W", "b", "V", "c"], ["Y"], kernel=3, pad=1, group=96, inner="relu(y)"
    )
    (got,), _ = run(definition, given, "onednn")
    (wanted,), _ = run(definition, given, "reference")
    close(got, wanted)
    np.testing.assert_array_equal(got, rounded(got))


def test_slices_cut_narrow_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slicing, "WORTH_NS", 0.001)
    monkeypatch.setattr(slicing, "LAUNCH_NS", 0.0)
    monkeypatch.setattr(slicing, "SLOWER", 1.0)
    free = replace(NOMINAL, flops_per_ns=math.inf, cache_bytes_per_ns=math.inf)
    monkeypatch.setattr(slicing, "machine", lambda: free)
    ws = Workspace()
    feed_convolutions(ws, batch=12)
    with slicing.CACHE_KB.override(10):
        check(ws, convolutions(), "y")
        assert [row.slices > 1 for row in ran(ws).rows if row.operator == "FusedConv"] == [True, True]


def test_other_numbers_of_images() -> None:
    spec = TensorSpec((6, 5, 3, 2), DataType.FLOAT, layout=channels_last((6, 5, 3, 2)))
    lies = Descriptor.channels_last(spec.shape, DataType.BFLOAT16)
    layout = lies.layout(dtype=DataType.FLOAT)
    assert isinstance(layout, Opaque)
    assert (layout.nearest, layout.nbytes, layout.derived) == (spec.layout, 2 * spec.size, True)
    part = Descriptor.channels_last((2, 5, 3, 2), DataType.BFLOAT16).layout(dtype=DataType.FLOAT)
    assert isinstance(part, Opaque)
    assert resized(layout, 2) == part
    assert resized(part, 6) == layout
    turned = Descriptor.of((6, 5), DataType.BFLOAT16).permute((1, 0)).layout(dtype=DataType.FLOAT)
    assert isinstance(turned, Opaque)
    assert resized(turned, 2) is None


def test_parameters_keep_all_their_digits() -> None:
    """Training reads narrow copies of weights; the weights themselves are never moved into them."""
    ops = [
        operator_def("Conv", ["x", "W", "b"], ["c"], kernel=3),
        operator_def("Relu", ["c"], ["r"]),
        operator_def("ConvGradient", ["x", "W", "r"], ["dW", "db"], kernel=3),
        operator_def("MomentumSGDUpdate", ["dW", "m", "rate", "W"], ["dW", "m", "W"], momentum=0.5),
    ]
    ws = Workspace()
    ws.feed("x", draw(2, 8, 7, 6))
    ws.feed("W", draw(16, 8, 3, 3, seed=1))
    ws.feed("b", draw(16, seed=2))
    ws.feed("m", np.zeros((16, 8, 3, 3), np.float32))
    ws.feed("rate", np.full(1, 1e-7, np.float32))
    before = ws.fetch("W")
    ws.create_net(plan(ops))
    for _ in range(3):
        ws.run_net("n")
    changed = ws.fetch("W") - before
    assert ("FusedConv", "onednn") in engines(ws)
    assert 0 < np.abs(changed).max() < ROUNDING / 8, "steps far below the rounding of bfloat16 are not lost"
    assert np.count_nonzero(changed) > 0.9 * changed.size


def test_operators_one_by_one() -> None:
    """A net of the type `simple` hands narrow blobs from operator to operator; whoever fetches one sees float32."""
    ws = Workspace()
    feed_convolutions(ws)
    wanted = by_simple(ws, convolutions(), "r1"), by_simple(ws, convolutions(), "y")
    net = plan(convolutions())
    net.type = "simple"
    ws.create_net(net)
    ws.run_net("n")
    close(ws.fetch("r1"), wanted[0])
    close(ws.fetch("y"), wanted[1])


@pytest.mark.parametrize("type", ["Sum", "Sub", "Add"])
@pytest.mark.parametrize("first", [True, False])
def test_a_narrow_operand_does_not_round_the_others(type: str, first: bool) -> None:
    """In whatever order they stand: what comes as float32 is added, or taken away, with all its digits."""
    ops = [
        operator_def("Conv", ["x", "W", "b"], ["c"], kernel=3, pad=1),
        operator_def(type, ["c", "t"] if first else ["t", "c"], ["y"]),
    ]
    ws = Workspace()
    ws.feed("x", draw(2, 8, 7, 6))
    ws.feed("W", np.zeros((8, 8, 3, 3), np.float32))
    ws.feed("b", np.zeros(8, np.float32))
    ws.feed("t", draw(2, 8, 7, 6, seed=3))
    ws.create_net(plan(ops, outputs=["y"], keep=["c"]))
    ws.run_net("n")
    np.testing.assert_array_equal(np.abs(ws.fetch("y")), np.abs(ws.fetch("t")))


@pytest.mark.parametrize("net_type", ["plan", "simple"])
@pytest.mark.parametrize(
    ("type", "more", "arguments"),
    [("InstanceNorm", ["scale", "bias"], {}), ("PRelu", ["scale"], {}), ("Sigmoid", [], {})],
)
def test_in_place_by_who_does_not_know_the_form(
    type: str, more: list[str], arguments: dict[str, Any], net_type: str
) -> None:
    """It overwrites the float32 that it gets, on the engine that would do so without the flag."""
    ops = [
        operator_def("Conv", ["x", "W", "b"], ["c"], kernel=3, pad=1),
        operator_def(type, ["c", *more], ["c"], **arguments),
        operator_def("MaxPool", ["c"], ["y"], kernel=2),
    ]
    ws = Workspace()
    ws.feed("x", draw(2, 8, 7, 6))
    ws.feed("W", draw(8, 8, 3, 3, seed=1))
    for seed, name in enumerate(("b", "scale", "bias"), 2):
        ws.feed(name, draw(8, seed=seed))
    wanted = by_simple(ws, ops, "y")
    net = plan(ops, outputs=["y"])
    net.type = net_type
    made = ws.create_net(net)
    for _ in range(3):
        ws.run_net("n")
        close(ws.fetch("y"), wanted, 8.0)
    if net_type == "plan":
        taken = dict(engines(ws))
    else:
        taken = {one.op.type: one.choices[-1].engine for one in made.operators}
    assert "reference" not in taken.values()


def test_a_view_that_was_handed_out_is_not_written_over() -> None:
    ops = [operator_def("Conv", ["x", "W", "b"], ["y"], kernel=3, pad=1)]
    ws = Workspace()
    ws.feed("x", draw(2, 8, 7, 6))
    ws.feed("W", draw(8, 8, 3, 3, seed=1))
    ws.feed("b", draw(8, seed=2))
    net = plan(ops)
    net.type = "simple"
    ws.create_net(net)
    ws.run_net("n")
    blob = ws.get_blob("y")
    assert blob is not None
    view = blob.tensor().numpy()
    before = view.copy()
    ws.feed("x", draw(2, 8, 7, 6, seed=9))
    ws.run_net("n")
    assert not np.array_equal(ws.fetch("y"), before)
    np.testing.assert_array_equal(view, before)


def test_what_declared_outputs_hold_is_whole() -> None:
    """A blob of the workspace never lies narrow after a plan ran: whoever has a view, or forks, reads float32."""
    ws = Workspace()
    feed_convolutions(ws)
    ws.create_net(plan(convolutions(), outputs=["y"], keep=["r1"]))
    ws.run_net("n")
    for name in ("r1", "y"):
        blob = ws.get_blob(name)
        assert blob is not None
        assert not isinstance(blob.tensor().layout, Opaque)


def test_a_copy_that_is_kept_for_the_epilogue() -> None:
    """What is overwritten and read twice lies narrow as well, and so does its copy."""
    given = [draw(2, 8, 7, 6), draw(8, 8, 3, 3, seed=1), draw(8, seed=2), draw(2, 8, 7, 6, seed=3)]
    definition = operator_def(
        "FusedConv", ["X", "W", "b", "S"], ["S"], kernel=3, pad=1, operands=1, epilogue="max(y + s0, s0)"
    )
    (got,), _ = run(definition, [one.copy() for one in given], "onednn")
    (wanted,), _ = run(definition, given, "reference")
    close(got, wanted)


def test_what_the_library_says_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    has = processor().has("avx512_bf16") or processor().has("amx_bf16")
    if "ONEDNN_MAX_CPU_ISA" not in os.environ:
        assert narrow.multiplies("bf16") is has
    assert not narrow.multiplies("f16")


def test_a_forked_child_reads_a_narrow_blob(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where oneDNN cannot run any more, NumPy looks at the elements."""
    ws = Workspace()
    feed_convolutions(ws)
    net = plan(convolutions())
    net.type = "simple"
    ws.create_net(net)
    ws.run_net("n")
    expected = ws.fetch("r1")
    monkeypatch.setattr(copy, "threads_lost", lambda: "it was forked")
    monkeypatch.setattr(copy, "reorder", None)
    np.testing.assert_array_equal(ws.fetch("r1"), expected)
