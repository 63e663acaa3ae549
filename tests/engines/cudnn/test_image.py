"""What operators ask of plans, and in what they add up."""

from __future__ import annotations

from typing import Any

import pytest

from tazza.engines.cudnn.graph import Direction
from tazza.engines.cudnn.image import image_of, wishes_of
from tazza.engines.cudnn.plan import Wishes
from tazza.operator import Unsupported, find_schema, operator_def
from tazza.ops.nn.conv import conv_window
from tazza.tensor import DataType, TensorSpec


@pytest.mark.parametrize(
    ("dtype", "asked", "compute"),
    [
        (DataType.FLOAT16, 1, "DATA_HALF"),
        (DataType.FLOAT16, 0, "DATA_FLOAT"),
        (DataType.BFLOAT16, 1, "DATA_FLOAT"),
        (DataType.FLOAT, 1, "DATA_FLOAT"),
    ],
)
def test_float16_alone_may_add_up_in_float16(dtype: DataType, asked: int, compute: str) -> None:
    op = find_schema("Conv").view(operator_def("Conv", ["X", "W"], ["Y"], kernel=3, float16_compute=asked))
    X, W = TensorSpec((2, 4, 7, 6), dtype), TensorSpec((6, 4, 3, 3), dtype)
    window, _ = conv_window(op, X.shape, W.shape)
    assert image_of(op, X, W, (2, 6, 5, 4), window).compute == compute


def wishes(direction: Direction, **arguments: Any) -> Wishes:
    """Return what a convolution with arguments asks."""
    made = operator_def("Conv", ["X", "W"], ["Y"], kernel=3, **arguments)
    return wishes_of(find_schema("Conv").view(made), direction)


def test_what_is_forced_is_of_one_direction() -> None:
    assert wishes(Direction.FORWARD) == Wishes()
    assert wishes(Direction.BACKWARD_DATA, force_algo_fwd=1) == Wishes()
    listed = [wishes(direction, force_algo=[0, 1, 2]) for direction in Direction]
    assert [one.forced.name for one in listed if one.forced] == ["IMPLICIT_GEMM", "FFT", "1"]
    with pytest.raises(Unsupported, match="force_algo_dgrad = 9"):
        wishes(Direction.BACKWARD_DATA, force_algo_dgrad=9)
    for strange in ({"force_algo": [1, 1]}, {"force_algo": [1, 1, 1], "force_algo_fwd": 0}):
        with pytest.raises(Unsupported, match="three numbers"):
            wishes(Direction.FORWARD, **strange)
