"""LeNet for images of 28 x 28 pixels: two convolutions with pooling, two fully connected layers.

Letters: N images, K classes. Source: LeCun, Bottou, Bengio, Haffner 1998, in the form of Caffe2's tutorial on MNIST.
"""

from __future__ import annotations

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.models import layers
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.zoo.classifier import classifier
from tazza.tensor import DataType

SIZE = 28
"""Height and width of the images, in pixels."""
PIXEL_SCALE = 1 / 256
"""What a byte of an image is multiplied by."""


def pixels(model: Model, data: str, name: str = "data") -> BlobReference:
    """Add what makes bytes (N, 1, 28, 28) numbers from 0 to 1, and ends the backward pass there."""
    as_float = layers.cast(model, data, f"{name}_float", DataType.FLOAT)
    return layers.stop_gradient(model, layers.scale(model, as_float, name, PIXEL_SCALE))


@classifier(channels=1, size=28, classes=10)
def lenet_scores(
    model: Model, data: str, *, channels: int = 1, size: int = 28, classes: int = 10, is_test: bool
) -> BlobReference:
    """Add LeNet; return its scores (N, K).

    Raises:
        ShapeError: the images are not of 28 x 28 pixels.
    """
    del is_test  # nothing in it behaves otherwise when it trains
    if size != SIZE:
        raise ShapeError(f"lenet takes images of {SIZE} x {SIZE} pixels, not {size} x {size}")
    conv1 = layers.conv(model, data, "conv1", channels, 20, 5)
    pool1 = layers.max_pool(model, conv1, "pool1", 2, stride=2)  # (N, 20, 12, 12)
    conv2 = layers.conv(model, pool1, "conv2", 20, 50, 5)
    pool2 = layers.max_pool(model, conv2, "pool2", 2, stride=2)  # (N, 50, 4, 4)
    fc3 = layers.fc(model, pool2, "fc3", 50 * 4 * 4, 500)
    fc3 = layers.relu(model, fc3, fc3)
    return layers.fc(model, fc3, "pred", 500, classes)


def lenet(model: Model, data: str, *, classes: int = 10) -> BlobReference:
    """Add the layers; `data` is (N, 1, 28, 28), the result (N, K): probabilities in the blob `softmax`."""
    return layers.softmax(model, lenet_scores(model, data, classes=classes, is_test=True), "softmax")


@dataclass(frozen=True, slots=True)
class Training:
    """The blobs of a training net that people look at: `softmax` (N, K), `loss` and `accuracy` of rank 0."""

    softmax: BlobReference
    loss: BlobReference
    accuracy: BlobReference


def lenet_training(model: Model, data: str, label: str, *, classes: int = 10) -> Training:
    """Add the layers, loss, accuracy and gradients; an optimizer comes after it.

    >>> from tazza.models import sgd
    >>> model = Model("digits")
    >>> training = lenet_training(model, pixels(model, "images"), "label")
    >>> sgd(model, 0.1, policy="step", stepsize=1, gamma=0.999)
    BlobReference('SgdOptimizer_0_lr_cpu')
    """
    softmax = lenet(model, data, classes=classes)
    cross_entropy = layers.label_cross_entropy(model, softmax, label, "xent")
    loss = layers.averaged_loss(model, cross_entropy, "loss")
    accuracy = layers.accuracy(model, softmax, label, "accuracy")
    model.add_gradients([loss])
    return Training(softmax, loss, accuracy)
