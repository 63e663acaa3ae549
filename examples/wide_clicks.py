"""A wide net on a log of clicks: a table of many rows, a few of which each example touches; Adagrad, also by row.

    tazza train examples/wide_clicks.py
    tazza train examples/wide_clicks.py --set update=RowWiseSparseAdagrad --out out/row-wise

An example has 3 to 12 ids out of 50,000, some of which come often and most hardly ever; a click is drawn from the
logistic function of the sum of their hidden weights. The net picks the rows of its ids from a table (50,000, 8), adds
them (SparseLengthsSum), and a small net on top gives the probability of a click. The gradient of the table is one of
rows, so a step costs what the batch touches, whatever the size of the table.

Adagrad keeps the sum of squares of each number of the table; the row-wise form keeps one of each row, an eighth of the
memory. The result is the log loss on clicks that training never saw, beside that of the mean click rate, and that of
whoever knows the hidden weights, which nobody can beat.

Sources: Duchi, Hazan, Singer 2011 (Adagrad); Cheng et al. 2016, "Wide & deep learning for recommender systems".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tazza import Model, Workspace
from tazza.models.initializer import constant, gaussian
from tazza.models.task import Batch, TrainingTask
from tazza.tensor.rows import RowSlices

Numbers = NDArray[np.float64]
WIDTH = 8
RATE, EPSILON = 0.1, 1e-6
BY_ROW = "RowWiseSparseAdagrad"


@dataclass(frozen=True)
class Log:
    """Examples: ids one behind the other, how many each has, whether it was clicked, and how probable that was."""

    ids: NDArray[np.int32]
    lengths: NDArray[np.int32]
    clicked: NDArray[np.float32]
    probability: Numbers

    def part(self, first: int, last: int) -> Log:
        """Return examples first ... last - 1."""
        ends = np.concatenate([[0], np.cumsum(self.lengths)])
        ids = self.ids[ends[first] : ends[last]]
        return Log(ids, self.lengths[first:last], self.clicked[first:last], self.probability[first:last])


def draw(examples: int, rows: int, seed: int = 1) -> Log:
    """Draw a log: id k comes as often as 1 / (k + 10), and every id has a hidden weight."""
    random = np.random.default_rng(seed)
    weights = random.normal(0, 0.6, rows)
    often = 1 / (np.arange(rows) + 10.0)
    lengths = random.integers(3, 13, examples).astype(np.int32)
    ids = np.asarray(random.choice(rows, int(lengths.sum()), p=often / often.sum()), np.int32)
    ends = np.cumsum(lengths)[:-1]
    sums = np.array([part.sum() for part in np.split(weights[ids], ends)]) - 1.0
    probability = 1 / (1 + np.exp(-sums))
    return Log(ids, lengths, (random.random(examples) < probability).astype(np.float32), probability)


@dataclass
class Clicks(TrainingTask):
    """A tenth of the log is held back; the rest is gone through once."""

    update: str = "SparseAdagrad"
    examples: int = 400_000
    rows: int = 50_000
    examples_per_batch: int = 256

    @cached_property
    def log(self) -> tuple[Log, Log]:
        """What is learned from, and what is tested on."""
        whole, learned = draw(self.examples, self.rows), self.examples - self.examples // 10
        return whole.part(0, learned), whole.part(learned, self.examples)

    def steps(self) -> int:
        """Return how many batches are in the log."""
        return len(self.log[0].lengths) // self.examples_per_batch

    def build(self) -> Model:
        """Return a model that trains by an update of rows."""
        model = Model("clicks")
        model.net.add("SigmoidCrossEntropyWithLogits", [self._score(model), "clicked"], "losses")
        gradients = model.add_gradients([model.averaged_loss("losses", "loss")])
        rate = model.init_net.add("ConstantFill", (), "rate", shape=[1], value=-RATE)
        for parameter in model.parameter_blobs():
            gradient = gradients[parameter]
            shape = self.kept_shape(model.parameters[parameter].shape, gradient)
            kept = model.init_net.add("ConstantFill", (), f"{parameter}_squares", shape=shape, value=0.0)
            if isinstance(gradient, RowSlices):
                inputs = [parameter, kept, gradient.indices, gradient.values, rate]
                model.net.add(self.update, inputs, [parameter, kept], epsilon=EPSILON)
            else:
                model.net.add("Adagrad", [parameter, kept, str(gradient), rate], [parameter, kept], epsilon=EPSILON)
        return model

    def kept_shape(self, shape: tuple[int, ...], gradient: object) -> list[int]:
        """Return the shape of what the update keeps of a parameter."""
        return [shape[0]] if isinstance(gradient, RowSlices) and self.update == BY_ROW else list(shape)

    def build_predictor(self) -> Model:
        """Return a net that predicts: `score` is the logarithm of the odds of a click."""
        model = Model("predicting", parameters_of=self.model)
        for name in ("ids", "lengths"):
            model.net.add_external_input(name)
        model.net.add_external_output(self._score(model))
        return model

    def _score(self, model: Model) -> str:
        """Add the net: rows of the table are added, and 8 numbers become one."""
        table = model.add_parameter("table", [self.rows, WIDTH], gaussian(std=0.01))
        picked = model.net.add("SparseLengthsSum", [table, "ids", "lengths"], "picked")
        wide = model.fc(picked, "wide", WIDTH, 1, weight=constant(1.0))
        deep = model.relu(model.fc(picked, "hidden", WIDTH, 16), "hidden")
        return model.add(wide, model.fc(deep, "deep", 16, 1), "score")

    def batch(self, number: int) -> Batch:
        """Return the next part of the log; behind its end, from its beginning."""
        first = number % self.steps() * self.examples_per_batch
        return blobs_of(self.log[0].part(first, first + self.examples_per_batch))

    def test(self, workspace: Workspace) -> Mapping[str, float]:
        """Return log losses: of the net, of the mean rate of clicks, of who knows the hidden weights; bytes beside."""
        log, test = self.log
        for name, values in blobs_of(test).items():
            workspace.feed(name, values)
        workspace.run_net_once(self.build_predictor().net.proto)
        scores = np.asarray(workspace.fetch("score"), np.float64).reshape(-1)
        rate = np.full(len(test.clicked), log.clicked.mean(), np.float64)
        return {
            "log_loss": log_loss(test.clicked, 1 / (1 + np.exp(-scores))),
            "log_loss_of_mean_rate": log_loss(test.clicked, rate),
            "log_loss_of_hidden_weights": log_loss(test.clicked, test.probability),
            "bytes_beside_table": 4.0 * self.rows * (1 if self.update == BY_ROW else WIDTH),
        }


def blobs_of(log: Log) -> Batch:
    """Return the blobs of a part of a log."""
    return {"ids": log.ids, "lengths": log.lengths, "clicked": log.clicked[:, np.newaxis]}


def log_loss(clicked: NDArray[np.float32], probability: Numbers) -> float:
    """Return the mean of -log of the probability of what happened."""
    return float(-np.log(np.where(clicked > 0, probability, 1 - probability)).mean())
