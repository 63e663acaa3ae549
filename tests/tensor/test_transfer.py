"""Copies between places and layouts."""

from __future__ import annotations

import numpy as np
import pytest

import tazza.array as ta
from tazza.errors import ShapeError, UnavailableError, UnsupportedError
from tazza.registry import Registry
from tazza.tensor.layout import ROW_MAJOR, Opaque, Strided


def test_a_layout_of_choice() -> None:
    x = ta.reshape(ta.arange(2 * 3 * 5 * 7), (2, 3, 5, 7))
    wanted = ta.channels_last(x.shape)
    y = ta.to_layout(x, wanted)
    assert (y.layout, y.tolist()) == (wanted, x.tolist())
    assert ta.to_layout(y, wanted) is y
    back = ta.to_layout(y, ROW_MAJOR)
    assert (back.layout, back.tobytes()) == (ROW_MAJOR, x.tobytes())
    assert ta.to_layout(x, Strided((105, 35, 7, 1))).layout == ROW_MAJOR, "row-major by another name"
    text = ta.to_layout(ta.asarray(np.array([["a", "b"], ["c", "d"]])), Strided((1, 2)))
    assert text.tolist() == [[b"a", b"b"], [b"c", b"d"]]


def test_layouts_that_nobody_can_make() -> None:
    x = ta.ones((2, 3))
    with pytest.raises(ShapeError, match="do not fit"):
        ta.to_layout(x, Strided((1,)))
    with pytest.raises(UnsupportedError, match="one element in several places"):
        ta.to_layout(x, Strided((1, 1)))
    with pytest.raises(UnsupportedError, match="onednn layout is made by its engine"):
        ta.to_layout(x, Opaque("onednn", "blocked", 64))


def test_a_device_without_engine() -> None:
    for make in (lambda: ta.zeros(3, device="cuda:0"), lambda: ta.ones(3).to_device("cuda:1")):
        with pytest.raises(UnavailableError, match="no CUDA engine is here"):
            make()


def test_what_places_layouts_and_registries_look_like() -> None:
    shown = [ta.CPUPlace(), ta.CUDAPlace(1), ROW_MAJOR, ta.channels_last((2, 3, 5, 7))]
    assert list(map(repr, shown)) == [
        "Place('cpu')", "Place('cuda:1')", "Strided(row-major)", "Strided((105, 1, 21, 3))"
    ]  # fmt: skip
    colours: Registry[str, int] = Registry("colour")
    for i in range(22):
        colours.register(f"c{i:02}", i)
    assert repr(colours).startswith("Registry('colour': c00, c01, ")
    assert repr(colours).endswith("c19 and 2 more)")
    x = ta.ones((2, 8))
    assert repr(x[0].storage) == repr(x.storage)
    assert repr(x.storage).startswith("Storage(16 float32 at cpu")
