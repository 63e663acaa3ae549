"""Descriptors: equality by content, other views of the same memory, and layouts there and back."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.device import current_context
from tazza.engines.onednn.descriptor import Descriptor, accepts_dense, accepts_strided
from tazza.engines.onednn.library import Unimplemented, unavailable
from tazza.engines.onednn.primitive import Attributes, describe
from tazza.operator.reorder import bind_reorder
from tazza.tensor import ROW_MAJOR, CPUPlace, DataType, Dim, Layout, Opaque, Strided, Tensor, TensorSpec, channels_last

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=5).map(tuple)


def blocked(M: int = 20, C: int = 6, kernel: int = 3) -> Descriptor:
    """Return the descriptor of weights as a convolution wants them."""
    source, target = Descriptor.channels_last((2, C, 9, 11)), Descriptor.channels_last((2, M, 9, 11))
    weights = Descriptor.any((M, C, kernel, kernel))
    ones, pads = (1, 1), (kernel // 2, kernel // 2)
    described = ("forward_inference", "convolution_direct", source, weights, None, target, ones, (0, 0), pads, pads)
    return describe("convolution_forward", *described).argument("weights")


def test_equal_content_is_equal() -> None:
    first, second = blocked(), blocked().permute((1, 0, 2, 3)).permute((1, 0, 2, 3))
    assert first is not second
    assert first == second
    assert hash(first) == hash(second)
    assert first.layout() == second.layout()
    assert isinstance(first.layout(), Opaque)


def test_different_content_differs() -> None:
    plain = Descriptor.of((2, 3, 5))
    others = [
        Descriptor.of((2, 5, 3)),
        Descriptor.of((2, 3, 5), DataType.BFLOAT16),
        Descriptor.of((2, 3, 5), DataType.FLOAT, Strided((15, 1, 3))),
        Descriptor.any((2, 3, 5)),
    ]
    assert len({plain, *others}) == 5


@given(SHAPES, st.randoms())
def test_strides_come_back(dims: tuple[int, ...], random: np.random.Generator) -> None:
    axes = list(range(len(dims)))
    random.shuffle(axes)
    steps = [0] * len(dims)
    step = 1
    for axis in axes:
        steps[axis] = step
        step *= dims[axis]
    layout = Strided.of(dims, steps)
    spec = TensorSpec(dims, DataType.FLOAT, layout=layout)
    assert accepts_dense("X", spec)
    found = Descriptor.of(spec)
    assert found.dims == dims
    assert found.nbytes == 4 * math.prod(dims)
    back = found.layout()
    assert isinstance(back, Strided)
    pairs = zip(back.steps(Dim(dims)), layout.steps(Dim(dims)), dims, strict=True)
    assert all(mine == theirs or extent == 1 for mine, theirs, extent in pairs)


@given(SHAPES, st.randoms())
def test_permute_is_that_of_numpy(dims: tuple[int, ...], random: np.random.Generator) -> None:
    axes = list(range(len(dims)))
    random.shuffle(axes)
    wanted = np.zeros(dims, np.float32).transpose(axes)
    found = Descriptor.of(dims).permute(axes)
    assert found.dims == wanted.shape
    pairs = zip(found.content.strides, wanted.strides, wanted.shape, strict=True)
    assert all(mine * 4 == theirs or extent == 1 for mine, theirs, extent in pairs)


@pytest.mark.parametrize("dims", [(1, 3, 1, 1), (2, 1, 5, 7), (1, 1, 1, 1), (2, 3, 1, 7), (2, 3, 5)])
def test_channels_last_is_told_apart_from_extents_of_one(dims: tuple[int, ...]) -> None:
    assert Descriptor.channels_last(dims).layout() == channels_last(dims)


def test_split_axes_lie_as_the_blob() -> None:
    grouped = Descriptor.of((4, 3, 2, 5, 7))
    assert grouped.layout((12, 2, 5, 7)) == ROW_MAJOR
    assert Descriptor.of((12, 2, 5, 7)).reshape((4, 3, 2, 5, 7)) == grouped
    with pytest.raises(Unimplemented, match="cannot be seen as"):
        blocked().reshape((5, 4, 6, 3, 3))


def test_no_axes_are_one_element() -> None:
    assert Descriptor.of(()).dims == (1,)
    assert Descriptor.of(()).layout(()) == ROW_MAJOR


def test_what_is_not_taken() -> None:
    gaps = TensorSpec((2, 3), DataType.FLOAT, layout=Strided((6, 2)))
    repeated = TensorSpec((2, 3), DataType.FLOAT, layout=Strided((0, 1)))
    foreign = TensorSpec((2, 3), DataType.FLOAT, layout=Opaque("other", None, 24))
    assert [accepts_dense("X", spec) for spec in (gaps, repeated, foreign)] == [False, False, False]
    assert [accepts_strided("X", spec) for spec in (gaps, repeated, foreign)] == [True, False, False]
    with pytest.raises(Unimplemented, match="no element type int64"):
        Descriptor.of((2, 3), DataType.INT64)
    with pytest.raises(Unimplemented, match="at most 12 axes"):
        Descriptor.of((1,) * 13)
    with pytest.raises(Unimplemented, match="engine 'other'"):
        Descriptor.of(foreign)


def test_text() -> None:
    assert str(Descriptor.channels_last((2, 3, 5, 7))) == "float32[2, 3, 5, 7] acdb"
    assert Descriptor.any((2, 3)).tag == "any"
    assert blocked().tag[0] == "A"


LAYOUTS: list[tuple[str, Layout]] = [
    ("row-major", ROW_MAJOR),
    ("channels-last", channels_last((20, 6, 3, 3))),
    ("axes reversed", Strided((1, 20, 120, 360))),
]


@pytest.mark.parametrize("layout", [pytest.param(layout, id=name) for name, layout in LAYOUTS])
def test_values_survive_reorders_there_and_back(layout: Layout) -> None:
    values = np.random.default_rng(0).standard_normal((20, 6, 3, 3)).astype("f")
    source = Tensor(values.shape, layout=layout)
    source.array[...] = values
    inner, back = Tensor(values.shape, layout=blocked().layout()), Tensor(values.shape, layout=layout)
    context = current_context(CPUPlace())
    bind_reorder(source, inner, context)()
    np.testing.assert_array_equal(inner.plain(), values)
    bind_reorder(inner, back, context)()
    np.testing.assert_array_equal(back.array, values)


def test_blocks_are_padded_with_zero() -> None:
    layout = blocked().layout()
    assert isinstance(layout, Opaque)
    assert layout.nbytes > 20 * 6 * 9 * 4


def test_filters_with_sums_behind_them_are_others() -> None:
    """Filters of bytes whose other side has a zero point carry sums: the same extents and blocks, but larger."""
    image, filters = Descriptor.channels_last((2, 4, 5, 7), DataType.UINT8), Descriptor.any((6, 4, 3, 3), DataType.INT8)
    result = Descriptor.channels_last((2, 6, 3, 5), DataType.UINT8)
    numbers = (1, 1), (0, 0), (0, 0), (0, 0)
    plain, shifted = (
        describe(
            *("convolution_forward", "forward_inference", "convolution_direct"),
            *(image, filters, None, result, *numbers),
            attributes=Attributes(zero_points=zero_points),
        ).argument("weights")
        for zero_points in ((), ("src",))
    )
    assert plain.content == shifted.content
    assert plain != shifted
