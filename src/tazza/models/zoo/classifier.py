"""What the classifiers of the zoo share: one name, one builder of scores, nets that predict and nets that train.

    model = CLASSIFIERS["resnet50"].inference()              # data -> softmax
    model = CLASSIFIERS["resnet50"].training(classes=10)     # data, label -> softmax, loss, accuracy, and gradients

Letters: N images, C channels, S height and width, K classes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.models import layers
from tazza.models.loss_scale import LossScale, add_scaled_gradients
from tazza.models.mixed_precision import in_sixteen_bits
from tazza.models.model import Model
from tazza.models.net import BlobReference
from tazza.registry import Registry
from tazza.tensor import DataType

DATA, LABEL = "data", "label"
"""Blobs that a net of the zoo reads: images (N, C, S, S) as float32, and classes (N) as int32."""
SOFTMAX, LOSS, ACCURACY = "softmax", "loss", "accuracy"
"""Blobs that it makes: probabilities (N, K); loss and accuracy, both of rank 0, when it trains."""

Builder = Callable[..., BlobReference]
"""`builder(model, data, *, channels, size, classes, is_test, **options)` adds the layers, returns scores (N, K)."""


@dataclass(frozen=True, slots=True)
class Classifier:
    """A net that sorts images: the builder of its scores, and the sizes for which it was published.

    Options of all methods: `channels`, `size` and `classes` instead of the published ones, and those of the builder.
    """

    name: str
    scores: Builder
    channels: int
    size: int
    classes: int

    def input_shape(self, batch: int, *, channels: int | None = None, size: int | None = None) -> tuple[int, ...]:
        """Return (N, C, S, S)."""
        side = self.size if size is None else size
        return (batch, self.channels if channels is None else channels, side, side)

    def inference(self, **options: Any) -> Model:
        """Return a model whose net makes `softmax` out of `data`, and declares it as output.

        Raises:
            ShapeError: the net is not built for images of this size.
        """
        model = Model(self.name)
        layers.softmax(model, self._scores(model, is_test=True, **options), SOFTMAX)
        model.net.add_external_output(SOFTMAX)
        return model

    def training(
        self,
        *,
        accuracy: bool = True,
        scaling: LossScale | None = None,
        activations: DataType | str = DataType.FLOAT,
        **options: Any,
    ) -> Model:
        """Return a model whose net makes `softmax`, `loss` and the gradients out of `data` and `label`.

        An optimizer comes after it. `accuracy` says whether the share of right answers is computed as well; with
        `scaling` gradients are computed times a scale, see `models.loss_scale`; with `activations` of float16 or
        bfloat16 scores are computed in 16 bits, on devices alone, see `models.mixed_precision`.

        Raises:
            ShapeError: the net is not built for images of this size.
            DTypeError: activations of another type.
        """
        model = Model(f"{self.name}_train")
        scores = self._scores(model, is_test=False, **options)
        if DataType.of(activations) is not DataType.FLOAT:
            scores = in_sixteen_bits(model, scores, activations)
        softmax, loss = layers.softmax_with_loss(model, scores, LABEL, [SOFTMAX, LOSS])
        if accuracy:
            layers.accuracy(model, softmax, LABEL, ACCURACY)
        if scaling is None:
            model.add_gradients([loss])
        else:
            add_scaled_gradients(model, loss, scaling)
        return model

    def _scores(self, model: Model, **options: Any) -> BlobReference:
        chosen = {"channels": self.channels, "size": self.size, "classes": self.classes, **options}
        return self.scores(model, DATA, **chosen)


CLASSIFIERS: Registry[str, Classifier] = Registry("classifier")
"""By name; every module of the zoo adds its own."""


def classifier(*, channels: int, size: int, classes: int) -> Callable[[Builder], Builder]:
    """Return a decorator that registers a builder of scores under its name, with the published sizes."""

    def decorate(builder: Builder) -> Builder:
        name = builder.__name__.removesuffix("_scores")
        doc = builder.__doc__ if builder.__doc__ is not None else ""
        CLASSIFIERS.register(name, Classifier(name, builder, channels, size, classes), help=doc.partition("\n")[0])
        return builder

    return decorate


def scaled(channels: int, width: float) -> int:
    """Return a number of channels times `width`, rounded, at least 1.

    >>> scaled(64, 0.25), scaled(3, 0.1)
    (16, 1)
    """
    return max(1, round(channels * width))


def check_size(name: str, size: int, least: int) -> None:
    """Raise unless a net can take images of this size.

    Raises:
        ShapeError: they are smaller than `least`, so that a layer would have nothing to look at.
    """
    if size < least:
        raise ShapeError(f"{name} takes images of at least {least} x {least} pixels, not {size} x {size}")
