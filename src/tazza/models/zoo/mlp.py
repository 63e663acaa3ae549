"""MLP: fully connected layers with rectifiers between them, 784-256-256-10 by default.

Letters: N images, K classes. Source: Rumelhart, Hinton, Williams 1986; the sizes are usual for 28 x 28 digits.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.models import layers
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.zoo.classifier import classifier

HIDDEN = (256, 256)


@classifier(channels=1, size=28, classes=10)
def mlp_scores(
    model: Model,
    data: str,
    *,
    channels: int = 1,
    size: int = 28,
    classes: int = 10,
    is_test: bool,
    hidden: Sequence[int] = HIDDEN,
) -> BlobReference:
    """Add a multi-layer perceptron with these numbers of hidden units; return its scores (N, K).

    `data` may have any shape that begins with N: each image is flattened.

    >>> from tazza.models.zoo import CLASSIFIERS
    >>> model = CLASSIFIERS["mlp"].inference()
    >>> [op.type for op in model.net.proto.op]
    ['FC', 'Relu', 'FC', 'Relu', 'FC', 'Softmax']
    """
    del is_test  # nothing in it behaves otherwise when it trains
    x, width = data, channels * size * size
    for position, units in enumerate(hidden, 1):
        x = layers.fc(model, x, f"fc{position}", width, units)
        x, width = layers.relu(model, x, x), units
    return layers.fc(model, x, "pred", width, classes)
