"""Random numbers that are drawn on a device: those of the host's counter, whatever thread comes first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import DTypeError
from tazza.random import default_rng
from tazza.tensor import CUDAPlace, Tensor
from tazza.tensor.transfer import to_place
from tests.cuda_grid import backwards

PLACE = CUDAPlace(0)
DRAWS: dict[str, tuple[dict[str, Any], ...]] = {
    "random": ({"size": (3, 7)}, {"size": 0}, {}),
    "uniform": ({"low": -3, "high": 5, "size": 11}, {"size": (2, 3), "dtype": "bfloat16"}),
    "normal": ({"size": 5}, {"loc": 3, "scale": 0.5, "size": (3, 5)}, {"size": 2, "dtype": "float64"}),
    "standard_normal": ({"size": 3, "dtype": "float16"},),
    "integers": ({"low": 9, "size": 13}, {"low": -3, "high": 2**31, "size": 5}, {"low": 0, "high": 2**32, "size": 3}),
    "permutation": ({"x": 6},),
    "choice": ({"a": 5, "size": (2, 3)}, {"a": 5, "size": 3, "replace": False}, {"a": [[1, 2], [3, 4]], "size": 5}),
}
"""Method -> arguments of calls one after the other."""


@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("turned", [False, True])
def test_the_numbers_of_the_host(name: str, turned: bool) -> None:
    there, here = default_rng(7, device=PLACE), default_rng(7, counter_based=True)
    for given in (*DRAWS[name], *DRAWS[name]):
        if turned:
            with backwards():
                found = getattr(there, name)(**given)
                plain = found.plain()
        else:
            found = getattr(there, name)(**given)
            plain = found.plain()
        wanted = getattr(here, name)(**given)
        assert (found.place, found.dtype, found.shape) == (PLACE, wanted.dtype, wanted.shape)
        np.testing.assert_allclose(
            np.asarray(plain, np.float64), np.asarray(wanted, np.float64), rtol=0 if "normal" not in name else 1e-6
        )


def test_a_stream_goes_on_there() -> None:
    for name in ("uniform", "normal"):
        apart, whole = default_rng(3, device="cuda:0"), default_rng(3, device="cuda:0")
        parts = [getattr(apart, name)(size=count).plain() for count in (1, 2, 6, 5)]
        np.testing.assert_array_equal(np.concatenate(parts), getattr(whole, name)(size=14).plain())


def test_parts_of_what_lies_there() -> None:
    x = to_place(Tensor.from_numpy(np.arange(6).reshape(3, 2)), PLACE)
    stream = default_rng(1, device=PLACE)
    found = stream.permutation(x)
    assert found.place == PLACE
    assert sorted(found.plain().tolist()) == [[0, 1], [2, 3], [4, 5]]
    stream.shuffle(x)
    assert sorted(x.plain().tolist()) == [[0, 1], [2, 3], [4, 5]]


def test_the_numbers_of_the_old_framework_are_copied() -> None:
    found = default_rng(5, device=PLACE, counter_based=False).normal(size=(3, 7))
    assert found.place == PLACE
    assert found.plain().tolist() == default_rng(5).normal(size=(3, 7)).tolist()


def test_what_is_refused_there() -> None:
    with pytest.raises(DTypeError, match="integers of type float32"):
        default_rng(1, device=PLACE).integers(3, dtype="float32")


def test_streams_say_where_they_draw() -> None:
    for text in ("default_rng(5, device='cuda:0')", "default_rng(5, device='cuda:0', counter_based=False)"):
        assert repr(eval(text)) == text
