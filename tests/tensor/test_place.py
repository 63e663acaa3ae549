"""Places: identity, order, text."""

from __future__ import annotations

import pickle

import pytest

from tazza.errors import NotFoundError
from tazza.tensor.place import CPUPlace, CUDAPlace, PinnedPlace, Place

PLACES = [CPUPlace(), CUDAPlace(0), CUDAPlace(1), CUDAPlace(12), PinnedPlace()]


@pytest.mark.parametrize("place", PLACES)
def test_text_and_back(place: Place) -> None:
    assert Place.parse(str(place)) is place
    assert pickle.loads(pickle.dumps(place)) == place


def test_order_and_hash() -> None:
    assert sorted(reversed(PLACES)) == PLACES
    assert len({*PLACES, CUDAPlace(1)}) == len(PLACES)
    assert [str(place) for place in PLACES] == ["cpu", "cuda:0", "cuda:1", "cuda:12", "pinned"]


def test_host_memory() -> None:
    assert [place.is_host for place in PLACES] == [True, False, False, False, True]


@pytest.mark.parametrize(
    "text", ["", "gpu", "cpu:0", "pinned:1", "cuda:", "cuda:-1", "cuda:x", "CUDA:1", "cuda:12345678"]
)
def test_unknown_text(text: str) -> None:
    with pytest.raises(NotFoundError, match="unknown place"):
        Place.parse(text)


def test_negative_index() -> None:
    with pytest.raises(NotFoundError, match="-3 is less than 0"):
        CUDAPlace(-3)
