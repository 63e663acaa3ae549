"""Windows that are left to other engines: where the bounds are, and what is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.engines.onednn.reach import MOST_STEP, MOST_TAPS, check_dimensions, check_steps, check_taps
from tazza.operator import Unsupported
from tazza.ops.nn.window import Window
from tazza.tensor.offer import answered


def window(kernel: tuple[int, ...], stride: int = 1, dilation: int = 1, head: int = 0) -> Window:
    ones = (1,) * len(kernel)
    return Window(kernel, (stride, *ones[1:]), (dilation, *ones[1:]), (head, *[0] * len(ones[1:])), (0,) * len(kernel))


def reason(check: Callable[[], None]) -> str:
    with pytest.raises(Unsupported) as raised:
        check()
    return raised.value.reason


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_dimensions_that_are_taken(rank: int) -> None:
    check_dimensions(window((3, 2, 5)[:rank]))


@pytest.mark.parametrize("rank", [0, 4])
def test_dimensions_that_are_not(rank: int) -> None:
    text = f"X has {rank} spatial dimensions, oneDNN takes 1 to 3"
    assert reason(lambda: check_dimensions(window((3, 2, 5, 2)[:rank]))) == text


@given(st.integers(1, MOST_STEP), st.integers(0, MOST_STEP))
def test_steps_within_reach(stride: int, head: int) -> None:
    """Strides and pads up to the bound are taken, whichever it is."""
    check_steps(window((3, 2), stride=stride), (0, 0))
    check_steps(window((3, 2), head=head), (0, 0))


@pytest.mark.parametrize(
    ("given", "tail"),
    [
        (window((3, 2), stride=4 * MOST_STEP), (0, 0)),
        (window((3, 2), dilation=4 * MOST_STEP), (0, 0)),
        (window((3, 2), head=4 * MOST_STEP), (0, 0)),
        (window((3, 2)), (0, 4 * MOST_STEP)),
    ],
    ids=["stride", "dilation", "head", "tail"],
)
def test_steps_beyond(given: Window, tail: tuple[int, int]) -> None:
    """The tail counts as it is given, not as the window says: it may have grown."""
    text = reason(lambda: check_steps(given, tail))
    assert text.endswith("oneDNN counts them out")
    assert str(4 * MOST_STEP) in text


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_kernels_larger_than_the_image(height: int, width: int, places: int) -> None:
    """They are refused where they have more elements than the image, and more than are counted out fast."""
    found = answered(lambda: check_taps(window((height, width)), (places, 3)))
    assert (found is not None) is (height * width > 3 * places and height * width > MOST_TAPS)


def test_what_is_said_of_large_kernels() -> None:
    text = reason(lambda: check_taps(window((1 << 12, 5)), (3, 7)))
    assert text == "a kernel (4096, 5) over 21 places: oneDNN counts all its elements"
    check_taps(window((2, 5)), (None, 7))  # an extent that is not known yet counts as 1
