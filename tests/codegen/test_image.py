"""What kernels of our own say of convolutions: what they take, where pixels and filters lie."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.image import (
    accepts_images,
    conv_layouts,
    filter_steps,
    filter_words,
    filters_to_pack,
    float32_conv,
    float32_gradient,
    image_layout,
    image_words,
    lies_as,
)
from tazza.operator import Unsupported, find_schema, operator_def
from tazza.proto import OperatorDef
from tazza.tensor import ROW_MAJOR, DataType, Opaque, Strided, TensorSpec, channels_last

FLOAT = DataType.FLOAT
X, W, b, Y = (TensorSpec(dims, FLOAT) for dims in ((2, 3, 7, 5), (4, 3, 3, 2), (4,), (2, 4, 5, 4)))
CONV = operator_def("Conv", ["X", "W", "b"], ["Y"], kernel_h=3, kernel_w=2)


def asked(definition: OperatorDef, *specs: TensorSpec, out: TensorSpec = Y) -> object:
    """Return what `float32_conv` answers."""
    return float32_conv(find_schema(definition.type).view(definition), specs, [out])


def test_convolutions_that_are_taken() -> None:
    assert asked(CONV, X, W, b) == (X, W, Y)
    with pytest.raises(Unsupported, match="float32"):
        asked(CONV, TensorSpec(X.dims, DataType.DOUBLE), W, b)
    with pytest.raises(Unsupported, match="nothing to compute"):
        asked(CONV, TensorSpec((0, 3, 7, 5), FLOAT), W, b, out=TensorSpec((0, 4, 5, 4), FLOAT))


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_what_overwrites_an_operand_has_dense_channels(order: str) -> None:
    fused = operator_def("FusedConv", ["X", "W", "b", "S"], ["S"], kernel_h=3, kernel_w=2, order=order, operands=1)
    dense = TensorSpec(Y.dims, FLOAT, layout=image_layout(Y, order == "NHWC"))
    assert asked(fused, X, W, b, dense, out=dense) == (X, W, dense)
    other = TensorSpec(Y.dims, FLOAT, layout=image_layout(Y, order != "NHWC"))
    with pytest.raises(Unsupported, match="not dense"):
        asked(fused, X, W, b, other, out=other)


def test_gradients_by_letter() -> None:
    definition = operator_def("ConvGradient", ["X", "W", "dY"], ["dW", "db", "dX"], kernel_h=3, kernel_w=2)
    view = find_schema("ConvGradient").view(definition)
    found = float32_gradient(view, (X, W, Y), (W, b, X))
    assert found == {"X": X, "W": W, "dY": Y, "dW": W, "db": b, "dX": X}
    with pytest.raises(Unsupported):
        float32_gradient(view, (X, W, Y), (TensorSpec((0,), FLOAT), b, X))


@pytest.mark.parametrize("last", [False, True])
def test_steps_reach_what_strides_reach(last: bool) -> None:
    """Of an image whose channels are dense, and of filters that lie anyhow."""
    N, C, H, width = 2, 3, 7, 5
    image: np.ndarray = np.zeros((N, H, width, C), np.float32)
    spec = TensorSpec((N, H, width, C) if last else (N, C, H, width), FLOAT)
    steps = zip(("x_image", "x_row", "x_pixel"), image.strides, strict=False)
    assert image_words("x", spec, last) == {name: step // 4 for name, step in steps}
    filters = np.zeros((4, 6, 3, 2, 5), np.float32)[:, ::2, :, :, 1]
    k, c, y, x = (step // 4 for step in filters.strides)
    lying, dims = (filters.transpose(0, 2, 3, 1), (4, 3, 2, 3)) if last else (filters, (4, 3, 3, 2))
    steps = Strided(tuple(step // 4 for step in lying.strides))
    filters = TensorSpec(dims, FLOAT, layout=steps)
    assert filter_steps(filters, steps, last=last) == (k, c, y, x)
    assert filter_words(filters, steps, last=last) == {"w_k": k, "w_c": c, "w_y": y, "w_x": x}


def test_layouts_by_letter() -> None:
    view = find_schema("Conv").view(CONV)
    last = channels_last(X.shape)
    assert conv_layouts(view, last, ROW_MAJOR, last, 0) == {"X": last, "W": ROW_MAJOR, "Y": last, "b": ROW_MAJOR}
    assert conv_layouts(view, last, ROW_MAJOR, last, 1)["S"] == last


def test_filters_of_a_form_of_our_own() -> None:
    form = Opaque("native/winograd", "a form", 512)
    U = TensorSpec(W.dims, FLOAT, layout=form)
    assert filters_to_pack(str, W, U) == (W, W.layout, "a form")
    for kind, given in ((int, W), (str, U)):
        with pytest.raises(Unsupported):
            filters_to_pack(kind, given, U)
    assert accepts_images("W", W)
    assert not accepts_images("W", U)


def test_steps_that_are_never_taken_do_not_count() -> None:
    row = TensorSpec((4, 1, 3), FLOAT, layout=Strided((3, 77, 1)))
    assert lies_as(row, ROW_MAJOR)
    assert not lies_as(TensorSpec((4, 2, 3), FLOAT, layout=Strided((6, 77, 1))), ROW_MAJOR)
    assert not lies_as(TensorSpec((4, 1, 3), FLOAT, layout=Opaque("e", 1, 48)), ROW_MAJOR)
