"""A wide net on a log of clicks: a table of many rows, a few of which each example touches; Adagrad, also by row.

    python examples/wide_clicks.py

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

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tazza import Model, Workspace
from tazza.models.initializer import constant, gaussian
from tazza.tensor.rows import RowSlices

Numbers = NDArray[np.float64]
WIDTH = 8
RATE, EPSILON = 0.1, 1e-6
UPDATES = {"Adagrad": "SparseAdagrad", "row-wise Adagrad": "RowWiseSparseAdagrad"}


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


@dataclass(frozen=True)
class Result:
    """Log losses on what was held back, and the bytes that the update keeps beside the table."""

    loss: float
    mean_rate: float
    best: float
    kept_bytes: int


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


def build(rows: int, update: str) -> tuple[Model, Model]:
    """Return a model that trains by an update of rows, and one with its parameters that predicts: `score`."""
    training = Model("clicks")
    score = _score(training, rows)
    training.net.add("SigmoidCrossEntropyWithLogits", [score, "clicked"], "losses")
    gradients = training.add_gradients([training.averaged_loss("losses", "loss")])
    rate = training.init_net.add("ConstantFill", (), "rate", shape=[1], value=-RATE)
    for parameter in training.parameter_blobs():
        gradient = gradients[parameter]
        per_row = isinstance(gradient, RowSlices) and update == "RowWiseSparseAdagrad"
        shape = [rows] if per_row else list(training.parameters[parameter].shape)
        kept = training.init_net.add("ConstantFill", (), f"{parameter}_squares", shape=shape, value=0.0)
        if isinstance(gradient, RowSlices):
            inputs = [parameter, kept, gradient.indices, gradient.values, rate]
            training.net.add(update, inputs, [parameter, kept], epsilon=EPSILON)
        else:
            training.net.add("Adagrad", [parameter, kept, str(gradient), rate], [parameter, kept], epsilon=EPSILON)
    predicting = Model("predicting", parameters_of=training)
    _score(predicting, rows)
    return training, predicting


def _score(model: Model, rows: int) -> str:
    """Add the net: rows of the table are added, and 8 numbers become one."""
    table = model.add_parameter("table", [rows, WIDTH], gaussian(std=0.01))
    picked = model.net.add("SparseLengthsSum", [table, "ids", "lengths"], "picked")
    wide = model.fc(picked, "wide", WIDTH, 1, weight=constant(1.0))
    deep = model.relu(model.fc(picked, "hidden", WIDTH, 16), "hidden")
    return model.add(wide, model.fc(deep, "deep", 16, 1), "score")


def feed(workspace: Workspace, log: Log) -> None:
    """Give the net a part of a log."""
    workspace.feed("ids", log.ids)
    workspace.feed("lengths", log.lengths)
    workspace.feed("clicked", log.clicked[:, np.newaxis])


def train(log: Log, test: Log, rows: int, update: str, *, batch: int = 256) -> Result:
    """Train on a log, and return how the net does on another one."""
    training, predicting = build(rows, update)
    workspace = Workspace()
    feed(workspace, log.part(0, batch))
    workspace.run_net_once(training.init_net.proto)
    net = workspace.create_net(training.net.proto)
    for first in range(0, len(log.lengths) - batch + 1, batch):
        feed(workspace, log.part(first, first + batch))
        net.run()
    feed(workspace, test)
    workspace.create_net(predicting.net.proto).run()
    scores = np.asarray(workspace.fetch("score"), np.float64).reshape(-1)
    kept = int(np.asarray(workspace.fetch("table_squares")).nbytes)
    workspace.reset()
    rate = np.full(len(test.clicked), log.clicked.mean(), np.float64)
    predicted = 1 / (1 + np.exp(-scores))
    loss, mean_rate, best = (log_loss(test.clicked, each) for each in (predicted, rate, test.probability))
    return Result(loss, mean_rate, best, kept)


def log_loss(clicked: NDArray[np.float32], probability: Numbers) -> float:
    """Return the mean of -log of the probability of what happened."""
    return float(-np.log(np.where(clicked > 0, probability, 1 - probability)).mean())


def main(words: Sequence[str] | None = None) -> dict[str, Result]:
    """Train by both updates, print how they do, and return it."""
    parser = argparse.ArgumentParser(description="Train a wide net on a log of clicks.")
    parser.add_argument("--examples", type=int, default=400_000)
    parser.add_argument("--rows", type=int, default=50_000)
    given = parser.parse_args(words)
    log = draw(given.examples, given.rows)
    held_back = given.examples // 10
    train_log, test = log.part(0, given.examples - held_back), log.part(given.examples - held_back, given.examples)
    found = {name: train(train_log, test, given.rows, update) for name, update in UPDATES.items()}
    for name, result in found.items():
        print(f"{name}: log loss {result.loss:.4f}, keeps {result.kept_bytes:,} bytes")
    one = found["Adagrad"]
    print(f"of the mean rate {one.mean_rate:.4f}, of the hidden weights {one.best:.4f}")
    return found


if __name__ == "__main__":
    main()
