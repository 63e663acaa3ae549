"""Convolutions and their gradients on `native/winograd` against the reference, for tiles of every size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.block import Slot
from tazza.device import current_context
from tazza.engines.native.winograd.algorithm import FORMS, algorithm
from tazza.engines.native.winograd.code import Code
from tazza.engines.native.winograd.conv import ENABLED, launch
from tazza.engines.native.winograd.filters import Filters
from tazza.engines.native.winograd.tiling import Problem, Tiling, best_tiling
from tazza.engines.native.winograd.writer import GAP
from tazza.errors import UnsupportedError
from tazza.operator import choose_kernel, find_schema, operator_def, rank_engines
from tazza.operator.engine import why_unavailable
from tazza.operator.reorder import bind_reorder, relayout
from tazza.operator.run import run_op
from tazza.runtime.native_code import Processor, processor
from tazza.tensor import DataType, Opaque, Storage, Tensor, TensorSpec
from tests.check import assert_ran, check_engine
from tests.check import run as run_checked
from tests.launching import call_alone

Array = NDArray[Any]

pytestmark = pytest.mark.skipif(
    why_unavailable("Conv", "cpu", "native/winograd") is not None, reason="nothing can be compiled here"
)

SHAPES = [
    # N, C, H, W, K, r, pads
    pytest.param(2, 3, 7, 9, 5, 3, (1, 1, 1, 1), id="small"),
    pytest.param(3, 33, 15, 14, 70, 3, (1, 0, 2, 1), id="odd channels, uneven pads"),
    pytest.param(5, 20, 12, 13, 50, 5, (0, 0, 0, 0), id="LeNet"),
    pytest.param(1, 17, 2, 3, 35, 5, (3, 2, 3, 4), id="image smaller than the filter"),
]
TOLERANCE = 2e-5
"""Of the largest output; the direct algorithm's is near 2e-6."""


def _arrays(N: int, C: int, H: int, W: int, K: int, r: int) -> tuple[Array, Array, Array]:
    random = np.random.default_rng(7)
    shapes = ((N, C, H, W), (K, C, r, r), (K,))
    X, weights, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    return X, weights, b


def _assert_close(actual: Array, expected: Array) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * float(np.abs(expected).max()))


@pytest.mark.slow
@pytest.mark.parametrize(("N", "C", "H", "W", "K", "r", "pads"), SHAPES)
def test_forward(N: int, C: int, H: int, W: int, K: int, r: int, pads: tuple[int, ...]) -> None:
    X, weights, b = _arrays(N, C, H, W, K, r)
    args: dict[str, Any] = {"kernel": r, "pads": list(pads)}
    definition = operator_def("Conv", ["X", "W", "b"], ["Y"], **args)
    (Y,), operator = run_checked(definition, [X, weights, b], "native/winograd")
    assert_ran(operator, "native/winograd")
    expected = run_op("Conv", X, weights, b, engine="reference", **args)
    _assert_close(Y, expected)
    last = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in (X, weights)]
    again = run_op("Conv", *last, b, engine="native/winograd", order="NHWC", **args)
    np.testing.assert_array_equal(again.transpose(0, 3, 1, 2), Y)


@pytest.mark.slow
@pytest.mark.parametrize(("N", "C", "H", "W", "K", "r", "pads"), SHAPES)
@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_gradient(order: str, N: int, C: int, H: int, W: int, K: int, r: int, pads: tuple[int, ...]) -> None:
    image, weights, b = _arrays(N, C, H, W, K, r)
    args: dict[str, Any] = {"kernel": r, "pads": list(pads), "order": order}
    axes = (0, 2, 3, 1) if order == "NHWC" else (0, 1, 2, 3)
    X, weights = (np.ascontiguousarray(x.transpose(axes)) for x in (image, weights))
    Y: Array = run_op("Conv", X, weights, b, engine="reference", **args)
    dY: Array = np.random.default_rng(8).standard_normal(Y.shape).astype(np.float32)
    definition = operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "db", "dX"], **args)
    found, operator = run_checked(definition, [X, weights, dY], "native/winograd")
    assert_ran(operator, "native/winograd")
    expected = run_op("ConvGradient", X, weights, dY, engine="reference", outputs=3, **args)
    for actual, right in zip(found, expected, strict=True):
        _assert_close(actual, right)


def test_bias_that_is_every_second_number_of_something() -> None:
    X, weights, b = _arrays(2, 16, 9, 11, 40, 3)
    wide = np.full(80, np.nan, np.float32)
    wide[::2] = b
    definition = operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=3)
    (Y,), operator = run_checked(
        definition, [X, weights, Tensor.from_numpy(wide).view((40,), strides=(2,))], "native/winograd"
    )
    assert_ran(operator, "native/winograd")
    _assert_close(Y, run_op("Conv", X, weights, b, engine="reference", kernel=3))


@pytest.mark.slow
def test_epilogue() -> None:
    X, weights, b = _arrays(2, 16, 9, 11, 40, 3)
    S = np.random.default_rng(9).standard_normal((2, 40, 9, 11)).astype(np.float32)
    args: dict[str, Any] = {"kernel": 3, "pad": 1, "operands": 1, "epilogue": "max(y + s0 * 0.5, 0)"}
    expected = run_op("FusedConv", X, weights, b, S, engine="reference", **args)
    definition = operator_def("FusedConv", ["X", "W", "b", "S"], ["Y"], **args)
    (Y,), operator = run_checked(definition, [X, weights, b, S], "native/winograd")
    assert_ran(operator, "native/winograd")
    _assert_close(Y, expected)


def test_epilogue_over_an_operand_that_is_overwritten() -> None:
    """With dense channels it is; otherwise another engine does it."""
    X, weights, b = _arrays(2, 16, 9, 11, 40, 3)
    S = np.random.default_rng(9).standard_normal((2, 40, 9, 11)).astype(np.float32)
    args: dict[str, Any] = {"kernel": 3, "pad": 1, "operands": 1, "epilogue": "max(y + s0 * 0.5, 0)"}
    expected = run_op("FusedConv", X, weights, b, S, engine="reference", **args)
    definition = operator_def("FusedConv", ["X", "W", "b", "S"], ["S"], **args)
    (Y,), operator = run_checked(definition, [X, weights, b, S.copy()], "native/winograd", refusable=True)
    told = check_engine(operator, "native/winograd", refusable=True)
    assert told is not None
    assert "not dense" in told
    _assert_close(Y, expected)
    images = [np.ascontiguousarray(x.transpose(0, 2, 3, 1)) for x in (X, weights, S)]
    last = operator_def("FusedConv", ["X", "W", "b", "S"], ["S"], order="NHWC", **args)
    (again,), operator = run_checked(last, [*images[:2], b, images[2]], "native/winograd")
    assert_ran(operator, "native/winograd")
    _assert_close(again.transpose(0, 3, 1, 2), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("m", "r"), FORMS)
@pytest.mark.parametrize(("rows", "block_rows", "slices", "threads"), [(8, 1, 2, 2), (8, 3, 1, 2), (6, 2, 1, 1)])
def test_every_cut_gives_the_same_bits(m: int, r: int, rows: int, block_rows: int, slices: int, threads: int) -> None:
    """However tiles and channels are dealt out among blocks, slices and threads."""
    X, weights, b = _arrays(2, 18, 13, 11, 70, r)
    problem = Problem(2, 18, 70, r, (13, 11), (16 - r, 14 - r), (1, 1))
    results: list[Array] = []
    for tiling in (
        Tiling(problem, algorithm(m, r), rows, block_rows, slices, threads),
        Tiling(problem, algorithm(m, r), rows, 1, 1, 1),
    ):
        code = Code(tiling.algorithm, rows, bias=True, epilogue=None, operands=0)
        image, Y = Tensor((2, 13, 11, 18)), Tensor((2, *problem.out, 70))
        Y.reserve()
        image.assign(np.ascontiguousarray(X.transpose(0, 2, 3, 1)))
        U = _transformed(weights, m, r)
        bias = Tensor((70,))
        bias.assign(b)
        made = launch(tiling, code, image.spec, Y.spec, True, {"U": Slot("W")})
        call_alone(made, {"X": image, "W": U, "b": bias, "Y": Y})
        results.append(Y.array.copy())
    np.testing.assert_array_equal(results[0], results[1])
    args: dict[str, Any] = {"kernel": r, "pad": 1}
    _assert_close(results[0].transpose(0, 3, 1, 2), run_op("Conv", X, weights, b, engine="reference", **args))


def _transformed(weights: Array, m: int, r: int) -> Tensor:
    source = Tensor(weights.shape)
    source.assign(weights)
    layout = Filters(m, r, weights.shape[1], weights.shape[0], last=False).layout()
    target = Tensor.over(Storage(source.place), 0, TensorSpec(weights.shape, source.dtype, layout=layout))
    target.reserve()
    bind_reorder(source, target, current_context(source.place))()
    return target


@pytest.mark.slow
@pytest.mark.parametrize("m", [m for m, r in FORMS if r == 3])
def test_many_channels(m: int) -> None:
    """The error grows with the square root of their number; see docs/differences.md."""
    X, weights, _ = _arrays(1, 512, 14, 14, 32, 3)
    padded = np.pad(X[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    taps = [(y, x) for y in range(3) for x in range(3)]
    expected = np.sum([np.tensordot(weights[:, :, y, x], padded[:, y : y + 14, x : x + 14], 1) for y, x in taps], 0)
    tiling = best_tiling(Problem(1, 512, 32, 3, (14, 14), (14, 14), (1, 1)), 2, m)
    image, Y = Tensor((1, 14, 14, 512)), Tensor((1, 14, 14, 32))
    Y.reserve()
    image.assign(np.ascontiguousarray(X.transpose(0, 2, 3, 1)))
    code = Code(tiling.algorithm, tiling.rows, bias=False, epilogue=None, operands=0)
    made = launch(tiling, code, image.spec, Y.spec, True, {"U": Slot("W"), "b": 0})
    call_alone(made, {"X": image, "W": _transformed(weights, m, 3), "Y": Y})
    error = np.abs(Y.array[0].transpose(2, 0, 1) - expected).max() / np.abs(expected).max()
    assert error < (3e-5 if m > 2 else 3e-6)


def test_transformed_filters_are_copies_only() -> None:
    found = _transformed(_arrays(1, 3, 5, 5, 7, 3)[1], 2, 3)
    with pytest.raises(UnsupportedError, match="transformed for Winograd's algorithm"):
        found.plain()


def test_refusals_are_told() -> None:
    X, weights, b = _arrays(1, 4, 9, 9, 6, 3)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"kernel": 3, "stride": 2}, "stride 1"),
        ({"kernel": 3, "dilation": 2}, "dilation 1"),
    ]
    for args, reason in cases:
        definition = operator_def("Conv", ["X", "W", "b"], ["Y"], **args)
        _, operator = run_checked(definition, [X, weights, b], "native/winograd", refusable=True)
        told = check_engine(operator, "native/winograd", refusable=True)
        assert told is not None
        assert reason in told


@pytest.mark.parametrize(
    ("image", "filters", "wins"), [((64, 1, 28, 28), (20, 1, 5, 5), False), ((4, 64, 56, 56), (64, 64, 3, 3), True)]
)
def test_it_is_taken_where_its_estimate_is_the_least(
    image: tuple[int, ...], filters: tuple[int, ...], wins: bool
) -> None:
    X, W = (np.zeros(shape, np.float32) for shape in (image, filters))
    definition = operator_def("Conv", ["X", "W"], ["Y"], kernel=filters[-1])
    _, operator = run_checked(definition, [X, W])
    *others, taken = operator.choices
    assert (taken.engine == "native/winograd") is wins
    offered = [one for one in others if one.estimate_ns is not None]
    assert offered, "who is not taken tells what it would take as well"
    assert taken.estimate_ns == min(one.estimate_ns for one in (*offered, taken) if one.estimate_ns is not None)
    assert all(str(one.reason).startswith("could, about") for one in offered)


@pytest.mark.slow
def test_a_flag_keeps_it_out() -> None:
    X, weights, b = _arrays(4, 64, 28, 28, 64, 3)
    definition = operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=3)
    _, operator = run_checked(definition, [X, weights, b])
    assert operator.choices[-1].engine == "native/winograd"
    with ENABLED.override(False):
        _, operator = run_checked(definition, [X, weights, b])
    assert {choice.engine: choice.reason for choice in operator.choices}[
        "native/winograd"
    ] == "the flag winograd is off"


@pytest.mark.parametrize("engines", ["native/winograd", "nowhere, native/winograd"])
def test_whoever_names_it_gets_it(engines: str) -> None:
    """Three channels are not worth it, by the model."""
    X, weights, b = _arrays(1, 3, 9, 9, 6, 3)
    _, operator = run_checked(operator_def("Conv", ["X", "W", "b"], ["Y"], kernel=3, engine=engines), [X, weights, b])
    assert operator.choices[-1].engine == "native/winograd"


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_narrower_vectors(vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones; forward, dX and dW."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    narrow = Processor(processor().name, "+avx2" if vector_bytes == 32 else "")
    monkeypatch.setattr(kernel, "processor", lambda: narrow)
    test_forward(3, 33, 15, 14, 70, 3, (1, 0, 2, 1))
    test_gradient("NCHW", 3, 33, 15, 14, 70, 3, (1, 0, 2, 1))


def test_filters_that_lie_in_another_engines_layout() -> None:
    """They are made plain on the way: two nets may share weights that the first has laid out its way."""
    weights = _arrays(1, 32, 5, 5, 48, 3)[1]
    expected = _transformed(weights, 2, 3)
    source = Tensor(weights.shape)
    source.assign(weights)
    context = current_context(source.place)
    blocked = _blocked_layout()
    if blocked is None:
        pytest.skip("oneDNN is not available, or keeps such filters strided")
    relayout(source, blocked, context)
    target = Tensor.over(Storage(source.place), 0, expected.spec)
    target.reserve()
    bind_reorder(source, target, context)()
    size = (expected.spec.layout.span_bytes(expected.shape, 4) // 4,)
    found, right = (one.storage.window(one.dtype, size, 0, None).reshape(16, -1) for one in (target, expected))
    np.testing.assert_array_equal(found[:, :-GAP], right[:, :-GAP])


def _blocked_layout() -> Opaque | None:
    if why_unavailable("Conv", "cpu", "onednn") is not None:
        return None
    op = find_schema("Conv").view(operator_def("Conv", ["X", "W"], ["Y"], kernel=3))
    specs = [TensorSpec(dims, DataType.FLOAT) for dims in ((1, 32, 9, 9), (48, 32, 3, 3), (1, 48, 7, 7))]
    ranking = [one for one in rank_engines("Conv", "cpu", "") if one.engine == "onednn"]
    chosen = choose_kernel(op, ranking, current_context(specs[0].place), specs[:2], specs[2:])
    layout = chosen.layouts["W"]
    return layout if isinstance(layout, Opaque) else None
