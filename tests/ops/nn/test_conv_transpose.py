"""ConvTranspose: against a plain loop over the places of X, against the convolution that it transposes; refusals."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tazza.workspace import Workspace
from tests.check import Case, assert_close, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def spread(
    *, pads: Sequence[int] | None = None, strides: Sequence[int] | None = None, adj: Sequence[int] = (), group: int = 1
) -> Any:
    """Return a transposed convolution as the definition says it: each element of X adds a kernel to Y, in float64."""

    def function(X: Array, W: Array, b: Array | None = None) -> Array:
        D, (C, of_group) = X.ndim - 2, W.shape[:2]
        step = [1] * D if strides is None else strides
        around = [0] * (2 * D) if pads is None else pads
        more = adj or [0] * D
        sizes = [(n - 1) * s + k + a for n, s, k, a in zip(X.shape[2:], step, W.shape[2:], more, strict=True)]
        Y = np.zeros((X.shape[0], of_group * group, *sizes))
        for c, m, place in product(range(C), range(of_group), np.ndindex(*X.shape[2:])):
            where = tuple(slice(p * s, p * s + k) for p, s, k in zip(place, step, W.shape[2:], strict=True))
            one = X[(slice(None), c, *place)].astype(np.float64).reshape(-1, *[1] * D)
            Y[(slice(None), c // (C // group) * of_group + m, *where)] += one * W[c, m]
        inner = tuple(slice(h, n - t) for h, n, t in zip(around[:D], sizes, around[D:], strict=True))
        return Y[(..., *inner)] + (0 if b is None else b.reshape(-1, *[1] * D))

    return function


def channels_last(function: Any) -> Any:
    """Return the same for blobs whose channels stand last."""

    def moved(X: Array, W: Array, *b: Array) -> Array:
        return np.moveaxis(function(np.moveaxis(X, -1, 1), np.moveaxis(W, -1, 1), *b), 1, -1)

    return moved


CASES = [
    Case(
        "ConvTranspose",
        [values(2, 3, 5, 4), values(3, 6, 3, 2), values(6)],
        spread(),
        {"kernels": [3, 2]},
        batched=(0,),
    ),
    Case(
        "ConvTranspose",
        [values(2, 4, 5, 3), values(4, 3, 3, 2), values(6)],
        spread(pads=[1, 0, 2, 1], strides=[2, 3], adj=[1, 2], group=2),
        {"kernel_h": 3, "kernel_w": 2, "stride_h": 2, "stride_w": 3, "adj_h": 1, "adj_w": 2, "group": 2}
        | {"pad_t": 1, "pad_l": 0, "pad_b": 2, "pad_r": 1},
        id="everything",
    ),
    Case(
        "ConvTranspose",
        [values(2, 3, 5, 4), values(3, 6, 4, 4)],
        spread(pads=[1] * 4, strides=[2, 2]),
        {"kernel": 4, "stride": 2, "pad": 1},
        batched=(0,),
        id="doubling",
    ),
    Case(
        "ConvTranspose",
        [values(2, 3, 4, 5), values(3, 2, 2, 2), values(2)],
        spread(strides=[2, 2], adj=[2, 2]),
        {"kernel": 2, "stride": 2, "adj": 2},
        id="adj as large as the stride",
    ),
    Case(
        "ConvTranspose",
        [values(2, 3, 4, 5), values(3, 2, 1, 1), values(2)],
        spread(strides=[3, 2], adj=[2, 1]),
        {"kernel": 1, "strides": [3, 2], "adjs": [2, 1]},
        id="gaps",
    ),
    Case(
        "ConvTranspose",
        [values(2, 5, 3, 4), values(4, 3, 2, 3), values(6)],
        channels_last(spread(pads=[1, 0, 0, 1], strides=[2, 1], group=2)),
        {"kernels": [3, 2], "strides": [2, 1], "pads": [1, 0, 0, 1], "group": 2, "order": "NHWC"},
        batched=(0,),
        id="nhwc",
    ),
    Case(
        "ConvTranspose",
        [values(2, 6, 5, 4), values(6, 1, 3, 3)],
        spread(group=6),
        {"kernel": 3, "group": 6, "legacy_pad": 2},
        id="depthwise",
    ),
    Case(
        "ConvTranspose",
        [values(2, 3, 6), values(3, 5, 3), values(5)],
        spread(pads=[1, 2], strides=[2]),
        {"kernels": [3], "pads": [1, 2], "strides": [2]},
        id="one dimension",
    ),
    Case(
        "ConvTranspose",
        [values(2, 3, 3, 2, 4), values(3, 4, 2, 3, 2), values(4)],
        spread(pads=[1, 0, 0, 0, 1, 1], strides=[1, 1, 2]),
        {"kernels": [2, 3, 2], "pads": [1, 0, 0, 0, 1, 1], "strides": [1, 1, 2]},
        slack=4,
        id="three dimensions",
    ),
]


@on_all_engines(CASES)
def test_conv_transpose(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_it_is_what_a_convolution_does_backward() -> None:
    """The dX of one with the same arguments; W (M, C/G, k...) there is W (C, M/G, k...) here."""
    args: dict[str, Any] = {"kernels": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "group": 2}
    X, W, dY = values(2, 4, 7, 5), values(6, 2, 3, 2), values(2, 6, 4, 5)
    dX = run_op("ConvGradient", X, W, dY, no_bias=1, outputs=2, engine="reference", **args)[1]
    assert_close(run_op("ConvTranspose", dY, W, **args), dX)


def gradient_by_place(X: Array, W: Array, dY: Array) -> dict[str, Array]:
    """Return the gradients without pads and strides: each element of X sees one window of dY."""
    dW, dX = np.zeros(W.shape), np.zeros(X.shape)
    for n, c, *place in np.ndindex(X.shape):
        where = (n, slice(None), *(slice(p, p + k) for p, k in zip(place, W.shape[2:], strict=True)))
        dW[c] += X[(n, c, *place)] * dY[where].astype(np.float64)
        dX[(n, c, *place)] = (W[c] * dY[where].astype(np.float64)).sum()
    return {"dW": dW, "db": dY.astype(np.float64).sum((0, 2, 3)), "dX": dX}


FORMS: list[tuple[dict[str, Any], str]] = [
    ({}, "dW db dX"),
    ({"no_bias": 1}, "dW dX"),
    ({"no_gradient_to_input": 1}, "dW db"),
    ({"no_bias": 1, "no_gradient_to_input": 1}, "dW"),
]


@pytest.mark.parametrize("engine", engines_of("ConvTransposeGradient"))
@pytest.mark.parametrize(("args", "letters"), FORMS)
def test_forms_of_the_gradient(args: dict[str, Any], letters: str, engine: str) -> None:
    X, W, dY = values(2, 3, 4, 5), values(3, 4, 3, 2), values(2, 4, 6, 6)
    wanted = gradient_by_place(X, W, dY)
    definition = operator_def("ConvTransposeGradient", ["X", "W", "dY"], letters.split(), kernels=[3, 2], **args)
    results, _ = run(definition, [X, W, dY], engine)
    for letter, result in zip(letters.split(), results, strict=True):
        assert_close(result, wanted[letter])


@pytest.mark.parametrize(
    ("inputs", "args", "outputs", "names"),
    [
        ("x w b", {}, "w_grad b_grad x_grad", ["kernel"]),
        ("x w", {}, "w_grad x_grad", ["no_bias", "kernel"]),
        ("x w b", {"no_gradient_to_input": 1}, "w_grad b_grad", ["kernel", "no_gradient_to_input"]),
    ],
)
def test_emitted_gradients(inputs: str, args: dict[str, Any], outputs: str, names: list[str]) -> None:
    emitted, _ = backward_pass(
        [operator_def("ConvTranspose", inputs.split(), ["y"], kernel=3, **args)], {"y": "y_grad"}
    )
    assert (list(emitted[0].output), [a.name for a in emitted[0].arg]) == (outputs.split(), names)


X4, W4, b4 = values(2, 4, 5, 3), values(4, 3, 2, 2), values(3)

REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X4, W4, b4], {"kernel": 3}, ShapeError, r"W has the kernel size \(2, 2\), the arguments say \(3, 3\)"),
    ([X4[:, :3], W4, b4], {"kernel": 2}, ShapeError, "X has 3 channels, W takes 4"),
    ([X4, W4, b4], {"kernel": 2, "group": 3}, ShapeError, "4 input channels do not divide into 3 groups"),
    ([X4, W4, b4], {"kernel": 2, "group": 2}, ShapeError, r"b has the shape \(3\), W and group give 6 output channels"),
    ([X4[0], W4, b4], {"kernel": 2}, ShapeError, r"X has 3 dimensions \(4, 5, 3\), a kernel of 2 needs 4"),
    (
        [X4, W4, b4],
        {"kernel": 2, "pad": 3},
        ShapeError,
        "dimension 1 has 3 elements, whose windows cover 4; pads 3 and 3",
    ),
    ([X4[:, :, :0], W4, b4], {"kernel": 2}, ShapeError, "dimension 0 of X has no elements"),
    ([X4, W4, b4], {"kernel": 2, "pads": [-1, 0, 0, 0]}, ArgumentError, r"pads \[-1, 0, 0, 0\] cannot be negative"),
    ([X4, W4, b4], {"kernel": 2, "adj": -1}, ArgumentError, "'adj' = -1 is below its minimum 0"),
    ([X4, W4, b4], {"kernel": 2, "adjs": [1]}, ArgumentError, "adjs has 1 elements"),
    ([X4, W4, b4], {"kernel": 2, "adj_h": 1}, ArgumentError, "without effect here: 'adj_h'"),
    ([X4, W4, b4], {"kernel": 2, "dilation": 2}, ArgumentError, "without effect here: 'dilation'"),
    ([X4, W4, b4], {"kernel": 2, "legacy_pad": 3}, ArgumentError, "legacy_pad = CAFFE_LEGACY_POOLING is for pooling"),
    ([X4, W4, b4], {"kernel": 2, "legacy_pad": 1, "pad": 1}, ArgumentError, "legacy_pad = VALID makes its own pads"),
    ([X4, W4, b4], {}, ArgumentError, "no kernel size"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("ConvTranspose", *inputs, **args)


def test_the_gradient_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"dY has the shape \(2, 3, 5, 4\), Y has \(2, 3, 6, 4\)"):
        run_op("ConvTransposeGradient", X4, W4, values(2, 3, 5, 4), kernel=2, outputs=3)


def test_dilation_has_no_effect_in_loaded_nets(caplog: pytest.LogCaptureFixture) -> None:
    """As in Caffe2, which ignores it; tazza says so, and its own builder refuses it."""
    ws = Workspace()
    ws.feed("x", X4)
    ws.feed("w", W4)
    with caplog.at_level("WARNING", logger="tazza"):
        ws.run_operator(operator_def("ConvTranspose", ["x", "w"], ["y"], kernel=2, dilation=2))
    assert "dilation" in caplog.text
    assert_close(ws.fetch("y"), run_op("ConvTranspose", X4, W4, kernel=2))
