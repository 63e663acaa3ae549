"""Specs: what is known, what is not, how they print."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tazza.errors import ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import ROW_MAJOR, channels_last
from tazza.tensor.place import CPUPlace, CUDAPlace
from tazza.tensor.spec import TensorSpec, TypeSpec


@pytest.mark.parametrize(
    ("dims", "text", "complete"),
    [
        ((2, 3), "float32[2, 3]", True),
        ((), "float32[]", True),
        ([2, 0], "float32[2, 0]", True),
        ((2, None, 3), "float32[2, ?, 3]", False),
        (None, "float32[...]", False),
    ],
)
def test_text(dims: Sequence[int | None] | None, text: str, complete: bool) -> None:
    spec = TensorSpec(dims, DataType.FLOAT)
    assert (str(spec), spec.shape_known) == (text, complete)


def test_known_spec() -> None:
    spec = TensorSpec([2, 3, 5], DataType.INT16)
    assert (spec.shape, spec.size, spec.nbytes, spec.rank) == (Dim((2, 3, 5)), 30, 60, 3)
    assert spec == TensorSpec(Dim((2, 3, 5)), DataType.INT16, CPUPlace(), ROW_MAJOR)
    assert len({spec, TensorSpec((2, 3, 5), DataType.INT16)}) == 1


def test_unknown_extents() -> None:
    spec = TensorSpec((2, None), DataType.FLOAT)
    assert spec.rank == 2
    for ask in ("shape", "size", "nbytes"):
        with pytest.raises(ShapeError, match="not known yet"):
            getattr(spec, ask)
    with pytest.raises(ShapeError, match="rank"):
        _ = TensorSpec(None, DataType.FLOAT).rank


def test_negative_extent() -> None:
    with pytest.raises(ShapeError, match="-2 < 0"):
        TensorSpec((None, -2), DataType.FLOAT)


def test_place_and_layout_show_when_unusual() -> None:
    dims = (2, 3, 5)
    spec = TensorSpec(dims, DataType.FLOAT, CUDAPlace(1), channels_last(dims))
    assert str(spec) == "float32[2, 3, 5] @ cuda:1 (strides (15, 1, 3))"


def test_type_spec() -> None:
    assert str(TypeSpec("std::string")) == "std::string"
    assert TypeSpec("a") != TypeSpec("b")


@pytest.mark.parametrize("dims", [(1,) * 65, (2**62, 2**62, 0), (2**61, 1), (None, 2**31, 2**31)])
def test_more_than_an_address_reaches(dims: tuple[int | None, ...]) -> None:
    with pytest.raises(ShapeError, match=r"rank 65 > 64|2\*\*63 bytes"):
        TensorSpec(dims, DataType.FLOAT)
