"""What was rounded comes back bit for bit, whatever the elements are and whatever a form tells of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from tazza.errors import UnsupportedError
from tazza.registry import Registry
from tazza.tensor import CPUPlace, DataType, Opaque, Storage, Tensor, TensorSpec
from tazza.tensor.residue import Parts, Residue, comes_back, keep_residue, restored

Array = NDArray[Any]
BITS = st.one_of(
    st.integers(0, 2**32 - 1), st.sampled_from([0, 1 << 31, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000])
)


def floats_of(shape: tuple[int, ...]) -> st.SearchStrategy[Array]:
    """Floats of any bits: NaN with a message, infinities, denormals, either 0."""
    return arrays.arrays(np.uint32, shape, elements=BITS).map(lambda bits: bits.view(np.float32))


def rows_of(array: Array, step: int) -> Parts:
    """Yield an array by so many rows, the last axis running first in memory."""
    for start in range(0, len(array), step):
        rows = slice(start, start + step)
        yield (rows, slice(None)), np.asfortranarray(array[rows])


@given(st.data(), st.integers(0, 7), st.integers(1, 5), st.integers(1, 3))
def test_any_bits_come_back(data: st.DataObject, rows: int, columns: int, step: int) -> None:
    made_of, told = (data.draw(floats_of((rows, columns))) for _ in range(2))
    if data.draw(st.booleans()):  # near each other
        told = (made_of.view(np.uint32) + data.draw(arrays.arrays(np.uint32, made_of.shape))).view(np.float32)
    residue = Residue.of(made_of, rows_of(told, step))
    found = residue.elements(made_of.shape, rows_of(told, step))
    np.testing.assert_array_equal(found.view(np.uint32), made_of.view(np.uint32))
    assert residue.nbytes == -(-made_of.size // 2) + residue.away.size + 4 * residue.far.size
    assert residue.far.size <= residue.away.size <= made_of.size


@pytest.mark.parametrize(("away", "nbytes"), [(7, 1000), (8, 3000), (127, 3000), (128, 11000)])
def test_an_element_takes_four_bits_a_byte_or_itself(away: int, nbytes: int) -> None:
    made_of = np.random.default_rng(3).uniform(1.1, 1.9, (50, 40)).astype(np.float32)
    for sign in (1, -1):
        told = (made_of.view(np.int32) + sign * away).view(np.float32)
        residue = Residue.of(made_of, rows_of(told, 7))
        assert residue.nbytes == nbytes
        np.testing.assert_array_equal(residue.elements(made_of.shape, rows_of(told, 3)), made_of)


def test_what_is_told_may_differ_where_it_says_nothing_sure() -> None:
    """NaN has many bits, and denormals count as 0 in threads that asked for that."""
    made_of = np.array([[1, -2, 3e-40, 0, 5]], np.float32)
    one = np.array([[1, np.nan, 1e-40, 1e-39, np.inf]], np.float32)
    other = np.array([[1, -np.nan, 0, 0, -np.inf]], np.float32)
    residue = Residue.of(made_of, rows_of(one, 1))
    np.testing.assert_array_equal(residue.elements(made_of.shape, rows_of(other, 1)), made_of)


def test_a_residue_counts_for_one_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    about: Registry[str, Callable[[Tensor], Parts]] = Registry("forms of this test")
    about.register("a test", lambda tensor: rows_of(tensor.span.reshape(2, 3), 1))
    monkeypatch.setattr("tazza.tensor.residue.ABOUT", about)
    tensor = Tensor.over(
        Storage(CPUPlace()), 0, TensorSpec((2, 3), DataType.FLOAT, layout=Opaque("a test", "a form", 24, derived=True))
    )
    tensor.reserve()
    tensor.span[:] = [1, 2, 3, 4, 5, 6]
    made_of = tensor.span.reshape(2, 3) * np.float32(1 + 3e-7)
    assert comes_back(cast("Opaque", tensor.layout))
    with pytest.raises(UnsupportedError, match=r"float32\[2, 3\] .* has been rounded"):
        restored(tensor, "rounded")
    keep_residue(tensor, made_of)
    np.testing.assert_array_equal(restored(tensor, "rounded"), made_of)
    tensor.mark_written()  # by who only says so: nobody writes into a form
    np.testing.assert_array_equal(restored(tensor, "rounded"), made_of)
    tensor.storage.release()
    assert tensor.storage.beside is None
    assert not comes_back(Opaque("another", "a form", 24, derived=True))


def test_a_tensor_that_is_moved_while_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, to other memory: what was begun is read to its end where it lay."""
    spec = TensorSpec((2, 3), DataType.FLOAT, layout=Opaque("a test", "a form", 24, derived=True))
    tensor, other = (Tensor.over(Storage(CPUPlace()), 0, spec) for _ in range(2))
    for one in (tensor, other):
        one.reserve()
    tensor.span[:], other.span[:] = [1, 2, 3, 4, 5, 6], 7
    moves = list[Tensor]()

    def told(lying: Tensor) -> Parts:
        for move in moves:
            tensor.share(move)
        yield from rows_of(lying.span.reshape(2, 3), 1)

    about: Registry[str, Callable[[Tensor], Parts]] = Registry("forms of this test")
    about.register("a test", told)
    monkeypatch.setattr("tazza.tensor.residue.ABOUT", about)
    made_of = tensor.span.reshape(2, 3) * np.float32(1 + 3e-7)
    keep_residue(tensor, made_of)
    moves.append(other)
    np.testing.assert_array_equal(restored(tensor, "rounded"), made_of)
    plain = Tensor.from_numpy(np.full((2, 3), 8, np.float32))
    tensor.share(plain)
    np.testing.assert_array_equal(restored(tensor, "rounded"), plain.array)
