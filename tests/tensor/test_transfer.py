"""Copies between places and layouts."""

from __future__ import annotations

import numpy as np
import pytest

import tazza.tensor as tt
from tazza.errors import ShapeError, UnavailableError, UnsupportedError
from tazza.registry import Registry
from tazza.tensor.layout import ROW_MAJOR, Opaque, Strided


def test_a_layout_of_choice() -> None:
    x = tt.reshape(tt.arange(2 * 3 * 5 * 7), (2, 3, 5, 7))
    wanted = tt.channels_last(x.shape)
    y = tt.to_layout(x, wanted)
    assert (y.layout, y.tolist()) == (wanted, x.tolist())
    assert tt.to_layout(y, wanted) is y
    back = tt.to_layout(y, ROW_MAJOR)
    assert (back.layout, back.tobytes()) == (ROW_MAJOR, x.tobytes())
    assert tt.to_layout(x, Strided((105, 35, 7, 1))).layout == ROW_MAJOR, "row-major by another name"
    text = tt.to_layout(tt.asarray(np.array([["a", "b"], ["c", "d"]])), Strided((1, 2)))
    assert text.tolist() == [[b"a", b"b"], [b"c", b"d"]]


def test_layouts_that_nobody_can_make() -> None:
    x = tt.ones((2, 3))
    with pytest.raises(ShapeError, match="do not fit"):
        tt.to_layout(x, Strided((1,)))
    with pytest.raises(UnsupportedError, match="one element in several places"):
        tt.to_layout(x, Strided((1, 1)))
    with pytest.raises(UnsupportedError, match="onednn layout is made by its engine"):
        tt.to_layout(x, Opaque("onednn", "blocked", 64))


def test_a_device_without_engine() -> None:
    for make in (lambda: tt.zeros(3, device="cuda:0"), lambda: tt.ones(3).to_device("cuda:1")):
        with pytest.raises(UnavailableError, match="no CUDA engine is here"):
            make()


def test_what_places_layouts_and_registries_look_like() -> None:
    shown = [tt.CPUPlace(), tt.CUDAPlace(1), ROW_MAJOR, tt.channels_last((2, 3, 5, 7))]
    assert list(map(repr, shown)) == [
        "Place('cpu')", "Place('cuda:1')", "Strided(row-major)", "Strided((105, 1, 21, 3))"
    ]  # fmt: skip
    colours: Registry[str, int] = Registry("colour")
    for i in range(22):
        colours.register(f"c{i:02}", i)
    assert repr(colours).startswith("Registry('colour': c00, c01, ")
    assert repr(colours).endswith("c19 and 2 more)")
    x = tt.ones((2, 8))
    assert repr(x[0].storage) == repr(x.storage)
    assert repr(x.storage).startswith("Storage(16 float32 at cpu")
