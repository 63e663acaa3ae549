"""Channels in both orders."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.operator import SCHEMAS, OpView, find_schema, operator_def
from tazza.ops.nn.channel import align_vectors, along, channel_count, channels_last, require_channels
from tazza.tensor import DataType, TensorSpec


def view(order: str) -> OpView:
    """Return the view of an operator with that order."""
    return find_schema("AffineChannel").view(operator_def("AffineChannel", ["X", "s", "b"], ["Y"], order=order))


def spec(*dims: int | None) -> TensorSpec:
    """Return a float32 spec."""
    return TensorSpec(dims, DataType.FLOAT)


@pytest.mark.parametrize(("order", "last"), [("NCHW", False), ("nchw", False), ("NHWC", True), ("nhwc", True)])
def test_order(order: str, last: bool) -> None:
    op = view(order)
    assert channels_last(op) is last
    assert channel_count(op, "X", (2, 3, 5, 7)) == (7 if last else 3)
    assert channel_count(op, "X", None) is None
    vectors = align_vectors(op, {"X": spec(2, 3, 5, 7), "W": spec(1, 3), "b": spec(1)})
    assert vectors == ({"W": (3,), "b": (1,)} if last else {"W": (3, 1, 1), "b": (1, 1, 1)})


def test_along() -> None:
    assert along(np.zeros((3, 1)), np.zeros((2, 3, 5, 7))).shape == (3, 1, 1)


def test_what_does_not_fit_is_refused() -> None:
    op = view("NCHW")
    with pytest.raises(ShapeError, match=r"X has 1 dimensions \(3\), it needs at least 2"):
        channel_count(op, "X", (3,))
    with pytest.raises(ShapeError, match=r"scale has the shape \(2, 2\), X has 3 channels"):
        require_channels(op, 3, scale=spec(2, 2))
    require_channels(op, 3, scale=spec(None, 2), bias=None)
    require_channels(op, None, scale=spec(4))


def test_one_choice_of_orders_is_told_in_one_way() -> None:
    """Who declares it anew tells it anew: `ORDER` and `CHANNELS_FIRST` are there for all."""
    told = defaultdict[tuple[Any, ...], set[str]](set)
    for type in sorted(SCHEMAS):
        order = SCHEMAS[type].args.get("order")
        if order is not None and order.choices:
            told[tuple(order.choices)].add(str(order.doc))
    assert [docs for docs in told.values() if len(docs) > 1] == []
