"""MobileNet v2: inverted residuals, whose wide middle is a convolution of each channel by itself.

Letters: N images, K classes. Source: Sandler et al. 2018, arXiv 1801.04381, section 3 and table 2; dropout before the
classifier as in its authors' code. Relu6 is `Clip` from 0 to 6.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.models import layers
from tazza.models.initializer import msra
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.zoo.classifier import check_size, classifier

STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Table 2: expansion t, channels c, repetitions n, stride s of the first."""
FIRST, LAST = 32, 1280
DIVISOR = 8


def rounded(channels: float, divisor: int = DIVISOR) -> int:
    """Return the multiple of `divisor` next to a number of channels, at least one, never less than 90 % of it.

    >>> rounded(32 * 0.75), rounded(24 * 0.35), rounded(1)
    (24, 8, 8)
    """
    near = max(divisor, int(channels + divisor / 2) // divisor * divisor)
    return near + divisor if near < 0.9 * channels else near


def _conv_bn(
    model: Model,
    x: str,
    name: str,
    dims: tuple[int, int],
    kernel: int,
    *,
    stride: int = 1,
    group: int | None = None,
    clips: bool = True,
    is_test: bool,
) -> BlobReference:
    """Add a convolution without bias, its normalization, and Relu6 unless told otherwise."""
    y = layers.conv(
        model, x, name, *dims, kernel, stride=stride, pad=kernel // 2, group=group, use_bias=False, weight=msra()
    )
    y = layers.spatial_bn(model, y, f"{name}_bn", dims[1], is_test=is_test)
    return layers.clip(model, y, y, 0, 6) if clips else y


def inverted_residual(
    model: Model, x: str, name: str, dims: tuple[int, int], *, expansion: int, stride: int, is_test: bool
) -> BlobReference:
    """Add a block: (N, dims[0], H, W) -> (N, dims[1], H / stride, W / stride); its end is linear."""
    dim_in, dim_out = dims
    dim, y = dim_in * expansion, x
    if expansion > 1:
        y = _conv_bn(model, y, f"{name}_expand", (dim_in, dim), 1, is_test=is_test)
    y = _conv_bn(model, y, f"{name}_depthwise", (dim, dim), 3, stride=stride, group=dim, is_test=is_test)
    y = _conv_bn(model, y, f"{name}_project", (dim, dim_out), 1, clips=False, is_test=is_test)
    return layers.sum(model, [y, x], y) if stride == 1 and dim_in == dim_out else y


@classifier(channels=3, size=224, classes=1000)
def mobilenet_v2_scores(
    model: Model,
    data: str,
    *,
    channels: int = 3,
    size: int = 224,
    classes: int = 1000,
    is_test: bool,
    width: float = 1.0,
    stages: Sequence[tuple[int, int, int, int]] = STAGES,
    dropout: float = 0.2,
) -> BlobReference:
    """Add MobileNet v2 with `width` times its channels and the stages of table 2, or others; return its scores (N, K).

    >>> from tazza.models.zoo import CLASSIFIERS
    >>> model = CLASSIFIERS["mobilenet_v2"].inference()
    >>> sum(op.type == "Conv" for op in model.net.proto.op)
    52
    """
    check_size("mobilenet_v2", size, 2)
    dim = rounded(FIRST * width)
    x = _conv_bn(model, data, "conv1", (channels, dim), 3, stride=2, is_test=is_test)
    for stage, (expansion, published, count, first_stride) in enumerate(stages, 1):
        dim_out = rounded(published * width)
        for position in range(count):
            stride = first_stride if position == 0 else 1
            name = f"block{stage}_{position}"
            x = inverted_residual(model, x, name, (dim, dim_out), expansion=expansion, stride=stride, is_test=is_test)
            dim = dim_out
    last = rounded(LAST * max(1.0, width))
    x = _conv_bn(model, x, "conv_last", (dim, last), 1, is_test=is_test)
    x = layers.average_pool(model, x, "pool", global_pooling=1)
    if dropout:
        x = layers.dropout(model, x, "drop", ratio=dropout, is_test=is_test)
    return layers.fc(model, x, "pred", last, classes)
