"""Random numbers: the same as the operators', within their bounds, and refused where they make no sense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
import tazza.random
from tazza import device_option, run_op
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.random import RandomStream, default_rng

SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(("type", "name"), [("UniformFill", "uniform"), ("GaussianFill", "normal")])
def test_the_numbers_of_the_operators(type: str, name: str) -> None:
    found = getattr(default_rng(5), name)(size=(3, 7))
    wanted = run_op(type, shape=[3, 7], device=device_option(random_seed=5))
    assert isinstance(wanted, np.ndarray)
    assert found.tolist() == wanted.tolist()


@settings(max_examples=20)
@given(SEEDS, st.integers(0, 40), st.integers(0, 40))
def test_a_stream_goes_on(seed: int, first: int, second: int) -> None:
    apart, whole = default_rng(seed), default_rng(seed)
    parts = [*apart.normal(size=first).tolist(), *apart.normal(size=second).tolist()]
    assert parts == whole.normal(size=first + second).tolist()


@settings(max_examples=30)
@given(SEEDS, st.integers(-(2**31), 2**31), st.integers(1, 2**32), st.booleans())
def test_integers_are_within_their_bounds(seed: int, low: int, span: int, endpoint: bool) -> None:
    found = default_rng(seed).integers(low, low + span - endpoint, size=20, endpoint=endpoint).numpy()
    assert low <= found.min() <= found.max() < low + span


@settings(max_examples=20)
@given(SEEDS, st.integers(0, 30))
def test_permutations_have_everything_once(seed: int, count: int) -> None:
    assert sorted(default_rng(seed).permutation(count).tolist()) == list(range(count))
    assert len(set(default_rng(seed).choice(count + 1, count, replace=False).tolist())) == count


def test_permutations_are_equally_probable() -> None:
    random = default_rng(3)
    counts = np.zeros(6, int)
    orders = {(0, 1, 2): 0, (0, 2, 1): 1, (1, 0, 2): 2, (1, 2, 0): 3, (2, 0, 1): 4, (2, 1, 0): 5}
    for _ in range(600):
        counts[orders[tuple(random.permutation(3).tolist())]] += 1
    assert (np.abs(counts - 100) < 5 * np.sqrt(100 * 5 / 6)).all()


def test_moments() -> None:
    x = default_rng(7).normal(3, 2, (50_000,)).numpy()
    assert abs(x.mean() - 3) < 5 * 2 / np.sqrt(50_000)
    assert abs(x.std() - 2) < 0.05
    assert np.unique(default_rng(7).integers(4, size=1000).numpy(), return_counts=True)[1].min() > 180


def test_shapes_and_types() -> None:
    random = RandomStream(1)
    assert random.random().shape == ()
    assert random.uniform(size=3, dtype="bfloat16").dtype is ta.bfloat16
    assert random.standard_normal((2, 3), float).dtype is ta.float64
    assert random.integers(9, size=[2], dtype=np.int8).dtype is ta.int8
    rows = ta.asarray([[1, 2], [3, 4], [5, 6]])
    assert sorted(random.permutation(rows).tolist()) == rows.tolist()
    assert random.choice(rows, size=(2, 2)).shape == (2, 2, 2)
    assert set(random.choice([1, 2, 3], 9).tolist()) <= {1, 2, 3}
    assert random.choice(np.ones((3, 2)), 4).shape == (4, 2)
    random.shuffle(rows)
    assert sorted(rows.tolist()) == [[1, 2], [3, 4], [5, 6]]
    assert default_rng().random().item() != default_rng().random().item()


def test_what_is_refused() -> None:
    random = default_rng(1)
    with pytest.raises(ArgumentError, match="seed = -1"):
        default_rng(-1)
    with pytest.raises(ArgumentError, match="0 integers"):
        random.integers(3, 3)
    with pytest.raises(ArgumentError, match="integers to draw"):
        random.integers(0, 2**33)
    with pytest.raises(DTypeError, match="do not fit int8"):
        random.integers(0, 300, dtype="int8")
    with pytest.raises(DTypeError, match="integers of type float32"):
        random.integers(3, dtype="float32")
    with pytest.raises(DTypeError, match="between others"):
        random.uniform(dtype="int32")
    with pytest.raises(ArgumentError, match="scale"):
        random.normal(scale=-1.0)
    with pytest.raises(ShapeError, match="no tensor"):
        random.random(size=(2**40, 2**40))
    for low, high in ((-1e308, 1e308), (-3e38, 3e38), (float("nan"), 1), (0, float("inf"))):
        with pytest.raises(ArgumentError, match="finite"):
            random.uniform(low, high, 2, "float64")
    with pytest.raises(ArgumentError, match="loc"):
        random.normal(1e308)
    with pytest.raises(ArgumentError, match="no axis"):
        random.choice(ta.asarray(1.0))
    with pytest.raises(ArgumentError, match="at most once"):
        random.choice(2, 3, replace=False)


def test_a_stream_shows_how_it_was_begun() -> None:
    assert repr(default_rng(5)) == "default_rng(5)"
    assert repr(default_rng()) == "default_rng()"
    assert eval(repr(default_rng(7))).uniform().numpy() == default_rng(7).uniform().numpy()


def test_the_module_names_what_is_for_users() -> None:
    assert dir(tazza.random) == ["RandomStream", "default_rng"]


def test_python_looks_for_near_names_in_the_namespace() -> None:
    with pytest.raises(AttributeError) as raised:
        _ = getattr(ta, "zeross")  # noqa: B009 -- there is none
    assert (raised.value.name, raised.value.obj) == ("zeross", ta)
