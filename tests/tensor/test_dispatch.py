"""Visitors: the most special case, and what is said of the missing ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, DuplicateError, UnsupportedError
from tazza.tensor import CPUPlace, CUDAPlace, DataType, Dim, PinnedPlace, Place, Tensor, TensorSpec
from tazza.tensor.dispatch import Coordinates, Dispatch

FLOATS = [DataType.FLOAT, DataType.DOUBLE]


def filling() -> Dispatch[[Tensor], str]:
    fill: Dispatch[[Tensor], str] = Dispatch("fill")

    @fill.case(place="cpu", dtype=FLOATS)
    def floats(tensor: Tensor) -> str:
        return "floats"

    @fill.case(place="cpu", dtype=FLOATS, rank=0)
    def single(tensor: Tensor) -> str:
        return "single"

    @fill.case(place=("cpu", "cuda"), dtype=DataType.BOOL, rank=range(3))
    def flags(tensor: Tensor) -> str:
        return "flags"

    assert floats is fill.find(CPUPlace(), DataType.DOUBLE, 3)
    assert {single, flags} == {fill.find(CPUPlace(), dtype, 0) for dtype in (DataType.FLOAT, DataType.BOOL)}
    return fill


def test_the_first_argument_chooses() -> None:
    fill = filling()
    assert [fill(Tensor(dims)) for dims in ((), (2,), (2, 3))] == ["single", "floats", "floats"]
    assert fill(Tensor((2, 3), DataType.BOOL)) == "flags"
    spec: Dispatch[[TensorSpec], int] = Dispatch("sum")
    spec.case(rank=2)(lambda spec: spec.size)
    assert spec(TensorSpec((2, 3), DataType.INT8)) == 6


@pytest.mark.parametrize(
    ("place", "dtype", "rank", "text", "hint"),
    [
        (
            CPUPlace(),
            DataType.INT8,
            2,
            "place cpu, dtype int8, rank 2: dtype int8 is missing",
            "bool, float32, float64",
        ),
        (CPUPlace(), DataType.BOOL, 3, "rank 3 is missing", "dtype float32, float64; or rank 0, 1, 2"),
        (
            CUDAPlace(1),
            DataType.FLOAT,
            1,
            "place cuda is missing or dtype float32 is missing",
            "place cpu; or dtype bool",
        ),
        (PinnedPlace(), DataType.INT8, 1, "they are not served together", "place cpu dtype float32; place cpu dtype"),
        (CPUPlace(), None, 2, "place cpu, rank 2: dtype is missing", "bool, float32, float64"),
    ],
)
def test_what_is_missing_is_named(place: Place, dtype: DataType | None, rank: int, text: str, hint: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        filling().find(place, dtype, rank)
    assert "fill has no case for" in caught.value.message
    assert text in caught.value.message
    assert caught.value.hint is not None
    assert hint in caught.value.hint


def test_all_that_is_missing_can_be_listed() -> None:
    missing = filling().missing([CPUPlace(), CUDAPlace(0)], [DataType.BOOL, DataType.FLOAT], range(2, 4))
    assert [(str(place), str(dtype), rank) for place, dtype, rank in missing] == [
        ("cpu", "bool", 3),
        ("cuda:0", "bool", 3),
        ("cuda:0", "float32", 2),
        ("cuda:0", "float32", 3),
    ]
    assert filling().missing([CPUPlace()], FLOATS) == []


def test_places_dtypes_and_dims_are_visited_alone() -> None:
    host: Dispatch[[Place], bool] = Dispatch("is host")
    host.case(place=("cpu", "pinned"))(lambda place: True)
    host.case(place="cuda")(lambda place: False)
    assert [host(place) for place in (CPUPlace(), PinnedPlace(), CUDAPlace(2))] == [True, True, False]
    width: Dispatch[[DataType], int] = Dispatch("width")
    width.case(dtype=FLOATS)(lambda dtype: dtype.itemsize)
    assert width(DataType.DOUBLE) == 8
    rank: Dispatch[[Dim], str] = Dispatch("rank")
    rank.case(rank=2)(lambda dim: "matrix")
    assert rank(Dim((2, 3))) == "matrix"
    with pytest.raises(ArgumentError, match="rank cannot choose its case by int"):
        rank(3)  # pyright: ignore[reportArgumentType] -- what is shown
    with pytest.raises(UnsupportedError, match="nothing has no case for rank 1"):
        Dispatch[[Dim], str]("nothing")(Dim((2,)))


def test_twice_the_same_case() -> None:
    fill = filling()
    with pytest.raises(DuplicateError, match="case of fill"):
        fill.case(place="cpu", dtype=DataType.FLOAT)(lambda tensor: "again")
    fill.case(place="cpu", dtype=DataType.FLOAT, priority=1)(lambda tensor: "better")
    assert fill(Tensor((2,))) == "better"


COORDINATES = st.tuples(
    st.sampled_from([None, "cpu", "cuda"]),
    st.sampled_from([None, DataType.FLOAT, DataType.INT8]),
    st.sampled_from([None, 0, 3]),
)


@given(st.sets(COORDINATES, max_size=12))
def test_the_most_special_case_wins_in_any_order(cases: set[Coordinates]) -> None:
    chosen: Dispatch[[], Coordinates] = Dispatch("choice")
    for kind, dtype, rank in cases:
        chosen.case(place=kind, dtype=dtype, rank=rank)(lambda key=(kind, dtype, rank): key)
    wanted: Coordinates = ("cpu", DataType.INT8, 3)
    fitting = [case for case in cases if all(mine in (None, theirs) for mine, theirs in zip(case, wanted, strict=True))]
    if not fitting:
        with pytest.raises(UnsupportedError):
            chosen.find(CPUPlace(), DataType.INT8, 3)
        return
    best = max(fitting, key=lambda case: [each is not None for each in case])
    assert chosen.find(CPUPlace(), DataType.INT8, 3)() == best
