"""ResizeNearest, UpsampleBilinear: against a loop over the elements of Y; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import find_schema, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def nearest(sh: float, sw: float) -> Any:
    """Return a resizing that looks up one element after the other."""

    def function(X: Array, *_: Array) -> Array:
        H, W = X.shape[2:]
        Y = np.zeros((*X.shape[:2], int(H * sh), int(W * sw)), X.dtype)
        for i, j in np.ndindex(*Y.shape[2:]):
            Y[:, :, i, j] = X[:, :, min(int(i / sh), H - 1), min(int(j / sw), W - 1)]
        return Y

    return function


def bilinear(sh: float, sw: float) -> Any:
    """Return a resizing by NumPy's linear interpolation, along one axis after the other."""

    def along(axis: int, count: int, X: Array) -> Array:
        extent: int = X.shape[axis]
        at: Array = np.arange(extent)
        places: Array = np.linspace(0, extent - 1, count) if count > 1 else np.zeros(count)
        return np.apply_along_axis(lambda row: np.interp(places, at, row), axis, X)

    def function(X: Array, *_: Array) -> Array:
        return along(3, int(X.shape[3] * sw), along(2, int(X.shape[2] * sh), X.astype(np.float64)))

    return function


def args(sh: float, sw: float) -> dict[str, Any]:
    """Return the scales as arguments."""
    return {"height_scale": sh, "width_scale": sw}


X = values(2, 3, 5, 4)
LAST = np.moveaxis(X, 1, -1).copy()
SCALES = np.array([1.5, 2.25], "f")

CASES = [
    Case("ResizeNearest", [X], X, batched=(0,), id="as it is"),
    Case("ResizeNearest", [X], nearest(2.0, 3.0), args(2.0, 3.0), batched=(0,)),
    Case("ResizeNearest", [X], nearest(0.5, 1.75), args(0.5, 1.75), id="smaller and larger"),
    Case(
        "ResizeNearest",
        [X, SCALES],
        nearest(1.5, 2.25),
        args(7.0, 7.0),
        batched=(0,),
        id="input",
    ),
    Case(
        "ResizeNearest",
        [LAST],
        np.moveaxis(nearest(1.5, 2.25)(X), 1, -1),
        {**args(1.5, 2.25), "order": "NHWC"},
        batched=(0,),
        id="nhwc",
    ),
    Case("UpsampleBilinear", [X], X, batched=(0,), id="as it is"),
    Case("UpsampleBilinear", [X], bilinear(2.0, 3.0), args(2.0, 3.0), batched=(0,), slack=2),
    Case("UpsampleBilinear", [X], bilinear(0.5, 1.75), args(0.5, 1.75), slack=2, id="smaller and larger"),
    Case("UpsampleBilinear", [X], bilinear(0.2, 0.25), args(0.2, 0.25), id="to one element"),
    Case("UpsampleBilinear", [X[:, :, :1, :1]], bilinear(2.0, 3.0), args(2.0, 3.0), id="from one element"),
    Case("UpsampleBilinear", [X, SCALES], bilinear(1.5, 2.25), batched=(0,), slack=2, id="input"),
]


@on_all_engines(CASES)
def test_resize(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", ["ResizeNearest", "UpsampleBilinear"])
def test_nothing_is_left_of_an_image(type: str) -> None:
    assert run_op(type, X, width_scale=0.2).shape == (2, 3, 5, 0)
    assert run_op(f"{type}Gradient", np.zeros((2, 3, 5, 0), "f"), X, width_scale=0.2).any() == 0


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("ResizeNearest", [X[0]], {}, ShapeError, r"X has 3 dimensions \(3, 5, 4\), images have 4"),
    ("ResizeNearest", [X], {"width_scale": 0.0}, ArgumentError, "width_scale = 0.0 must be above 0"),
    ("UpsampleBilinear", [X], {"height_scale": -1.0}, ArgumentError, "height_scale = -1.0 must be above 0"),
    ("ResizeNearest", [X], {"width_scale": 2}, ArgumentError, "argument 'width_scale' wants float"),
    ("ResizeNearest", [X, SCALES - 1.5], {}, ShapeError, r"scales = \[0.0, 0.75\] must be above 0"),
    ("ResizeNearest", [X, values(3)], {}, ShapeError, "scales"),
    ("ResizeNearest", [X, SCALES.astype("d")], {}, DTypeError, "scales is float64, it must be float32"),
    ("UpsampleBilinear", [LAST], {"order": "NHWC"}, ArgumentError, "no argument 'order'"),
    ("ResizeNearestGradient", [X, X], {"width_scale": 2.0}, ShapeError, r"dY has the shape .*gives \(2, 3, 5, 8\)"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_unknown_dimensions() -> None:
    schema, nothing = find_schema("ResizeNearest"), TensorSpec(None, DataType.FLOAT)
    op = schema.view(operator_def("ResizeNearest", ["x"], ["y"], width_scale=2.0))
    partly = TensorSpec((None, 3, None, 4), DataType.FLOAT)
    assert schema.infer_specs(op, [partly]).specs == (TensorSpec((None, 3, None, 8), DataType.FLOAT),)
    assert schema.infer_specs(op, [nothing]).specs == (nothing,)
    op = schema.view(operator_def("ResizeNearest", ["x", "s"], ["y"]))
    found = schema.infer_specs(op, [partly, TensorSpec((2,), DataType.FLOAT)])
    assert (found.specs, found.reads) == ((TensorSpec((None, 3, None, None), DataType.FLOAT),), {"scales"})
