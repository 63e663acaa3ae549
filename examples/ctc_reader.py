"""A reader of text lines: pictures of numbers become their digits, though nobody says where in a line a digit stands.

    tazza train examples/ctc_reader.py

A line is a picture (16, 72) of three to seven digits, of unlike widths and heights, with gaps of chance, in noise.
Convolutions turn it into a sequence of 36 columns, each of which has seen some columns beside it; at each step there
are scores of ten digits and a blank. CTC sums over all ways to place the labels, so that lines and their texts are all
that training needs.

The result is the share of digits that are wrong, missing or too many, in lines that training never saw, and that of
lines without an error.

Source: Graves et al. 2006, "Connectionist temporal classification".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tazza import Model, Workspace
from tazza.models.net import BlobReference
from tazza.models.optimizer import adam
from tazza.models.task import Batch, TrainingTask

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


@dataclass
class Reader(TrainingTask):
    """Lines are drawn as they are needed."""

    iterations: int = 1600
    lines: int = 32
    tested: int = 200
    rate: float = 6e-3

    def steps(self) -> int:
        """Return how many batches it takes."""
        return self.iterations

    def build(self) -> Model:
        """Return the net with its loss."""
        model = Model("reader")
        found = scores(model, self.lines)
        model.net.add("CTC", [found, "labels", "label_lengths"], ["slopes", "costs", "unused"])
        model.add_gradients([model.averaged_loss("costs", "loss")])
        adam(model, self.rate, policy="poly", power=1.0, max_iter=self.iterations)
        return model

    def build_predictor(self) -> Model:
        """Return the net that reads as many lines as are tested: `read` are their symbols, `read_lengths` how many."""
        model = Model("reading", parameters_of=self.model)
        model.net.add_external_input("pictures")
        model.net.add("CTCGreedyDecoder", [scores(model, self.tested)], ["read_lengths", "read"])
        model.net.add_external_output("read_lengths", "read")
        return model

    def batch(self, number: int) -> Batch:
        """Return lines that are drawn with the number as seed."""
        lines = draw(self.lines, np.random.default_rng([1, number]))
        labels, lengths = lines.labels()
        return {"pictures": lines.pictures, "labels": labels, "label_lengths": lengths}

    def test(self, workspace: Workspace) -> Mapping[str, float]:
        """Return the shares of digits that were read wrong, and of lines that were read right."""
        lines = draw(self.tested, np.random.default_rng(2))
        workspace.feed("pictures", lines.pictures)
        workspace.run_net_once(self.build_predictor().net.proto)
        lengths = np.asarray(workspace.fetch("read_lengths"))
        parts = np.split(np.asarray(workspace.fetch("read")) - 1, np.cumsum(lengths)[:-1])
        errors = [wrong(part.tolist(), text) for part, text in zip(parts, lines.texts, strict=True)]
        return {
            "wrong_digits": sum(errors) / sum(map(len, lines.texts)),
            "right_lines": float(np.mean([error == 0 for error in errors])),
        }
