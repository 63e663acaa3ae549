"""ResNet-50: bottleneck blocks with shortcuts.

Letters: N images, K classes. Source: He, Zhang, Ren, Sun 2015, arXiv 1512.03385, table 1. As in the net that Caffe2
published, a block that halves does so in its 3x3 convolution and not in the first 1x1, which is called version 1.5.
Names of blobs are those of that net.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.models import layers
from tazza.models.initializer import msra
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.zoo.classifier import check_size, classifier, scaled

BLOCKS = (3, 4, 6, 3)
EXPANSION = 4
"""Channels behind a block over those inside of it."""


def _conv_bn(
    model: Model, x: str, name: str, dims: tuple[int, int], kernel: int, *, stride: int = 1, is_test: bool, bn: str = ""
) -> BlobReference:
    """Add a convolution without bias, and the normalization `bn` (by default the name and `_bn`)."""
    pad = kernel // 2
    y = layers.conv(model, x, name, *dims, kernel, stride=stride, pad=pad, use_bias=False, weight=msra())
    return layers.spatial_bn(model, y, bn if bn else f"{name}_bn", dims[1], is_test=is_test)


def bottleneck(
    model: Model, x: str, name: str, dims: tuple[int, int], *, stride: int, projects: bool, is_test: bool
) -> BlobReference:
    """Add a block: (N, dims[0], H, W) -> (N, 4 * dims[1], H / stride, W / stride).

    Where it `projects`, the shortcut goes through a 1x1 convolution, else it is x itself.
    """
    dim_in, dim = dims
    dim_out = EXPANSION * dim
    y = _conv_bn(model, x, f"{name}_branch2a", (dim_in, dim), 1, is_test=is_test)
    y = layers.relu(model, y, y)
    y = _conv_bn(model, y, f"{name}_branch2b", (dim, dim), 3, stride=stride, is_test=is_test)
    y = layers.relu(model, y, y)
    y = _conv_bn(model, y, f"{name}_branch2c", (dim, dim_out), 1, is_test=is_test)
    shortcut = x
    if projects:
        shortcut = _conv_bn(model, x, f"{name}_branch1", (dim_in, dim_out), 1, stride=stride, is_test=is_test)
    y = layers.sum(model, [y, shortcut], y)
    return layers.relu(model, y, y)


@classifier(channels=3, size=224, classes=1000)
def resnet50_scores(
    model: Model,
    data: str,
    *,
    channels: int = 3,
    size: int = 224,
    classes: int = 1000,
    is_test: bool,
    width: float = 1.0,
    blocks: Sequence[int] = BLOCKS,
) -> BlobReference:
    """Add ResNet-50 with `width` times its channels, or with other numbers of blocks; return its scores (N, K).

    >>> from tazza.models.zoo import CLASSIFIERS
    >>> model = CLASSIFIERS["resnet50"].inference()
    >>> sum(op.type in ("Conv", "FC") for op in model.net.proto.op) - 4  # the four projections are not counted
    50
    """
    check_size("resnet50", size, 2)
    dim = scaled(64, width)
    x = _conv_bn(model, data, "conv1", (channels, dim), 7, stride=2, is_test=is_test, bn="res_conv1_bn")
    x = layers.relu(model, x, x)
    x = layers.max_pool(model, x, "pool1", 3, stride=2, pad=1)
    for stage, count in enumerate(blocks):
        inner = scaled(64, width) * 2**stage
        for position in range(count):
            stride = 2 if stage > 0 and position == 0 else 1
            name = f"res{stage + 2}_{position}"
            x = bottleneck(model, x, name, (dim, inner), stride=stride, projects=position == 0, is_test=is_test)
            dim = EXPANSION * inner
    x = layers.average_pool(model, x, "pool5", global_pooling=1)
    return layers.fc(model, x, "pred", dim, classes)
