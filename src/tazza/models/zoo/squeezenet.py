"""SqueezeNet 1.1: fire modules, each a 1x1 squeeze and then 1x1 and 3x3 expansions side by side.

Letters: N images, K classes. Source: Iandola et al. 2016, arXiv 1602.07360, section 3; version 1.1 is its authors' own
revision, with 2.4 times fewer operations: 3x3 instead of 7x7 in the first convolution, pooling earlier.
"""

from __future__ import annotations

from tazza.models import layers
from tazza.models.initializer import gaussian
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.zoo.classifier import check_size, classifier, scaled

FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Channels of fire2 ... fire9: of the squeeze, and of each of the two expansions."""
POOLED_AFTER = ("fire3", "fire5")


def fire(model: Model, x: str, name: str, dim_in: int, squeeze: int, expand: int) -> BlobReference:
    """Add a fire module: (N, dim_in, H, W) -> (N, 2 * expand, H, W)."""
    squeezed = layers.conv(model, x, f"{name}/squeeze1x1", dim_in, squeeze, 1)
    squeezed = layers.relu(model, squeezed, squeezed)
    branches: list[str] = []
    for kernel in (1, 3):
        y = layers.conv(model, squeezed, f"{name}/expand{kernel}x{kernel}", squeeze, expand, kernel, pad=kernel // 2)
        branches.append(layers.relu(model, y, y))
    return layers.concat(model, branches, f"{name}/concat")


@classifier(channels=3, size=224, classes=1000)
def squeezenet_scores(
    model: Model,
    data: str,
    *,
    channels: int = 3,
    size: int = 224,
    classes: int = 1000,
    is_test: bool,
    width: float = 1.0,
    dropout: float = 0.5,
) -> BlobReference:
    """Add SqueezeNet 1.1 with `width` times its channels; return its scores (N, K).

    >>> from tazza.models.zoo import CLASSIFIERS
    >>> model = CLASSIFIERS["squeezenet"].inference()
    >>> sum(op.type == "Conv" for op in model.net.proto.op)
    26
    """
    check_size("squeezenet", size, 31)
    dim = scaled(64, width)
    x = layers.conv(model, data, "conv1", channels, dim, 3, stride=2)
    x = layers.relu(model, x, x)
    x = layers.max_pool(model, x, "pool1", 3, stride=2)
    for position, (squeeze, expand) in enumerate(FIRES, 2):
        name, expanded = f"fire{position}", scaled(expand, width)
        x, dim = fire(model, x, name, dim, scaled(squeeze, width), expanded), 2 * expanded
        if name in POOLED_AFTER:
            x = layers.max_pool(model, x, f"pool{name[-1]}", 3, stride=2)
    if dropout:
        x = layers.dropout(model, x, "drop9", ratio=dropout, is_test=is_test)
    x = layers.conv(model, x, "conv10", dim, classes, 1, weight=gaussian(std=0.01))
    x = layers.relu(model, x, x)
    x = layers.average_pool(model, x, "pool10", global_pooling=1)  # (N, K, 1, 1)
    return layers.reshape(model, x, "pool10/flat", [0, -1])
