"""A reader of text lines: pictures of numbers become their digits, though nobody says where in a line a digit stands.

    python examples/ctc_reader.py

A line is a picture (16, 72) of three to seven digits, of unlike widths and heights, with gaps of chance, in noise.
Convolutions turn it into a sequence of 36 columns, each of which has seen some columns beside it; at each step there
are scores of ten digits and a blank. CTC sums over all ways to place the labels, so that lines and their texts are all
that training needs.

The result is the share of digits that are wrong, missing or too many, in lines that training never saw, and that of
lines without an error.

Source: Graves et al. 2006, "Connectionist temporal classification".
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tazza import Model, Workspace
from tazza.models.net import BlobReference
from tazza.models.optimizer import adam

FONT = """
.##.  ..#.  .##.  ###.  ..#.  ####  .##.  ####  .##.  .##.
#..#  .##.  #..#  ...#  .##.  #...  #...  ...#  #..#  #..#
#..#  ..#.  ...#  .##.  #.#.  ###.  ###.  ..#.  .##.  .###
#..#  ..#.  ..#.  ...#  ####  ...#  #..#  .#..  #..#  ...#
#..#  ..#.  .#..  #..#  ..#.  #..#  #..#  .#..  #..#  ...#
.##.  .###  ####  .##.  ..#.  .##.  .##.  .#..  .##.  .##.
"""
"""The digits 0 to 9, 6 rows of 4 columns each."""
HEIGHT, WIDTH = 16, 72
STEPS = WIDTH // 2
SYMBOLS = 11
"""Ten digits behind the blank, which is symbol 0."""
CHANNELS, COLUMN = (16, 32), 64
SEEN = 7
"""Columns that a step sees."""
Pictures = NDArray[np.float32]


def glyphs() -> list[NDArray[np.float32]]:
    """Return the ten digits as arrays (6, 4) of 0 and 1."""
    rows = [line.split() for line in FONT.split("\n") if line]
    return [np.array([[mark == "#" for mark in row[digit]] for row in rows], np.float32) for digit in range(10)]


@dataclass(frozen=True)
class Lines:
    """Pictures (N, 1, 16, 72) of lines, and the digits of each."""

    pictures: Pictures
    texts: list[list[int]]

    def labels(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the symbols of all lines one behind the other, and how many each has."""
        flat = [digit + 1 for text in self.texts for digit in text]
        return np.array(flat, np.int32), np.array([len(text) for text in self.texts], np.int32)


def draw(count: int, random: np.random.Generator) -> Lines:
    """Draw lines of three to seven digits."""
    digits, pictures, texts = glyphs(), np.zeros((count, 1, HEIGHT, WIDTH), np.float32), list[list[int]]()
    for picture in pictures:
        text: list[int] = random.integers(0, 10, random.integers(3, 8)).tolist()
        left = int(random.integers(0, 4))
        for digit in text:
            tall, wide = int(random.integers(9, 14)), int(random.integers(5, 8))
            glyph: Pictures = digits[digit][np.arange(tall) * 6 // tall][:, np.arange(wide) * 4 // wide]
            top = int(random.integers(0, HEIGHT - tall + 1))
            right = min(left + wide, WIDTH)
            picture[0, top : top + tall, left:right] += glyph[:, : right - left]
            left = right + int(random.integers(1, 4))
        texts.append(text)
    pictures += random.normal(0, 0.25, pictures.shape).astype(np.float32)
    return Lines(pictures, texts)


def scores(model: Model, count: int) -> BlobReference:
    """Add the net; return the scores (36, N, 11) of each step of N lines."""
    x: str = "pictures"
    channels = 1
    for number, width in enumerate(CHANNELS, 1):
        x = model.relu(model.conv(x, f"conv{number}", channels, width, 3, pad=1), f"conv{number}")
        pool = [2, 2] if number == 1 else [2, 1]
        x, channels = model.max_pool(x, f"pool{number}", pool, stride=pool), width
    seen = model.conv(x, "columns", channels, COLUMN, [HEIGHT // 4, SEEN], pads=[0, SEEN // 2, 0, SEEN // 2])
    turned = model.net.add("Transpose", [model.relu(seen, seen)], "turned", axes=[3, 0, 1, 2])  # (36, N, 64, 1)
    sequence = model.reshape(turned, "sequence", [STEPS, count, COLUMN])
    return model.fc(sequence, "scores", COLUMN, SYMBOLS, axis=2)


def build(batch: int, test: int, rate: float) -> tuple[Model, Model]:
    """Return a model that trains on batches, and one with its parameters that reads `test` lines."""
    training = Model("reader")
    found = scores(training, batch)
    training.net.add("CTC", [found, "labels", "label_lengths"], ["slopes", "costs", "unused"])
    training.add_gradients([training.averaged_loss("costs", "loss")])
    adam(training, rate)
    reading = Model("reading", parameters_of=training)
    read = scores(reading, test)
    reading.net.add("CTCGreedyDecoder", [read], ["read_lengths", "read"])
    return training, reading


def feed(workspace: Workspace, lines: Lines) -> None:
    """Give the net lines and their texts."""
    labels, lengths = lines.labels()
    workspace.feed("pictures", lines.pictures)
    workspace.feed("labels", labels)
    workspace.feed("label_lengths", lengths)


def wrong(read: Sequence[int], text: Sequence[int]) -> int:
    """Return how many digits have to be changed, put in or taken out.

    >>> wrong([1, 2, 2, 4], [1, 2, 3])
    2
    """
    row = list(range(len(text) + 1))
    for place, digit in enumerate(read, 1):
        last, row[0] = row[0], place
        for other, wanted in enumerate(text, 1):
            last, row[other] = row[other], min(row[other] + 1, row[other - 1] + 1, last + (digit != wanted))
    return row[-1]


@dataclass(frozen=True)
class Result:
    """Shares of digits that were read wrong, and of lines that were read right."""

    wrong_digits: float
    right_lines: float


def train(iterations: int, *, batch: int = 32, test: int = 200, rate: float = 3e-3) -> Result:
    """Train on lines that are drawn as they are needed, and read others."""
    random = np.random.default_rng(1)
    training, reading = build(batch, test, rate)
    workspace = Workspace()
    feed(workspace, draw(batch, random))
    workspace.run_net_once(training.init_net.proto)
    net = workspace.create_net(training.net.proto)
    for iteration in range(iterations):
        feed(workspace, draw(batch, random))
        net.run()
        if iteration % 50 == 0:
            print(f"iteration {iteration}: {float(workspace.fetch('loss')):.2f} nats a line")
    lines = draw(test, np.random.default_rng(2))
    feed(workspace, lines)
    workspace.create_net(reading.net.proto).run()
    lengths = np.asarray(workspace.fetch("read_lengths"))
    parts = np.split(np.asarray(workspace.fetch("read")) - 1, np.cumsum(lengths)[:-1])
    workspace.reset()
    errors = [wrong(part.tolist(), text) for part, text in zip(parts, lines.texts, strict=True)]
    return Result(sum(errors) / sum(map(len, lines.texts)), float(np.mean([error == 0 for error in errors])))


def main(words: Sequence[str] | None = None) -> Result:
    """Train, print how lines are read, and return it."""
    parser = argparse.ArgumentParser(description="Train a reader of lines of digits.")
    parser.add_argument("--iterations", type=int, default=800)
    result = train(parser.parse_args(words).iterations)
    print(f"{100 * result.wrong_digits:.1f}% of the digits wrong, {100 * result.right_lines:.1f}% of the lines right")
    return result


if __name__ == "__main__":
    main()
