"""Bytes in another order or shape against NumPy; what means something else is rounded anew; and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.operator import run_op
from tazza.tensor import Int8Tensor, PerTensor
from tests.check import Case, check_op, on_all_engines
from tests.ops.quantized.numbers import octets, quantized, real, whole

Array = NDArray[Any]
OTHER = {"Y_scale": 0.075, "Y_zero_point": 90}
X, IMAGE = octets(2, 3, 4), octets(2, 3, 4, 6)


def moved(change: Callable[[Array], Array]) -> Callable[..., Int8Tensor]:
    """Return the same bytes in other places."""

    def function(x: Int8Tensor, *rest: Any) -> Int8Tensor:
        del rest
        return x._replace(data=change(x.data))

    return function


def anew(change: Callable[[Array], Array]) -> Callable[..., Int8Tensor]:
    """Return the same numbers in other places, as bytes of another meaning."""

    def function(x: Int8Tensor, *rest: Any) -> Int8Tensor:
        del rest
        return quantized(change(real(x)), OTHER["Y_scale"], 90)

    return function


def shuffled(x: Array) -> Array:
    """Return six channels, the last axis, in the order of three groups."""
    return x[..., [0, 2, 4, 1, 3, 5]]


def grown(x: Array) -> Array:
    """Return images of 4 rows and 2 columns."""
    return x[:, [0, 0, 1, 2]][:, :, [0, 2]]


def joined(x: Int8Tensor, y: Int8Tensor) -> tuple[Int8Tensor, Array]:
    """Return both along axis 1, as the first one means it."""
    again = quantized(real(y), float(x.scale), int(x.zero_point))
    return x._replace(data=np.concatenate([x.data, again.data], axis=1)), np.array([3, 2], "i")


def with_old_shape(change: Callable[..., Int8Tensor], dtype: Any = np.int64) -> Any:
    """Return the shape that X had, too."""

    def function(x: Int8Tensor, *rest: Any) -> tuple[Int8Tensor, Array]:
        del rest
        return change(x), np.array(x.data.shape, dtype)

    return function


def biases() -> Int8Tensor:
    """Return two rows of three."""
    return moved(lambda x: x.reshape(2, 3) * 70000)(whole(6, 0.001))


def doubled(x: Int8Tensor) -> Int8Tensor:
    """Return biases of half the scale, in one row."""
    return Int8Tensor(x.data.reshape(1, 6) * 2, PerTensor(0.0005).scale, 0)


SIZES = np.array([4, 6], "i")
CASES = [
    Case("Int8Flatten", [X], moved(lambda x: x.reshape(2, 12))),
    Case("Int8Flatten", [X], moved(lambda x: x.reshape(24, 1)), {"axis": 3}, id="one column"),
    Case("Int8Flatten", [X], anew(lambda x: x.reshape(2, 12)), OTHER, id="rounded anew"),
    Case("Int8Transpose", [X], moved(lambda x: x.T)),
    Case("Int8Transpose", [X], moved(lambda x: np.moveaxis(x, 2, 0)), {"axes": [2, 0, 1]}, id="axes"),
    Case("Int8ChannelShuffle", [IMAGE], moved(shuffled), {"group": 3, "kernel": 1}),
    Case("Int8ChannelShuffle", [IMAGE], anew(shuffled), {"group": 3, **OTHER}, id="rounded anew"),
    Case("Int8ResizeNearest", [IMAGE], moved(grown), {"height_scale": 1.5, "width_scale": 0.5}),
    Case("Int8ResizeNearest", [IMAGE], moved(lambda x: x.repeat(2, 1)), {"output_size": [7, 5]}, id="size"),
    Case(
        "Int8ResizeNearest",
        [IMAGE],
        moved(lambda x: x.repeat(3, 1).repeat(2, 2)),
        {"height_scale": 3.0, "width_scale": 2.0},
        id="whole",
    ),
    Case("Int8ResizeNearest", [IMAGE], anew(lambda x: x.repeat(2, 2)), {"width_scale": 2.0, **OTHER}, id="anew"),
    Case(
        "Int8Slice", [X], anew(lambda x: x[1:, :2, 1:3]), {"starts": [1, 0, 1], "ends": [-1, 2, 3], **OTHER}, id="box"
    ),
    Case("Int8Slice", [X], moved(lambda x: x[:, 1:2]), {"starts": [0, 1, 0], "ends": [-1, 2, -1]}),
    Case("Int8Slice", [X], moved(lambda x: x[:, 1:]), {"dim": 1, "start_idx": 1, "end_idx": -1}, id="of an axis"),
    Case("Int8Slice", [X, np.array([1, 0]), np.array([2, 2])], moved(lambda x: x[1:, :2]), id="inputs"),
    Case("Int8Reshape", [X], with_old_shape(moved(lambda x: x.reshape(4, 6))), {"shape": [4, -1]}),
    Case("Int8Reshape", [X, SIZES], with_old_shape(moved(lambda x: x.reshape(4, 6)), "i"), id="input"),
    Case("Int8Reshape", [X], with_old_shape(anew(lambda x: x.reshape(2, 12))), {"shape": [0, 12], **OTHER}, id="anew"),
    Case("Int8Transpose", [X], anew(lambda x: x.T), OTHER, id="anew"),
    Case("Int8Flatten", [biases()], moved(lambda x: x.reshape(1, 6)), {"axis": 0}, id="biases"),
    Case("Int8Flatten", [biases()], doubled, {"axis": 0, "Y_scale": 0.0005}, id="biases of another scale"),
    Case("Int8Slice", [biases()], moved(lambda x: x[:, 1:2]), {"starts": [0, 1], "ends": [-1, 2]}, id="biases"),
    Case("Int8Reshape", [biases()], with_old_shape(moved(lambda x: x.reshape(3, 2))), {"shape": [3, -1]}, id="biases"),
    Case("Int8Concat", [X, octets(2, 2, 4)], joined, {"axis": 1}, outputs=2),
    Case("Int8Concat", [X, octets(2, 2, 4, scale=0.08, zero_point=90)], joined, {"axis": 1}, outputs=2, id="unlike"),
    Case("Int8Concat", [X, X], moved(lambda x: np.concatenate([x, x])), outputs=1, id="rows"),
    Case(
        "Int8Concat",
        [IMAGE, IMAGE],
        moved(lambda x: np.concatenate([x, x], 3)),
        {"order": "NHWC"},
        outputs=1,
        id="channels",
    ),
]


@on_all_engines(CASES)
def test_places(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Int8Flatten", [X], {"axis": 4}, ShapeError, "axis = 4 is behind the last of X"),
    ("Int8Transpose", [X], {"axes": [0, 0, 1]}, ArgumentError, "is not a permutation"),
    ("Int8ChannelShuffle", [IMAGE], {"group": 4}, ShapeError, "6 channels do not divide into 4 groups"),
    ("Int8ResizeNearest", [X], {}, ShapeError, "X has 3 dimensions"),
    ("Int8ResizeNearest", [IMAGE], {"output_size": [7]}, ArgumentError, r"output_size = \[7\]"),
    ("Int8ResizeNearest", [IMAGE], {"width_scale": -2.0}, ArgumentError, "width_scale = -2.0 must be above 0"),
    ("Int8Slice", [X], {}, ArgumentError, "give both"),
    ("Int8Slice", [X], {"dim": 2, "start_idx": 1}, ArgumentError, "give both"),
    ("Int8Slice", [X], {"dim": 3, "start_idx": 1, "end_idx": 2}, ShapeError, "dim = 3 is not an axis of X"),
    ("Int8Reshape", [X], {"shape": [5, -1]}, ShapeError, "a multiple of 5"),
    ("Int8Concat", [X, octets(2, 2, 5)], {"axis": 1}, ShapeError, r"X1 has the shape \(2, 2, 5\), X0 has \(2, 3, 4\)"),
    ("Int8Concat", [X, X], {"axis": 3}, ShapeError, "axis = 3 is not an axis of X0"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
