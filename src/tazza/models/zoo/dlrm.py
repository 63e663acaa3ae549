"""DLRM: a net that says how likely a click is, from numbers and from rows of tables that indices pick.

Letters: N examples, F numbers of each, T tables with rows of D. Each table gives an example the sum of the rows that
its bag of indices picks; a perceptron makes D numbers of the F. Of these T + 1 vectors all pairs are multiplied, and a
second perceptron makes the score out of the products and of the first one's result.

    dense (N, F); indices_t (all bags of table t, one behind the other), lengths_t (N)  ->  score (N, 1)

Source: Naumov et al. 2019, arXiv 1906.00091.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tazza.data_class import dataclass
from tazza.models import layers
from tazza.models.initializer import gaussian, given
from tazza.models.model import Model, ParameterKind
from tazza.models.net import BlobReference

DENSE, LABEL, CLICK, LOSS = "dense", "label", "click", "loss"
"""Blobs: numbers (N, F) and labels (N, 1), both float32; how likely a click is (N, 1); the loss, of rank 0."""


@dataclass(frozen=True, slots=True)
class Dlrm:
    """Sizes of a net.

    Attributes:
        rows: of each table, T numbers.
        numbers: F.
        width: D.
        bottom: outputs of the first perceptron's layers before the last, which has D.
        top: outputs of the second one's layers before the last, which has one.
    """

    rows: tuple[int, ...] = (100_000,) * 26
    numbers: int = 13
    width: int = 64
    bottom: tuple[int, ...] = (512, 256)
    top: tuple[int, ...] = (512, 256)

    @property
    def pairs(self) -> int:
        """Products of two different ones of T + 1 vectors."""
        return (len(self.rows) + 1) * len(self.rows) // 2

    def scores(self, model: Model) -> BlobReference:
        """Add the net; return its scores (N, 1), whose sigmoid is the probability of a click."""
        x = _perceptron(model, DENSE, "bottom", (self.numbers, *self.bottom, self.width))
        x = layers.relu(model, x, x)
        bags = [
            layers.embedding_bag(model, indices(t), lengths(t), f"table{t}", rows, self.width)
            for t, rows in enumerate(self.rows)
        ]
        products = _products(model, [x, *bags])
        joined = layers.concat(model, [x, products], "interaction", axis=1)
        return _perceptron(model, joined, "top", (self.width + self.pairs, *self.top, 1))

    def inference(self) -> Model:
        """Return a model whose net makes `click`, and declares it as output."""
        model = Model("dlrm")
        model.net.add("Sigmoid", self.scores(model), CLICK)
        model.net.add_external_output(CLICK)
        return model

    def training(self) -> Model:
        """Return a model whose net makes `loss` and the gradients, those of tables by rows; an optimizer comes next.

        >>> model = Dlrm((50, 70), numbers=3, width=4, bottom=(5,), top=(6,)).training()
        >>> type(model.gradients["table0_w"]).__name__, len(model.parameters)
        ('RowSlices', 11)
        """
        model = Model("dlrm_train")
        losses = model.net.add("SigmoidCrossEntropyWithLogits", [self.scores(model), LABEL], "losses")
        model.add_gradients([layers.averaged_loss(model, losses, LOSS)])
        model.net.add_external_output(LOSS)
        return model


def indices(table: int) -> str:
    """Return the blob of the indices into a table: int32 or int64, rank 1."""
    return f"indices_{table}"


def lengths(table: int) -> str:
    """Return the blob that says how many of the indices into a table are each example's: int32 (N)."""
    return f"lengths_{table}"


def _perceptron(model: Model, x: str, name: str, widths: Sequence[int]) -> BlobReference:
    """Add layers with rectifiers between them; weights and biases start as in the source."""
    y = BlobReference(x)
    for position, (before, after) in enumerate(pairwise(widths), 1):
        if position > 1:
            y = layers.relu(model, y, y)
        start = gaussian(std=(2 / (before + after)) ** 0.5)
        y = layers.fc(model, y, f"{name}{position}", before, after, weight=start, bias=gaussian(std=after**-0.5))
    return y


def _products(model: Model, vectors: Sequence[BlobReference]) -> BlobReference:
    """Return the products (N, pairs) of each two of the vectors (N, D)."""
    count = len(vectors)
    stacked, _ = model.net.add("Concat", vectors, ["vectors", "vectors_dims"], axis=1, add_axis=1)  # (N, count, D)
    squares = model.net.add("BatchMatMul", [stacked, stacked], "squares", trans_b=1)  # (N, count, count)
    flat = model.net.add("Flatten", squares, "all_products")
    first, second = np.tril_indices(count, -1)
    places = (first * count + second).astype(np.int32)
    chosen = model.add_parameter("pairs", places.shape, given(places), ParameterKind.COMPUTED)
    return model.net.add("BatchGather", [flat, chosen], "products")
