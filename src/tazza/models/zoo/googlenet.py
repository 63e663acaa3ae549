"""GoogLeNet, that is Inception v1: nine inception modules, without the two auxiliary classifiers.

Letters: N images, K classes. Source: Szegedy et al. 2014, arXiv 1409.4842, section 5 and table 1. Local response
normalization, the ratio of dropout and the names of blobs are those of the net that Caffe and Caffe2 published.
"""

from __future__ import annotations

from dataclasses import astuple

from tazza.data_class import dataclass
from tazza.models import layers
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.models.zoo.classifier import check_size, classifier, scaled


@dataclass(frozen=True, slots=True)
class Inception:
    """Channels of a module's branches: 1x1; 3x3 and what leads to it; 5x5 and what leads to it; pooling."""

    one: int
    three_reduce: int
    three: int
    five_reduce: int
    five: int
    pool: int

    @property
    def dim_out(self) -> int:
        """Channels of all branches together."""
        return self.one + self.three + self.five + self.pool

    def times(self, width: float) -> Inception:
        """Return the module with `width` times the channels."""
        return Inception(*(scaled(channels, width) for channels in astuple(self)))


MODULES = {
    "3a": Inception(64, 96, 128, 16, 32, 32),
    "3b": Inception(128, 128, 192, 32, 96, 64),
    "4a": Inception(192, 96, 208, 16, 48, 64),
    "4b": Inception(160, 112, 224, 24, 64, 64),
    "4c": Inception(128, 128, 256, 24, 64, 64),
    "4d": Inception(112, 144, 288, 32, 64, 64),
    "4e": Inception(256, 160, 320, 32, 128, 128),
    "5a": Inception(256, 160, 320, 32, 128, 128),
    "5b": Inception(384, 192, 384, 48, 128, 128),
}
POOLED_AFTER = ("3b", "4e")


def _conv(model: Model, x: str, name: str, dim_in: int, dim_out: int, kernel: int, stride: int = 1) -> BlobReference:
    y = layers.conv(model, x, name, dim_in, dim_out, kernel, stride=stride, pad=kernel // 2)
    return layers.relu(model, y, y)


def _halve(model: Model, x: str, name: str) -> BlobReference:
    """Add a pooling that gives ceil(H / 2): one row and one column of padding at the far sides."""
    return layers.max_pool(model, x, name, 3, stride=2, pad=[0, 0, 1, 1])


def _lrn(model: Model, x: str, name: str) -> BlobReference:
    return layers.lrn(model, x, name, size=5, alpha=1e-4, beta=0.75, bias=1.0)


def inception(model: Model, x: str, name: str, dim_in: int, module: Inception) -> BlobReference:
    """Add a module: (N, dim_in, H, W) -> (N, module.dim_out, H, W)."""
    one = _conv(model, x, f"{name}/1x1", dim_in, module.one, 1)
    three = _conv(model, x, f"{name}/3x3_reduce", dim_in, module.three_reduce, 1)
    three = _conv(model, three, f"{name}/3x3", module.three_reduce, module.three, 3)
    five = _conv(model, x, f"{name}/5x5_reduce", dim_in, module.five_reduce, 1)
    five = _conv(model, five, f"{name}/5x5", module.five_reduce, module.five, 5)
    pool = layers.max_pool(model, x, f"{name}/pool", 3, stride=1, pad=1)
    pool = _conv(model, pool, f"{name}/pool_proj", dim_in, module.pool, 1)
    return layers.concat(model, [one, three, five, pool], f"{name}/output")


@classifier(channels=3, size=224, classes=1000)
def googlenet_scores(
    model: Model,
    data: str,
    *,
    channels: int = 3,
    size: int = 224,
    classes: int = 1000,
    is_test: bool,
    width: float = 1.0,
    dropout: float = 0.4,
) -> BlobReference:
    """Add Inception v1 with `width` times its channels; return its scores (N, K).

    >>> from tazza.models.zoo import CLASSIFIERS
    >>> model = CLASSIFIERS["googlenet"].inference()
    >>> sum(op.type == "Conv" for op in model.net.proto.op), sum(op.type == "LRN" for op in model.net.proto.op)
    (57, 2)
    """
    check_size("googlenet", size, 32)
    dim, dim_out = scaled(64, width), scaled(192, width)
    x = _conv(model, data, "conv1/7x7_s2", channels, dim, 7, stride=2)
    x = _lrn(model, _halve(model, x, "pool1/3x3_s2"), "pool1/norm1")
    x = _conv(model, x, "conv2/3x3_reduce", dim, dim, 1)
    x = _conv(model, x, "conv2/3x3", dim, dim_out, 3)
    x, dim = _halve(model, _lrn(model, x, "conv2/norm2"), "pool2/3x3_s2"), dim_out
    for name, published in MODULES.items():
        module = published.times(width)
        x, dim = inception(model, x, f"inception_{name}", dim, module), module.dim_out
        if name in POOLED_AFTER:
            x = _halve(model, x, f"pool{name[0]}/3x3_s2")
    x = layers.average_pool(model, x, "pool5/7x7_s1", global_pooling=1)
    if dropout:
        x = layers.dropout(model, x, "pool5/drop", ratio=dropout, is_test=is_test)
    return layers.fc(model, x, "loss3/classifier", dim, classes)
