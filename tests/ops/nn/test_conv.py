"""Convolutions: against a plain loop over windows, on every engine; and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import OpView, gradient_for_op, operator_def, run_op
from tazza.proto import OperatorDef
from tazza.testing import gradient
from tazza.workspace import Workspace
from tests.check import Case, assert_close, check_gradient, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def convolve(
    *,
    pads: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
    group: int = 1,
) -> Any:
    """Return a convolution as the definition says it: one sum for each output element, in float64.

    Lists left out are 0 for pads and 1 for strides and dilations.
    """

    def function(X: Array, W: Array, b: Array | None = None) -> Array:
        D = X.ndim - 2
        before_after = [0] * (2 * D) if pads is None else pads
        step = [1] * D if strides is None else strides
        spread = [1] * D if dilations is None else dilations
        around = zip(before_after[:D], before_after[D:], strict=True)
        x = np.pad(X.astype(np.float64), [(0, 0), (0, 0), *around])
        kernel, M, Cg = W.shape[2:], W.shape[0], W.shape[1]
        cover = [d * (k - 1) + 1 for k, d in zip(kernel, spread, strict=True)]
        out = [(n - c) // s + 1 for n, c, s in zip(x.shape[2:], cover, step, strict=True)]
        Y = np.zeros((X.shape[0], M, *out))
        for m, place in product(range(M), np.ndindex(*out)):
            first = m // (M // group) * Cg
            where = [slice(p * s, p * s + c, d) for p, s, c, d in zip(place, step, cover, spread, strict=True)]
            Y[(slice(None), m, *place)] = (x[(slice(None), slice(first, first + Cg), *where)] * W[m]).sum(
                axis=tuple(range(1, D + 2))
            )
        return Y if b is None else Y + b.reshape(-1, *[1] * D)

    return function


def channels_last(function: Any) -> Any:
    """Return the same convolution for blobs whose channels stand last."""

    def moved(X: Array, W: Array, *b: Array) -> Array:
        return np.moveaxis(function(np.moveaxis(X, -1, 1), np.moveaxis(W, -1, 1), *b), 1, -1)

    return moved


CASES = [
    Case(
        "Conv",
        [values(2, 3, 7, 6), values(5, 3, 3, 2), values(5)],
        convolve(),
        {"kernels": [3, 2]},
        batched=(0,),
    ),
    Case(
        "Conv",
        [values(2, 4, 9, 8), values(6, 2, 3, 2), values(6)],
        convolve(pads=[1, 0, 2, 3], strides=[2, 3], dilations=[2, 1], group=2),
        {"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 3, "dilations": [2, 1], "group": 2}
        | {"pad_t": 1, "pad_l": 0, "pad_b": 2, "pad_r": 3},
        id="everything",
    ),
    Case(
        "Conv",
        [values(3, 4, 5, 7), values(6, 4, 1, 1), values(6)],
        convolve(),
        {"kernel": 1},
        batched=(0,),
        id="1x1",
    ),
    Case(
        "Conv",
        [values(3, 4, 5, 7), values(6, 2, 1, 1)],
        convolve(group=2),
        {"kernel": 1, "group": 2},
        id="1x1-groups",
    ),
    Case(
        "Conv",
        [values(2, 6, 5, 7), values(6, 1, 3, 3), values(6)],
        convolve(pads=[1] * 4, group=6),
        {"kernel": 3, "pad": 1, "group": 6},
        id="depthwise",
    ),
    Case(
        "Conv",
        [values(2, 7, 6, 4), values(6, 3, 2, 2), values(6)],
        channels_last(convolve(pads=[1] * 4, strides=[2, 2], group=2)),
        {"kernels": [3, 2], "pad": 1, "stride": 2, "group": 2, "order": "NHWC"},
        batched=(0,),
        id="nhwc",
    ),
    Case(
        "Conv",
        [values(2, 5, 7, 4), values(6, 1, 1, 4), values(6)],
        channels_last(convolve()),
        {"kernel": 1, "order": "nhwc"},
        id="nhwc-1x1",
    ),
    Case(
        "Conv1D",
        [values(2, 3, 8), values(5, 3, 3), values(5)],
        convolve(pads=[2, 1], strides=[2]),
        {"kernels": [3], "pads": [2, 1], "strides": [2]},
    ),
    Case("Conv2D", [values(1, 3, 7, 6), values(5, 3, 3, 2)], convolve(), {"kernels": [3, 2]}),
    Case(
        "Conv3D",
        [values(2, 3, 5, 4, 6), values(4, 3, 2, 3, 2), values(4)],
        convolve(pads=[1, 0, 1, 0, 1, 1], strides=[1, 1, 2], dilations=[1, 1, 2]),
        {"kernels": [2, 3, 2], "pads": [1, 0, 1, 0, 1, 1], "strides": [1, 1, 2], "dilations": [1, 1, 2]},
        slack=4,
    ),
    Case(
        "Conv",
        [values(2, 3, 7, 6), values(5, 3, 3, 3)],
        convolve(pads=[1, 0, 1, 1], strides=[2, 2]),
        {"kernel": 3, "stride": 2, "legacy_pad": 2},
        id="same",
    ),
]


@on_all_engines(CASES)
def test_conv(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_same_padding_may_be_negative() -> None:
    """A stride larger than the kernel skips elements; the head pad is (1 - 2) / 2, rounded to zero."""
    X = np.arange(6, dtype=np.float32).reshape(1, 1, 6)
    Y = run_op("Conv1D", X, np.ones((1, 1, 1), np.float32), kernels=[1], strides=[4], legacy_pad=2)
    np.testing.assert_array_equal(Y.ravel(), [0, 4])


X4, W4, b4 = values(2, 4, 7, 5), values(6, 4, 3, 3), values(6)

REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X4, W4, b4], {"kernel": 2}, ShapeError, r"W has the kernel size \(3, 3\), the arguments say \(2, 2\)"),
    ([X4[:, :3], W4, b4], {"kernel": 3}, ShapeError, r"X has 3 channels, W takes 4 in each of 1 groups"),
    ([X4, W4[:5, :2], b4[:5]], {"kernel": 3, "group": 2}, ShapeError, r"5 output channels do not divide into 2 groups"),
    ([X4, W4, b4[:5]], {"kernel": 3}, ShapeError, r"b has the shape \(5\), W has 6 output channels"),
    (
        [X4[:, :, :2], W4, b4],
        {"kernel": 3},
        ShapeError,
        r"the kernel covers 3 elements of dimension 0, the padded image has 2 \+ 0 \+ 0",
    ),
    ([X4[0], W4, b4], {"kernel": 3}, ShapeError, r"X has 3 dimensions \(4, 7, 5\), a kernel of 2 needs 4"),
    ([X4, W4[0], b4], {"kernel": 3}, ShapeError, r"W has 3 dimensions"),
    ([X4, W4, b4], {}, ArgumentError, "no kernel size"),
    ([X4, W4, b4], {"kernel": 3, "strides": [1]}, ArgumentError, "strides has 1 elements"),
    ([X4, W4, b4], {"kernel": 3, "legacy_pad": 1, "pad": 1}, ArgumentError, "legacy_pad = VALID makes its own pads"),
    ([X4, W4, b4], {"kernel": 3, "legacy_pad": 7}, ArgumentError, "'legacy_pad' = 7 is not one of"),
    ([X4, W4, b4], {"kernel": 3, "global_pooling": 1}, ArgumentError, "'global_pooling' = 1 is not one of 0"),
    ([X4, W4, b4], {"kernel": 3, "stride_h": 2}, ArgumentError, "without effect here: 'stride_h'"),
    ([X4, W4, b4], {"kernel": 0}, ArgumentError, "'kernel' = 0 is below its minimum 1"),
    ([X4, W4, b4], {"kernel": 3, "order": "CHWN"}, ArgumentError, "'order' = 'CHWN' is not one of"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Conv", *inputs, **args)


def gradient_by_place(X: Array, W: Array, dY: Array) -> dict[str, Array]:
    """Return the gradients without pads and strides: each element of dY adds a window of X to dW, and W to dX."""
    dW, dX = np.zeros(W.shape), np.zeros(X.shape)
    for n, m, *place in np.ndindex(dY.shape):
        where = (n, slice(None), *(slice(p, p + k) for p, k in zip(place, W.shape[2:], strict=True)))
        dW[m] += dY[(n, m, *place)] * X[where].astype(np.float64)
        dX[where] += dY[(n, m, *place)] * W[m].astype(np.float64)
    return {"dW": dW, "db": dY.astype(np.float64).sum((0, 2, 3)), "dX": dX}


FORMS: list[tuple[dict[str, Any], str]] = [
    ({}, "dW db dX"),
    ({"no_bias": 1}, "dW dX"),
    ({"no_gradient_to_input": 1}, "dW db"),
    ({"no_bias": 1, "no_gradient_to_input": 1}, "dW"),
]


@pytest.mark.parametrize("engine", engines_of("ConvGradient"))
@pytest.mark.parametrize(("args", "letters"), FORMS)
def test_forms_of_the_gradient(args: dict[str, Any], letters: str, engine: str) -> None:
    X, W, dY = values(2, 3, 6, 5), values(4, 3, 3, 2), values(2, 4, 4, 4)
    wanted = gradient_by_place(X, W, dY)
    definition = operator_def("ConvGradient", ["X", "W", "dY"], letters.split(), kernels=[3, 2], **args)
    results, _ = run(definition, [X, W, dY], engine)
    for letter, result in zip(letters.split(), results, strict=True):
        assert_close(result, wanted[letter])


@pytest.mark.parametrize(
    "case", [case for case in CASES if len(case.inputs) == 3], ids=lambda case: case.type + case.id
)
def test_a_wrong_gradient_of_the_bias_is_noticed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """One in a thousand too much, in one of three gradients: what the harness must see."""

    def wrong(op: OpView, given: Sequence[Any]) -> tuple[list[OperatorDef], list[Any]]:
        emitted, gradients = gradient_for_op(op, given)
        db = gradients[2]
        assert isinstance(db, str)
        return [*emitted, operator_def("Scale", [db], [db], scale=1.001)], gradients

    monkeypatch.setattr(gradient, "gradient_for_op", wrong)
    for engine in engines_of(case.type):
        with pytest.raises(AssertionError, match="gradient of input b"):
            check_gradient(case, engine)


SIZES = [
    ("Conv", (2, 3, 8), (4, 3, 3), {"kernel": 3}, None),
    ("Conv", (2, 3, 8), (4, 3, 3), {"kernels": [3]}, (2, 4, 6)),
    ("Conv1D", (2, 3, 8, 8), (4, 3, 3, 3), {"kernel": 3}, (2, 4, 6, 6)),
    ("Conv", (1, 1, 4, 6), (1, 1, 1, 1), {"kernels": [1, 1], "pads": [1, 0, 2, 0]}, (1, 1, 7, 6)),
    ("Conv", (2, 4, 5, 3), (6, 2, 2, 3), {"kernel": 2, "order": "nhwc"}, (2, 3, 4, 6)),
]


@pytest.mark.parametrize(("type", "x", "w", "args", "shape"), SIZES)
def test_kernel_stride_and_pad_arguments(
    type: str, x: tuple[int, ...], w: tuple[int, ...], args: dict[str, Any], shape: tuple[int, ...] | None
) -> None:
    """behaviours.md row 22: scalars mean two dimensions, the name of the operator does not fix the rank."""
    inputs = values(*x), values(*w), np.zeros(w[0], np.float32)
    if shape is None:
        with pytest.raises(RuntimeError):
            run_op(type, *inputs, **args)
    else:
        assert run_op(type, *inputs, **args).shape == shape


def test_half_pairs_have_no_effect_in_loaded_nets(caplog: pytest.LogCaptureFixture) -> None:
    """behaviours.md row 22: `stride_h` alone is ignored; tazza says so, and its own builder refuses it."""
    ws = Workspace()
    ws.feed("x", values(1, 1, 4, 6))
    ws.feed("w", values(1, 1, 1, 1))
    with caplog.at_level("WARNING", logger="tazza"):
        ws.run_operator(operator_def("Conv", ["x", "w"], ["y"], kernel=1, stride_h=2, pad_t=1))
    assert ws.fetch("y").shape == (1, 1, 4, 6)
    assert [name for name in ("stride_h", "pad_t") if name in caplog.text] == ["stride_h", "pad_t"]


@pytest.mark.parametrize(
    ("inputs", "args", "outputs", "names"),
    [
        ("x w b", {}, "w_grad b_grad x_grad", ["kernel"]),
        ("x w", {}, "w_grad x_grad", ["no_bias", "kernel"]),
        ("x w b", {"no_gradient_to_input": 1}, "w_grad b_grad", ["kernel", "no_gradient_to_input"]),
        ("x w", {"no_gradient_to_input": 1}, "w_grad", ["no_bias", "kernel", "no_gradient_to_input"]),
    ],
)
def test_emitted_gradients(inputs: str, args: dict[str, Any], outputs: str, names: list[str]) -> None:
    """behaviours.md row 28."""
    emitted, _ = backward_pass([operator_def("Conv", inputs.split(), ["y"], kernel=3, **args)], {"y": "y_grad"})
    assert (list(emitted[0].output), [a.name for a in emitted[0].arg]) == (outputs.split(), names)
