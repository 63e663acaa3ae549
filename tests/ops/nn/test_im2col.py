"""Im2Col and Col2Im: against loops over windows, and each against the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Windows:
    """Kernel, stride and dilation of two dimensions, and the padding around."""

    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pad: int = 0

    def out(self, image: tuple[int, ...]) -> tuple[int, ...]:
        """Return how many windows there are in each dimension."""
        both = zip(image, self.kernel, self.stride, self.dilation, strict=True)
        return tuple((n + 2 * self.pad - d * (k - 1) - 1) // s + 1 for n, k, s, d in both)

    def columns(self, X: Array) -> Array:
        """Return (N, C, kH, kW, oH, oW) of X (N, C, H, W), element by element."""
        H, W = X.shape[2:]
        Y = np.zeros((*X.shape[:2], *self.kernel, *self.out((H, W))))
        for i, j, p, q in np.ndindex(*Y.shape[2:]):
            y = p * self.stride[0] + i * self.dilation[0] - self.pad
            x = q * self.stride[1] + j * self.dilation[1] - self.pad
            if 0 <= y < H and 0 <= x < W:
                Y[:, :, i, j, p, q] = X[:, :, y, x]
        return Y

    def nchw(self, X: Array) -> Array:
        """Return Im2Col."""
        Y = self.columns(X)
        return Y.reshape(len(X), -1, *Y.shape[4:])

    def nhwc(self, X: Array) -> Array:
        """Return Im2Col with the channels last."""
        Y = self.columns(np.moveaxis(X, -1, 1)).transpose(0, 4, 5, 2, 3, 1)
        return Y.reshape(*Y.shape[:3], -1)


CASES = [
    Case("Im2Col", [values(2, 3, 6, 5)], Windows((3, 2)).nchw, {"kernel_h": 3, "kernel_w": 2}, batched=(0,)),
    Case(
        "Im2Col",
        [values(2, 3, 8, 7)],
        Windows((2, 2), (3, 2), (1, 2), 1).nchw,
        {"kernel": 2, "stride": 2, "stride_h": 3, "dilation_w": 2, "pad": 1},
        id="everything",
    ),
    Case(
        "Im2Col",
        [values(2, 6, 5, 3)],
        Windows((3, 2), (2, 1), (1, 1), 2).nhwc,
        {"kernel": 2, "kernel_h": 3, "stride_h": 2, "pad": 2, "order": "nhwc"},
        batched=(0,),
        id="nhwc",
    ),
    Case("Im2Col", [values(1, 2, 2, 3)], Windows((3, 3), pad=1).nchw, {"kernel": 3, "pad": 1}, id="small image"),
]


@on_all_engines(CASES)
def test_im2col(case: Case, engine: str) -> None:
    check_op(case, engine)


@given(
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(3, 7), st.integers(3, 7)),
    st.fixed_dictionaries(
        {
            "kernel_h": st.integers(1, 3),
            "kernel_w": st.integers(1, 3),
            "stride_h": st.integers(1, 3),
            "stride_w": st.integers(1, 3),
            "pad": st.integers(0, 2),
            "order": st.sampled_from(["NCHW", "NHWC"]),
        }
    ),
)
def test_col2im_is_the_transposed_of_im2col(shape: tuple[int, ...], args: dict[str, Any]) -> None:
    """<Im2Col(X), Z> = <X, Col2Im(Z)> for all X and Z."""
    N, C, H, W = shape
    X = values(N, C, H, W) if args["order"] == "NCHW" else values(N, H, W, C)
    Y = run_op("Im2Col", X, **args)
    Z = values(*Y.shape)
    image = run_op("Col2Im", Z, X, **args)
    assert image.shape == X.shape
    np.testing.assert_allclose(np.sum(Y * Z), np.sum(X * image), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_col2im_takes_columns_of_any_shape(order: str) -> None:
    """What counts is how many elements there are, and of X only the shape, whatever its dtype."""
    X = values(2, 4, 3, 5)
    Y = run_op("Im2Col", X, kernel=2, order=order)
    flat = run_op("Col2Im", Y.reshape(-1), X.astype(np.int32), kernel=2, order=order)
    np.testing.assert_array_equal(flat, run_op("Col2Im", Y, X, kernel=2, order=order))


def test_gradient_of_col2im() -> None:
    op = find_schema("Col2Im").view(operator_def("Col2Im", ["y", "x"], ["z"], kernel=2))
    emitted, gradients = gradient_for_op(op, ["dz"])
    assert [(step.type, list(step.input), list(step.output)) for step in emitted] == [("Im2Col", ["dz"], ["y_grad"])]
    assert gradients == ["y_grad", None]


IMAGE = values(2, 3, 4, 5)

REFUSED: list[tuple[str, list[Array], dict[str, Any], type[TazzaError], str]] = [
    ("Im2Col", [IMAGE], {}, ArgumentError, "no kernel size"),
    ("Im2Col", [IMAGE], {"kernel_h": 2}, ArgumentError, "no kernel size"),
    ("Im2Col", [IMAGE], {"kernels": [2, 2]}, ArgumentError, "no argument 'kernels'"),
    ("Im2Col", [IMAGE], {"kernel": 2, "stride": 0}, ArgumentError, "'stride' = 0 is below its minimum 1"),
    ("Im2Col", [IMAGE], {"kernel": 2, "pad": -1}, ArgumentError, "'pad' = -1 is below its minimum 0"),
    ("Im2Col", [IMAGE[0]], {"kernel": 2}, ShapeError, r"X has 3 dimensions \(3, 4, 5\), it must have 4"),
    (
        "Im2Col",
        [IMAGE],
        {"kernel": 5},
        ShapeError,
        r"covers 5 elements of dimension 0",
    ),
    ("Col2Im", [IMAGE, IMAGE], {"kernel": 2}, ShapeError, r"Y has 120 elements \(2, 3, 4, 5\), .* gives 288"),
    ("Col2Im", [IMAGE, IMAGE[0]], {"kernel": 2}, ShapeError, "X has 3 dimensions"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
