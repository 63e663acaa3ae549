"""Printing: as NumPy does, and what is not usual besides."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

import tazza.array as ta
from tests.arrays import Pair, make_pair, pairs


@given(pairs(max_rank=4))
@settings(max_examples=50)
def test_str_is_numpys(pair: Pair) -> None:
    assert str(pair.tensor) == str(pair.array)
    assert f"{pair.tensor}" == str(pair.array)


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (ta.asarray(np.arange(3, dtype=np.int32)), "Tensor([0, 1, 2], dtype=int32)"),
        (ta.asarray(2.5), "Tensor(2.5, dtype=float32)"),
        (ta.zeros((0, 3)), "Tensor([], shape=(0, 3), dtype=float32)"),
        (ta.asarray(["a"]), "Tensor([b'a'], dtype=string)"),
        (ta.empty((2, 3)), "Tensor(<no memory yet>, shape=(2, 3), dtype=float32)"),
        (ta.empty(1, device="cuda"), "Tensor(<no memory yet>, shape=(1,), dtype=float32, place=cuda:0)"),
        (ta.Tensor((2,), holder="W"), "Tensor(<no memory yet>, shape=(2,), dtype=float32, name='W')"),
        (ta.arange(4).reshape(2, 2).T, "Tensor([[0, 2],\n        [1, 3]], dtype=int64, layout=strides (1, 2))"),
    ],
)
def test_repr(tensor: ta.Tensor, text: str) -> None:
    assert repr(tensor) == text


def test_repr_of_much_is_short() -> None:
    text = repr(ta.zeros((100, 100)))
    assert "..." in text
    assert text.endswith("shape=(100, 100), dtype=float32)")


def test_an_opaque_layout_is_told() -> None:
    assert "layout=inverted layout)" in repr(make_pair(ta.DataType.INT8, (2, 3), "opaque", 1, [0, 1]).tensor)


def test_printing_takes_no_memory() -> None:
    x = ta.empty((1000, 1000))
    assert "no memory yet" in repr(x)
    assert not x.allocated
