"""VGG-16: thirteen 3x3 convolutions in five stages, three fully connected layers.

Letters: N images, K classes. Source: Simonyan, Zisserman 2014, arXiv 1409.1556, table 1, column D.
"""

from __future__ import annotations

from tazza.models import layers
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.zoo.classifier import check_size, classifier, scaled

STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
"""Channels and number of convolutions; a pooling that halves ends each stage."""
HIDDEN = 4096


@classifier(channels=3, size=224, classes=1000)
def vgg16_scores(
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
    """Add VGG-16 with `width` times its channels and hidden units; return its scores (N, K).

    >>> from tazza.models.zoo import CLASSIFIERS
    >>> model = CLASSIFIERS["vgg16"].inference()
    >>> sum(op.type in ("Conv", "FC") for op in model.net.proto.op)
    16
    """
    check_size("vgg16", size, 2 ** len(STAGES))
    x, dim = data, channels
    for stage, (published, count) in enumerate(STAGES, 1):
        for position in range(1, count + 1):
            dim_out = scaled(published, width)
            x = layers.conv(model, x, f"conv{stage}_{position}", dim, dim_out, 3, pad=1)
            x, dim = layers.relu(model, x, x), dim_out
        x = layers.max_pool(model, x, f"pool{stage}", 2, stride=2)
    dim, hidden = dim * (size // 2 ** len(STAGES)) ** 2, scaled(HIDDEN, width)
    for name in ("fc6", "fc7"):
        x = layers.fc(model, x, name, dim, hidden)
        x, dim = layers.relu(model, x, x), hidden
        if dropout:
            x = layers.dropout(model, x, f"{name}_dropout", ratio=dropout, is_test=is_test)
    return layers.fc(model, x, "fc8", dim, classes)
